package gateway

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
)

// process is one run of the gateway.
type process struct {
	cmd    *exec.Cmd
	exited chan struct{} // closed when the process has been reaped
	err    error         // how it ended; read it after exited
}

func spawn(cfg Config, args []string, output io.Writer) (*process, error) {
	cmd := exec.Command(cfg.Binary, args...)
	cmd.Stdout, cmd.Stderr = output, output
	cmd.WaitDelay = time.Second
	cmd.Env = append(os.Environ(), "HOSTNAME="+cfg.Hostname)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C is for the starter to act on
	dieWithParent(cmd.SysProcAttr)
	p := &process{cmd: cmd, exited: make(chan struct{})}
	started := make(chan error)
	go p.run(started)
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// run starts the process and reaps it. It keeps its thread for as long, because to Linux the parent that a child dies
// with is a thread.
func (p *process) run(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := p.cmd.Start(); err != nil {
		started <- err
		return
	}
	started <- nil
	p.err = p.cmd.Wait()
	if p.err == nil {
		p.err = errors.New("exit status 0")
	}
	close(p.exited)
}

func (p *process) stop() error {
	signal := func(sig os.Signal) error {
		if err := p.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return fmt.Errorf("stop the gateway: %v: %w", sig, err)
		}
		return nil
	}
	if err := signal(syscall.SIGTERM); err != nil {
		return err
	}
	limit := time.NewTimer(StopLimit)
	defer limit.Stop()
	select {
	case <-p.exited:
		return nil
	case <-limit.C:
	}
	if err := signal(syscall.SIGKILL); err != nil {
		return err
	}
	<-p.exited
	return nil
}

// tail is a writer that keeps the end of what was written.
type tail struct {
	to io.Writer // gets everything too, if not nil

	mu   sync.Mutex
	text []byte
}

const tailBytes = 256 << 10

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, b...)
	if len(t.text) > 2*tailBytes {
		t.text = bytes.Clone(t.text[len(t.text)-tailBytes:])
	}
	if t.to == nil {
		return len(b), nil
	}
	return t.to.Write(b)
}

func (t *tail) lines(n int) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := strings.Split(strings.TrimRight(string(t.text), "\n"), "\n")
	return strings.Join(all[max(0, len(all)-n):], "\n")
}
