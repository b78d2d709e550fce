package harness

import (
	"bytes"
	"context"
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

// ProcessConfig configures a Process.
type ProcessConfig struct {
	Path string
	Args []string
	Env  []string // KEY=VALUE, in addition to the environment of this process
	Jail *Jail    // optional restrictions of the process
	// SameGroup leaves the process in the process group of its parent. Signals to that group, such
	// as Ctrl-C, then reach the process too.
	SameGroup bool
	Output    io.Writer // receives standard output and standard error
	// Announces reserves the first line of standard output for AwaitLine. The rest of standard
	// output is discarded, and Output receives only standard error.
	Announces bool
}

// Jail restricts a process like a container. The environment consists only of ProcessConfig.Env.
type Jail struct {
	Root string // root directory of the process; ProcessConfig.Path is relative to it
	User int    // user and group id of the process
}

// Process is a child process that never outlives its parent. Its standard input is a pipe, which is
// closed when the parent ends. On Linux, the kernel also kills the child, even while it is paused.
// Ctrl-C does not reach the child unless SameGroup is set.
//
//	path, err := harness.Isthmus.Path(ctx)
//	...
//	p, err := harness.StartProcess(harness.ProcessConfig{Path: path, Args: []string{"gateway"}, Output: &log})
//	...
//	err = p.Await(ctx, func(ctx context.Context) error { return ready(ctx, addr) })
//
// All methods are safe for concurrent use.
type Process struct {
	cmd    *exec.Cmd
	leads  bool // whether the process leads a process group
	stdin  io.WriteCloser
	line   firstLine
	exited chan struct{} // closed when the process has been reaped
	err    error         // result of the process; valid after exited is closed
}

// StartProcess starts a process and returns once it exists. Signals to the terminal's process
// group, such as Ctrl-C, do not reach the process unless SameGroup is set.
func StartProcess(cfg ProcessConfig) (*Process, error) {
	p := &Process{
		cmd: exec.Command(cfg.Path, cfg.Args...), leads: !cfg.SameGroup,
		line: firstLine{over: make(chan struct{})}, exited: make(chan struct{}),
	}
	p.cmd.Stdout, p.cmd.Stderr = cfg.Output, cfg.Output
	if cfg.Announces {
		p.cmd.Stdout = &p.line
	}
	p.cmd.Env = append(os.Environ(), cfg.Env...)
	p.cmd.WaitDelay = time.Second // descendants of the process may hold its output open
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: !cfg.SameGroup}
	dieWithParent(p.cmd.SysProcAttr)
	if cfg.Jail != nil {
		if err := cfg.Jail.confine(p.cmd.SysProcAttr); err != nil {
			return nil, err
		}
		p.cmd.Env, p.cmd.Dir = cfg.Env, "/"
	}
	var err error
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	started := make(chan error)
	go p.run(started)
	if err := <-started; err != nil {
		if cfg.Jail != nil {
			err = fmt.Errorf("in a jail, for which this process must be root or may make user namespaces: %w", err)
		}
		return nil, err
	}
	return p, nil
}

// run starts and reaps the process. It locks its OS thread, because Linux kills the child when the
// thread that started it ends.
func (p *Process) run(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := p.cmd.Start(); err != nil {
		started <- errors.Join(err, p.stdin.Close())
		return
	}
	started <- nil
	p.err = p.cmd.Wait()
	close(p.exited)
}

func (p *Process) Pid() int { return p.cmd.Process.Pid }

func (p *Process) Write(b []byte) (int, error) { return p.stdin.Write(b) }

// Exited returns a channel that is closed when the process has ended.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// Running reports whether the process exists, including while it is paused.
func (p *Process) Running() bool {
	select {
	case <-p.exited:
		return false
	default:
		return true
	}
}

// Err describes how the process ended, even if it succeeded. It must not be called before Exited is
// closed.
func (p *Process) Err() error {
	if p.err == nil {
		return errors.New("exit status 0")
	}
	return p.err
}

