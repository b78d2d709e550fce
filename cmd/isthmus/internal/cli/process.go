package cli

import (
	"context"
	"fmt"
	"io"
	"os"
)

// Process is what a run gets from the operating system.
type Process struct {
	Name           string   // of a verb's run: how the user called it, for messages: "kubectl isthmus get"
	Args           []string // for a program: its verb and what follows; for a verb: its arguments
	Stdout, Stderr io.Writer
	Signals        <-chan os.Signal // those that ask the process to end
}

// PrintHelp prints a help text that is written with the name of program, with the one
// by which the user called it.
func (p Process) PrintHelp(help func(io.Writer)) {
	name, _ := cutLast(p.Name)
	printRenamed(p.Stdout, help, name)
}

// NoArguments returns a usage error if there are any.
func (p Process) NoArguments(verb string) error {
	if len(p.Args) > 0 {
		return Usagef("unexpected argument %q: %s takes none", p.Args[0], verb)
	}
	return nil
}

// Interruptible returns a context that ends at the first signal. The function that it
// returns must be called: it waits for a goroutine.
func (p Process) Interruptible(ctx context.Context) (context.Context, func()) {
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

// UsageError is an error in the arguments: exit code 2.
type UsageError struct{ error }

func (e UsageError) Unwrap() error { return e.error }

// Usagef returns an error in the arguments.
func Usagef(format string, args ...any) error { return UsageError{fmt.Errorf(format, args...)} }
