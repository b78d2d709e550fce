package cluster

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
)

// process is one run of the controlplane command.
type process struct {
	cmd    *exec.Cmd
	ready  <-chan struct{} // closed when the process has said that it is ready
	exited chan struct{}   // closed when the process has been reaped
	err    error           // how it ended; read it after exited
}

func logPath(dir string) string { return filepath.Join(dir, "log") }

// spawn starts a process and returns once it exists.
func spawn(cfg Config) (*process, error) {
	args := []string{"serve", "--name", cfg.Name, "--dir", cfg.Dir, "--until-eof"}
	if cfg.Controllers != nil {
		args = append(args, "--controllers", strings.Join(cfg.Controllers, ","))
	}
	output, err := openOutput(cfg)
	if err != nil {
		return nil, err
	}
	said := newFirstLine()
	cmd := exec.Command(cfg.Binary, args...)
	cmd.Stdout, cmd.Stderr = said, output
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C is for the starter to act on
	dieWithParent(cmd.SysProcAttr)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, errors.Join(err, output.Close())
	}
	p := &process{cmd: cmd, ready: said.done, exited: make(chan struct{})}
	started := make(chan error)
	go p.run(started, stdin, output)
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// run starts the process and reaps it. It keeps its thread for as long,
// because to Linux the parent that a child dies with is a thread.
func (p *process) run(started chan<- error, stdin, output io.Closer) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := p.cmd.Start(); err != nil {
		started <- errors.Join(err, stdin.Close(), output.Close())
		return
	}
	started <- nil
	p.err = p.cmd.Wait()
	if p.err == nil {
		p.err = errors.New("exit status 0")
	}
	p.err = errors.Join(p.err, output.Close())
	close(p.exited)
}

func (p *process) running() bool {
	select {
	case <-p.exited:
		return false
	default:
		return true
	}
}

// kill ends the process and returns when it has been reaped.
func (p *process) kill() error {
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("kill process %d: %w", p.cmd.Process.Pid, err)
	}
	<-p.exited
	return nil
}

// openOutput returns where the process writes its log.
func openOutput(cfg Config) (io.WriteCloser, error) {
	if cfg.Output != nil {
		return keepOpen{cfg.Output}, nil
	}
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, err
	}
	return os.OpenFile(logPath(cfg.Dir), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
}

// keepOpen is a writer that somebody else closes.
type keepOpen struct{ io.Writer }

func (keepOpen) Close() error { return nil }

// firstLine is a writer that reports its first line's end and keeps nothing.
type firstLine struct {
	done chan struct{}
	over bool
}

func newFirstLine() *firstLine { return &firstLine{done: make(chan struct{})} }

func (f *firstLine) Write(b []byte) (int, error) {
	if !f.over && bytes.IndexByte(b, '\n') >= 0 {
		f.over = true
		close(f.done)
	}
	return len(b), nil
}
