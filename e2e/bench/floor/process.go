package floor

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// Serve runs a server of a recording on a free port of 127.0.0.1. It writes its address to out as the first line, takes
// steps from in, one a line ("NUMBER AUTHORITY"), and ends with in.
func Serve(recording string, in io.Reader, out io.Writer) (err error) {
	r, err := ReadRecording(recording)
	if err != nil {
		return err
	}
	s := NewServer(r)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	g := s.GRPC()
	served := make(chan error, 1)
	go func() { served <- g.Serve(listener) }()
	defer func() {
		g.Stop()
		err = errors.Join(err, <-served)
	}()
	if _, err := fmt.Fprintln(out, listener.Addr()); err != nil {
		return err
	}
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		number, authority, _ := strings.Cut(lines.Text(), " ")
		n, err := strconv.Atoi(number)
		if err != nil {
			return fmt.Errorf("%q is no step: %w", lines.Text(), err)
		}
		if err := s.Step(authority, n); err != nil {
			return err
		}
	}
	return lines.Err()
}

// Process is a floor run as a process of its own.
type Process struct {
	cmd  *exec.Cmd
	addr string

	mu    sync.Mutex
	stdin io.WriteCloser
}

// Start runs a command that calls Serve with its standard input and output. The process ends with this one at the
// latest.
func Start(ctx context.Context, command ...string) (*Process, error) {
	p := &Process{cmd: exec.Command(command[0], command[1:]...)}
	p.cmd.Stderr = os.Stderr
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C is for the starter to act on
	var err error
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the floor: %w", err)
	}
	kill := context.AfterFunc(ctx, func() { _ = p.cmd.Process.Kill() }) // and then there is no line
	line, err := bufio.NewReader(stdout).ReadString('\n')
	kill()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("the floor does not say its address: %w", err), ctx.Err(), p.Stop())
	}
	p.addr = strings.TrimSpace(line)
	return p, nil
}

// Addr returns the server's address.
func (p *Process) Addr() string { return p.addr }

// Pid returns the process's id.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Step has all streams of an authority sent the step of that number.
func (p *Process) Step(authority string, number int) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, err := fmt.Fprintf(p.stdin, "%d %s\n", number, authority)
	return err
}

// Stop ends the process.
func (p *Process) Stop() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	err := p.stdin.Close()
	return errors.Join(err, p.cmd.Wait())
}
