package harness

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

// UsageError is an error in the arguments, or in a file that the arguments refer to. The exit code
// is 2.
type UsageError struct{ error }

// Usage wraps an error in a UsageError.
func Usage(err error) error { return UsageError{err} }

// Usagef returns a UsageError with a formatted message.
func Usagef(format string, args ...any) error { return Usage(fmt.Errorf(format, args...)) }

var (
	// ErrPrinted reports a failure whose details have already been printed. The exit code is 1.
	ErrPrinted = errors.New("failed")
	// ErrInterrupted reports that a signal ended the command. The exit code is 130, as after Ctrl-C
	// in a shell.
	ErrInterrupted = errors.New("interrupted")
)

// ParseFlags parses a command's flags, which must use flag.ContinueOnError. For -help, it prints
// the help text and the flags and returns flag.ErrHelp. Invalid arguments return a UsageError.
func ParseFlags(flags *flag.FlagSet, args []string, help string, out io.Writer) error {
	flags.SetOutput(io.Discard)
	err := flags.Parse(args)
	if errors.Is(err, flag.ErrHelp) {
		fmt.Fprint(out, help)
		flags.SetOutput(out)
		flags.PrintDefaults()
	} else if err != nil {
		return Usage(err)
	}
	return err
}

// Main runs a command and exits. SIGINT, SIGTERM and SIGHUP cancel the context, and a second signal
// exits without cleanup. Main prints errors to standard error, prefixed with the command's name.
func Main(name string, run func(context.Context) error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	context.AfterFunc(ctx, stop)
	err := run(ctx)
	if err != nil && !errors.Is(err, flag.ErrHelp) && !errors.Is(err, ErrPrinted) {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
	}
	os.Exit(exitCode(err))
}

func exitCode(err error) int {
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
		return 0
	case errors.As(err, new(UsageError)):
		return 2
	case errors.Is(err, ErrInterrupted):
		return 130
	default:
		return 1
	}
}
