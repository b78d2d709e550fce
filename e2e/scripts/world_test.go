package scripts

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"isthmus/e2e/poll"
)

// What the scripts may use besides their tools is what every Unix has.
var unix = []string{"sh", "cat", "cp", "dirname", "grep", "mkdir", "mktemp", "mv", "rm", "sed", "sort", "tail", "uniq"}

// tools are those that demo.sh looks for.
var tools = []string{"docker", "k3d", "kubectl", "linkerd", "step", "make", "go"}

func repository(name string) string { return filepath.Join("..", "..", name) }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// world is a copy of the scripts, and the stand-ins with their model.
type world struct {
	t     *testing.T
	shell string // what runs them
	root  string
	bin   string
	model standIn
}

func newWorld(t *testing.T) *world {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	root = filepath.Join(root, "a blank")
	w := &world{t: t, shell: "sh", root: root, bin: filepath.Join(t.TempDir(), "bin"), model: standIn{dir: t.TempDir()}}
	for _, dir := range []string{"manifests/k3d", "manifests/linkerd"} {
		must(t, os.CopyFS(filepath.Join(root, dir), os.DirFS(repository(dir))))
	}
	destination, err := os.ReadFile(filepath.Join("..", "testdata", "linkerd", "destination.yaml"))
	must(t, err)
	must(t, w.model.write(string(destination), "destination.yaml"))
	must(t, os.Mkdir(w.bin, 0o755))
	for _, name := range unix {
		path, err := exec.LookPath(name)
		must(t, err)
		must(t, os.Symlink(path, filepath.Join(w.bin, name)))
	}
	self, err := os.Executable()
	must(t, err)
	for _, name := range slices.Concat(tools, []string{"date", "sleep"}) {
		must(t, os.Symlink(self, filepath.Join(w.bin, name)))
	}
	return w
}

// result is how a script has ended.
type result struct {
	code     int
	out, err string
}

// command is a script in a process group of its own, as a terminal would start it.
func (w *world) command(script string, env ...string) (*exec.Cmd, *bytes.Buffer, *bytes.Buffer) {
	path, err := exec.LookPath(w.shell)
	must(w.t, err)
	cmd := exec.CommandContext(w.t.Context(), path, filepath.Join(w.root, "manifests/k3d", script))
	cmd.Env = append([]string{"PATH=" + w.bin, "TMPDIR=" + w.t.TempDir(), modelVariable + "=" + w.model.dir}, env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var out, complaint bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &complaint
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 10 * time.Second
	return cmd, &out, &complaint
}

// run runs a script to its end. It makes no call that the stand-ins do not know.
func (w *world) run(script string, env ...string) result {
	w.t.Helper()
	cmd, out, complaint := w.command(script, env...)
	return w.end(cmd.Run(), out, complaint)
}

func (w *world) end(err error, out, complaint *bytes.Buffer) result {
	w.t.Helper()
	if unknown := w.model.read("unknown"); unknown != "" {
		w.t.Errorf("a call that the stand-ins do not know: %s", unknown)
	}
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		w.t.Fatal(err)
	}
	r := result{out: out.String(), err: complaint.String()}
	if exit != nil {
		r.code = exit.ExitCode()
	}
	return r
}

// interrupt runs demo.sh, sends a signal to its process group when a call hangs, and returns how it ends. With
// again, so does a call of the cleaning up, and the signal is sent once more.
func (w *world) interrupt(call string, sig syscall.Signal, again string) result {
	w.t.Helper()
	// What ignores signals has children that do too; this test's may run where an interrupt is ignored.
	ignored := make(chan os.Signal, 1)
	signal.Notify(ignored, sig)
	defer signal.Stop(ignored)
	must(w.t, w.model.write(call, "hang"))
	cmd, out, complaint := w.command("demo.sh")
	must(w.t, cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	w.signal(cmd, sig, ended, complaint, again)
	if again != "" {
		w.signal(cmd, sig, ended, complaint, "")
	}
	return w.end(<-ended, out, complaint)
}

// signal waits until a call hangs, and lets another one hang after the signal.
func (w *world) signal(cmd *exec.Cmd, sig syscall.Signal, ended chan error, complaint *bytes.Buffer, next string) {
	w.t.Helper()
	err := poll.Until(w.t.Context(), time.Minute, 5*time.Millisecond, func() error {
		select {
		case err := <-ended:
			w.t.Fatalf("it has ended before it hangs: %v\n%s", err, complaint)
		default:
		}
		return os.Remove(w.model.path("hanging"))
	})
	must(w.t, err)
	must(w.t, w.model.write(next, "hang"))
	must(w.t, syscall.Kill(-cmd.Process.Pid, sig))
}

// calls returns what was called since the last time.
func (w *world) calls() []string {
	w.t.Helper()
	calls := strings.Split(strings.TrimSuffix(w.model.read("calls"), "\n"), "\n")
	must(w.t, w.model.write("", "calls"))
	return calls
}

// what is there: clusters, networks, images, and files of the state.
func (w *world) there() (all []string) {
	for _, kind := range []string{"clusters", "networks", "images"} {
		all = append(all, w.model.list(kind)...)
	}
	files, _ := filepath.Glob(filepath.Join(w.root, "out", "k3d", "*"))
	for _, f := range files {
		all = append(all, filepath.Base(f))
	}
	if _, err := os.Stat(filepath.Join(w.root, "out", "k3d")); err == nil {
		all = append(all, "out/k3d")
	}
	slices.Sort(all)
	return all
}
