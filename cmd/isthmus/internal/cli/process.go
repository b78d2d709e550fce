package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// Process is what a run gets from the operating system.
type Process struct {
	Name           string    // of a verb's run: how the user called it, for messages: "kubectl isthmus get"
	Args           []string  // for a program: its verb and what follows; for a verb: its arguments
	Stdin          io.Reader // nil: there is none
	Stdout, Stderr io.Writer
	Signals        <-chan os.Signal // those that ask the process to end; for a verb with OwnSignals only
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

// UsageError is an error in the arguments: exit code 2.
type UsageError struct{ error }

func (e UsageError) Unwrap() error { return e.error }

// Usagef returns an error in the arguments.
func Usagef(format string, args ...any) error { return UsageError{fmt.Errorf(format, args...)} }
