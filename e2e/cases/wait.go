package cases

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/pmezard/go-difflib/difflib"
)

const (
	// defaultTimeout is how long an expectation may take to become true.
	defaultTimeout = 10 * time.Second

	holdTime    = 300 * time.Millisecond
	missingTime = 3 * time.Second
)

// wait is how to wait for a condition.
type wait struct {
	limit   time.Duration
	hold    time.Duration          // the condition must stay true for that long
	changed func() <-chan struct{} // closed when it is worth looking again
	poll    time.Duration          // look again after that long
}

// final is an error that no waiting ends.
type final struct{ error }

func (f final) Unwrap() error { return f.error }

// eventually waits until check returns no error. check also returns a number that grows by one with each state that
// there has been; where a state has been skipped while the condition is held, holding begins anew.
func eventually(ctx context.Context, w wait, check func() (int64, error)) error {
	deadline := time.NewTimer(limitOf(ctx, w.limit))
	defer deadline.Stop()
	var held *time.Timer // runs while the condition is true
	var seen int64
	for {
		var changed <-chan struct{}
		if w.changed != nil {
			changed = w.changed()
		}
		number, err := check()
		var f final
		switch {
		case errors.As(err, &f):
			return f.error
		case err != nil && held != nil:
			held.Stop()
			held = nil
			if deadlineOver(deadline) {
				return err
			}
		case err == nil && w.hold == 0:
			return nil
		case err == nil && held == nil:
			held = time.NewTimer(w.hold)
			defer held.Stop()
		case err == nil && number > seen+1:
			held.Reset(w.hold)
		}
		seen = number

		var holding <-chan time.Time
		over := deadline.C
		if held != nil {
			holding, over = held.C, nil // what became true in time may be held beyond it
		}
		var poll <-chan time.Time
		if w.poll > 0 {
			poll = time.After(w.poll)
		}
		select {
		case <-changed:
		case <-poll:
		case <-holding:
			return nil
		case <-over:
			return err
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		}
	}
}

func deadlineOver(t *time.Timer) bool {
	select {
	case <-t.C:
		return true
	default:
		return false
	}
}

// jsonDiff shows two JSON values line by line: what only the first has after -, what only the
// second has after +, and three lines around each change.
func jsonDiff(want, got any) string {
	text, err := difflib.GetUnifiedDiffString(difflib.UnifiedDiff{A: jsonLines(want), B: jsonLines(got), Context: 3})
	if err != nil {
		return err.Error()
	}
	const limit = 8000
	if len(text) > limit {
		return text[:limit] + "…"
	}
	return strings.TrimSuffix(text, "\n")
}

// jsonLines returns a value's indented JSON, with a blank before each line that keeps it from the - or +.
func jsonLines(v any) []string {
	text, err := json.MarshalIndent(v, " ", " ")
	if err != nil {
		text = []byte(err.Error())
	}
	return slices.Collect(strings.Lines(" " + string(text) + "\n"))
}
