package cli

import (
	"fmt"
	"io"
	"os"
)

// Process is what a run gets from the operating system.
type Process struct {
	Args           []string // for a program: its verb and what follows; for a verb: what follows it
	Stdout, Stderr io.Writer
	Signals        <-chan os.Signal // those that ask the process to end
}

// UsageError is an error in the arguments: exit code 2.
type UsageError struct{ error }

func (e UsageError) Unwrap() error { return e.error }

// Usagef returns an error in the arguments.
func Usagef(format string, args ...any) error { return UsageError{fmt.Errorf(format, args...)} }
