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

// Process is the environment in which a command runs.
type Process struct {
	Build          adminapi.Build // of a command's run: build of the program
	Name           string         // of a command's run: name as typed, such as "kubectl isthmus get"
	Args           []string       // of a program: the command and its arguments; of a command: its arguments
	Stdin          io.Reader      // nil if there is none
	Stdout, Stderr io.Writer
	Signals        <-chan os.Signal // signals that end the process; only for commands with OwnSignals
	Interactive    bool             // Stdin and Stderr are a terminal, so that a user can answer
}

// interruptible returns a context that is canceled by the first signal. The caller must call the
// returned function, which stops a goroutine and waits for it.
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

// Confirm asks a question and returns nil if the answer is yes. If standard input is not a
// terminal, Confirm returns a usage error that suggests --yes.
func (p Process) Confirm(ctx context.Context, question string) error {
	if !p.Interactive || p.Stdin == nil {
		return Usagef("confirmation is required, but standard input is not a terminal: use --yes")
	}
	fmt.Fprintf(p.Stderr, "%s [y/N] ", question)
	answer := make(chan string, 1)
	go func() { // may outlive this call, because a read can't be interrupted
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

// SlowAfter is how long a command waits before it prints what it is waiting for.
const SlowAfter = time.Second

// afterLimit is how long Await continues to wait for a function after the context is done. Only a
// credential plugin in the kubeconfig can keep a function from returning in time.
const afterLimit = time.Second

// Await calls a function and returns its error. After a second, Await prints the word "waiting"
// followed by the purpose, such as " for the replicas". If the function is still running one second
// after ctx is done, Await returns ctx's error. The caller must not use the results of a function
// that is still running.
func (p Process) Await(ctx context.Context, purpose string, work func() error) error {
	done := make(chan error, 1)
	slow := time.After(SlowAfter)
	ended := ctx.Done()
	go func() { done <- work() }()
	for late := (<-chan time.Time)(nil); ; {
		select {
		case err := <-done:
			return err
		case <-slow:
			fmt.Fprintf(p.Stderr, "%s: waiting%s\n", p.Name, purpose)
		case <-ended:
			ended = nil
			late = time.After(afterLimit)
		case <-late:
			return ctx.Err()
		}
	}
}

// UsageError is an error in the arguments. A UsageError results in exit code 2.
type UsageError struct{ error }

func (e UsageError) Unwrap() error { return e.error }

// Usagef returns a formatted UsageError.
func Usagef(format string, args ...any) error { return UsageError{fmt.Errorf(format, args...)} }
