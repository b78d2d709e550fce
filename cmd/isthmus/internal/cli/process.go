package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"isthmus/internal/adminapi"
)

// Process is what a run gets from the operating system.
type Process struct {
	Build          adminapi.Build // of a command's run: what the program was built from
	Name           string         // of a command's run: how the user called it, for messages: "kubectl isthmus get"
	Args           []string       // for a program: its command and what follows; for a command: its arguments
	Stdin          io.Reader      // nil: there is none
	Stdout, Stderr io.Writer
	Signals        <-chan os.Signal // those that ask the process to end; for a command with OwnSignals only
	Interactive    bool             // Stdin and Stderr are a terminal, at which a user can answer
}

// interruptible returns a context that ends at the first signal. The function that it
// returns must be called: it waits for a goroutine.
func (p Process) interruptible(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		select {
		case <-p.Signals:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, func() { cancel(); <-done }
}

// Confirm asks a question, and returns nil if the answer is yes. Where no user can
// answer it returns a usage error, which names the flag --yes.
func (p Process) Confirm(ctx context.Context, question string) error {
	if !p.Interactive || p.Stdin == nil {
		return Usagef("this asks before it changes anything, and standard input is no terminal: give --yes")
	}
	fmt.Fprintf(p.Stderr, "%s [y/N] ", question)
	answer := make(chan string, 1)
	go func() { // it may outlive this call: a read can't be interrupted
		line, _ := bufio.NewReader(io.LimitReader(p.Stdin, 100)).ReadString('\n')
		answer <- strings.ToLower(strings.TrimSpace(line))
	}()
	select {
	case text := <-answer:
		if text == "y" || text == "yes" {
			return nil
		}
		return errors.New("not confirmed: nothing has been changed")
	case <-ctx.Done():
		return errors.New("interrupted: nothing has been changed")
	}
}

// SlowAfter is when a command that waits prints what for.
const SlowAfter = time.Second

// afterLimit is how long work may go on whose time is over. Only work that waits for a program of
// the kubeconfig takes as long.
const afterLimit = time.Second

// Await does work, and prints what it waits for if that takes longer than a second: what follows
// the word "waiting", such as " for x" or ": making x". If the context ends and the work goes on
// all the same, Await returns: then the results of the work must not be read.
func (p Process) Await(ctx context.Context, what string, work func() error) error {
	done, slow, ended := make(chan error, 1), time.After(SlowAfter), ctx.Done()
	go func() { done <- work() }()
	for late := (<-chan time.Time)(nil); ; {
		select {
		case err := <-done:
			return err
		case <-slow:
			fmt.Fprintf(p.Stderr, "%s: waiting%s\n", p.Name, what)
		case <-ended:
			ended, late = nil, time.After(afterLimit)
		case <-late:
			return ctx.Err()
		}
	}
}

// UsageError is an error in the arguments: exit code 2.
type UsageError struct{ error }

func (e UsageError) Unwrap() error { return e.error }

// Usagef returns an error in the arguments.
func Usagef(format string, args ...any) error { return UsageError{fmt.Errorf(format, args...)} }
