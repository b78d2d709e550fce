package harness

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// If starterEnv is set, the test binary starts a process that does not read its input, prints the
// id of that process and hangs.
const starterEnv = "PROGRAM_TEST_STARTER"

func TestMain(m *testing.M) {
	if os.Getenv(starterEnv) == "" {
		os.Exit(m.Run())
	}
	p, err := StartProcess(ProcessConfig{Path: "/bin/sleep", Args: []string{"600"}})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println(p.Pid())
	select {}
}

// TestEndsWithItsStarter kills a process that has started another process, and checks that both
// end. On systems other than Linux, a child only ends if it reads its input: see TestUntilEOF.
func TestEndsWithItsStarter(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux ends a process together with its parent")
	}
	p := startProcess(t, ProcessConfig{Path: os.Args[0], Env: []string{starterEnv + "=1"}, Announces: true})
	line, err := p.AwaitLine(t.Context())
	if killErr := p.Kill(); killErr != nil {
		t.Error(killErr)
	}
	pid, wrong := strconv.Atoi(line)
	if err != nil || wrong != nil {
		t.Fatalf("the starter printed %q, %v", line, err)
	}
	for began := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		if text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); len(text) == 0 { // empty for a zombie
			return
		}
		if time.Since(began) > time.Minute {
			_ = syscall.Kill(pid, syscall.SIGKILL)
			t.Fatalf("process %d is still running", pid)
		}
	}
}

// TestUntilEOF checks that a cluster ends when its standard input is closed.
func TestUntilEOF(t *testing.T) {
	path, err := Controlplane.Path(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	p := startProcess(t, ProcessConfig{
		Path:   path,
		Args:   []string{"serve", "--name", "west", "--dir", t.TempDir(), "--until-eof"},
		Output: t.Output(),
	})
	if err := p.stdin.Close(); err != nil {
		t.Error(err)
	}
	select {
	case <-p.Exited():
		if got := p.Err().Error(); got != "exit status 0" {
			t.Error(got)
		}
	case <-time.After(2 * time.Minute):
		t.Error("the cluster is still running")
	}
}

func startProcess(t *testing.T, cfg ProcessConfig) *Process {
	t.Helper()
	p, err := StartProcess(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Kill() })
	return p
}
