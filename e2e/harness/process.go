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

// ProcessConfig is what to run.
type ProcessConfig struct {
	Path string
	Args []string
	Env  []string // KEY=VALUE, beyond the environment of this process
	Jail *Jail    // nil: it runs as this process does
	// SameGroup means that the process stays in the process group of this process. Signal of this process's starter
	// reaches it too.
	SameGroup bool
	Output    io.Writer // gets standard output and standard error
	// Announces means that the first line of standard output is for AwaitLine. What follows it is dropped, and Output
	// gets standard error only.
	Announces bool
}

// Jail is what a process runs in, as it would in a container: with no environment but Config.Env.
type Jail struct {
	Root string // this folder is all files that there are, and Config.Path is within it
	User int    // who it runs as, user and group
}

// Process is a child of this process, which it never outlives: its standard input is a pipe from
// here, which ends with this process at the latest. On Linux the kernel also kills the child then,
// even while it is paused. Ctrl-C does not reach the child: the starter ends it. The methods may be
// called from several goroutines.
//
//	path, err := harness.Isthmus.Path(ctx)
//	...
//	p, err := harness.StartProcess(harness.ProcessConfig{Path: path, Args: []string{"gateway"}, Output: &log})
//	...
//	err = p.Await(ctx, func(ctx context.Context) error { return ready(ctx, addr) })
type Process struct {
	cmd    *exec.Cmd
	leads  bool // it leads a process group
	stdin  io.WriteCloser
	line   firstLine
	exited chan struct{} // closed once the process has been reaped
	err    error         // how it ended; read it after exited
}

// StartProcess starts a process and returns once it exists. A signal for the terminal's group, such
// as Ctrl-C, does not reach it.
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
	p.cmd.WaitDelay = time.Second // for output that a child of the process holds open
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

// run starts the process and reaps it. It keeps its thread for as long, because to Linux the parent that a child dies
// with is a thread.
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

// Pid returns the process's id.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Write writes to the process's standard input.
func (p *Process) Write(b []byte) (int, error) { return p.stdin.Write(b) }

// Exited returns a channel that is closed once the process has ended.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// Running reports whether the process is there, paused or not.
func (p *Process) Running() bool {
	select {
	case <-p.exited:
		return false
	default:
		return true
	}
}

// Err returns how the process ended, also when it ended well. Call it once Exited is closed.
func (p *Process) Err() error {
	if p.err == nil {
		return errors.New("exit status 0")
	}
	return p.err
}

// AwaitLine returns the first line of standard output. The process must announce it.
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

// Await calls check every 20 ms until it returns nil. It fails when the process or ctx ends first.
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

// Signal sends a signal to the process and to those of its children that have stayed in its group. To send one to a
// process that has ended is an error.
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

// Close ends the input of a process that ends with it, and returns the process's error, if it has ended with one.
func (p *Process) Close() error {
	err := p.stdin.Close()
	if errors.Is(err, os.ErrClosed) { // the process has ended already
		err = nil
	}
	<-p.exited
	return errors.Join(err, p.err)
}

// Kill ends the process without warning and returns once it is gone. Killing what has ended already is no error.
func (p *Process) Kill() error { return p.end(syscall.SIGKILL, nil) }

// Stop ends the process by SIGTERM, and by SIGKILL if it is still there after the limit, which is
// an error. It returns once the process is gone. Stopping what has ended already is no error.
func (p *Process) Stop(limit time.Duration) error {
	if err := p.end(syscall.SIGTERM, time.After(limit)); err != nil {
		return err
	}
	if !p.Running() {
		return nil
	}
	return errors.Join(fmt.Errorf("process %d has not ended within %v of SIGTERM: killed", p.Pid(), limit), p.Kill())
}

// end sends a signal and waits for the process's end, or until it is over.
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

// firstLine is a writer that keeps the first line and drops what follows.
type firstLine struct {
	text strings.Builder
	over chan struct{} // closed once the line is complete, after which text does not change
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

// Tail is a writer that keeps the end of what was written, 256 KiB at least. The zero value is
// ready for use, by several goroutines.
type Tail struct {
	To io.Writer // gets everything too, if not nil; fixed

	mu   sync.Mutex
	text []byte
}

const tailBytes = 256 << 10

// Write never fails by itself; it returns the error of To.
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

// Lines returns the last n lines.
func (t *Tail) Lines(n int) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return LastLines(string(t.text), n)
}

// LastLines returns the last n lines of a text, without the newline at its end.
func LastLines(text string, n int) string {
	all := strings.Split(strings.TrimRight(text, "\n"), "\n")
	return strings.Join(all[max(0, len(all)-n):], "\n")
}
