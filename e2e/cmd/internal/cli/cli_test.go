package cli

import (
	"errors"
	"flag"
	"fmt"
	"testing"
)

func TestExitCode(t *testing.T) {
	for want, errs := range map[int][]error{
		0:   {nil, flag.ErrHelp},
		1:   {errors.New("broken"), fmt.Errorf("wrapped: %w", ErrPrinted)},
		2:   {Usagef("-x is missing"), fmt.Errorf("wrapped: %w", Usage(errors.New("x"))), errors.Join(errors.New("other"), Usagef("x"))},
		130: {errors.Join(ErrInterrupted, errors.New("cleaning up failed"))},
	} {
		for _, err := range errs {
			if got := exitCode(err); got != want {
				t.Errorf("%v: %d, not %d", err, got, want)
			}
		}
	}
}
