package floor

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime/debug"
	"strconv"
	"strings"

	"isthmus/e2e/program"
)

// Serve runs a server of a recording on a free port of 127.0.0.1. It writes its address to out as the first line, takes
// steps from in, one a line ("NUMBER METHOD AUTHORITY"), and ends with in.
func Serve(recording string, in io.Reader, out io.Writer) (err error) {
	r, err := readRecording(recording)
	if err != nil {
		return err
	}
	s := NewServer(r)
	debug.FreeOSMemory() // what reading took is not to be used by streams, or they would seem to take nothing
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
		number, of, _ := strings.Cut(lines.Text(), " ")
		method, authority, _ := strings.Cut(of, " ")
		n, err := strconv.Atoi(number)
		if err != nil {
			return fmt.Errorf("%q is not NUMBER METHOD AUTHORITY: %w", lines.Text(), err)
		}
		if err := s.Step(method, authority, n); err != nil {
			return err
		}
	}
	return lines.Err()
}

// Process is a floor run as a process of its own.
type Process struct {
	proc *program.Process
	addr string
}

// Start runs a command that calls Serve with its standard input and output. The process ends with this one at the
// latest.
func Start(ctx context.Context, command ...string) (*Process, error) {
	p, err := program.Start(program.Config{Path: command[0], Args: command[1:], Output: os.Stderr, Announces: true})
	if err != nil {
		return nil, fmt.Errorf("start the floor: %w", err)
	}
	addr, err := p.AwaitLine(ctx)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("the floor %w", err), p.Kill())
	}
	return &Process{proc: p, addr: addr}, nil
}

// Addr returns the server's address.
func (p *Process) Addr() string { return p.addr }

// Pid returns the process's id.
func (p *Process) Pid() int { return p.proc.Pid() }

// Step sends the step of that number to all streams that have called a method for an authority.
func (p *Process) Step(method, authority string, number int) error {
	_, err := fmt.Fprintf(p.proc, "%d %s %s\n", number, method, authority)
	return err
}

// Stop ends the process, and returns its error if it has failed.
func (p *Process) Stop() error { return p.proc.Close() }
