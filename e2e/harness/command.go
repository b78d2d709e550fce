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

// UsageError is a mistake in the arguments, or in a file that they name. The exit code is 2.
type UsageError struct{ error }

// Usage makes an error a UsageError.
func Usage(err error) error { return UsageError{err} }

// Usagef returns a UsageError of this text.
func Usagef(format string, args ...any) error { return Usage(fmt.Errorf(format, args...)) }

var (
	// ErrPrinted is a failure of which everything has been printed. The exit code is 1.
	ErrPrinted = errors.New("failed")
	// ErrInterrupted is an end by a signal. The exit code is 130, as that of a process which Ctrl-C has killed.
	ErrInterrupted = errors.New("interrupted")
)

// ParseFlags parses a command's flags, which are those of ContinueOnError. For -help it prints the
// text and the flags, and returns flag.ErrHelp. A mistake in the arguments is a UsageError.
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

// Main runs a command and ends the process. SIGINT, SIGTERM and SIGHUP cancel the context. A second
// signal ends the process without cleaning up. Main prints errors to standard error, after the
// command's name.
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