// AwaitLine returns the first line of standard output. ProcessConfig.Announces must be set.
func (p *Process) AwaitLine(ctx context.Context) (string, error) {
	select {
	case <-p.line.over:
		return p.line.text.String(), nil
	case <-p.exited:
		return "", fmt.Errorf("ended before it was ready: %w", p.Err())
	case <-ctx.Done():
		return "", fmt.Errorf("was not ready in time: %w", ctx.Err())
	}
}

// Await calls check every 20 ms until it returns nil. It fails if the process or ctx ends first.
func (p *Process) Await(ctx context.Context, check func(context.Context) error) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := check(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-p.exited:
			return fmt.Errorf("ended before it was ready: %w", p.Err())
		case <-ctx.Done():
			return fmt.Errorf("was not ready in time: %w: %w", ctx.Err(), err)
		}
	}
}

// Signal sends a signal to the process and to the rest of its process group. It returns an error if
// the process has ended.
func (p *Process) Signal(sig os.Signal) error {
	if p.leads && p.Running() {
		if err := syscall.Kill(-p.Pid(), sig.(syscall.Signal)); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("%v to the group of process %d: %w", sig, p.Pid(), err)
		}
		return nil
	}
	if err := p.cmd.Process.Signal(sig); err != nil {
		return fmt.Errorf("%v to process %d: %w", sig, p.Pid(), err)
	}
	return nil
}

// Close closes the standard input and waits for the process. It returns the error of a process that
// fails.
func (p *Process) Close() error {
	err := p.stdin.Close()
	if errors.Is(err, os.ErrClosed) { // the process has already ended
		err = nil
	}
	<-p.exited
	return errors.Join(err, p.err)
}

// Kill kills the process and waits for its end. Killing a process that has already ended is not an
// error.
func (p *Process) Kill() error { return p.end(syscall.SIGKILL, nil) }

// Stop sends SIGTERM and waits for the end of the process. After the limit, Stop kills the process
// and returns an error. Stopping a process that has already ended is not an error.
func (p *Process) Stop(limit time.Duration) error {
	if err := p.end(syscall.SIGTERM, time.After(limit)); err != nil {
		return err
	}
	if !p.Running() {
		return nil
	}
	return errors.Join(fmt.Errorf("process %d has not ended within %v of SIGTERM: killed", p.Pid(), limit), p.Kill())
}

// end sends a signal and waits until the process ends or the channel receives a value.
func (p *Process) end(sig os.Signal, over <-chan time.Time) error {
	if err := p.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case <-p.exited:
	case <-over:
	}
	return nil
}

// firstLine is a writer that stores the first line and discards the rest.
type firstLine struct {
	text strings.Builder
	over chan struct{} // closed when the line is complete and text no longer changes
	done bool
}

func (f *firstLine) Write(b []byte) (int, error) {
	if f.done {
		return len(b), nil
	}
	line, _, ended := bytes.Cut(b, []byte("\n"))
	f.text.Write(line)
	if ended {
		f.done = true
		close(f.over)
	}
	return len(b), nil
}

// Tail is a writer that stores at least the last 256 KiB written. The zero value is ready to use.
// All methods are safe for concurrent use.
type Tail struct {
	To io.Writer // optional writer for all bytes; must not change

	mu   sync.Mutex
	text []byte
}

const tailBytes = 256 << 10

// Write stores b and writes it to the To writer, whose error it returns.
func (t *Tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, b...)
	if len(t.text) > 2*tailBytes {
		t.text = bytes.Clone(t.text[len(t.text)-tailBytes:])
	}
	if t.To == nil {
		return len(b), nil
	}
	return t.To.Write(b)
}

func (t *Tail) Lines(n int) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return LastLines(string(t.text), n)
}

// LastLines returns the last n lines of a text, without the final newline.
func LastLines(text string, n int) string {
	all := strings.Split(strings.TrimRight(text, "\n"), "\n")
	return strings.Join(all[max(0, len(all)-n):], "\n")
}
