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
	defaultTimeout = 10 * time.Second
	// defaultLimit only ends cases that hang. A case that writes 5,000 objects takes several minutes
	// on a busy machine.
	defaultLimit = 15 * time.Minute

	holdTime    = 300 * time.Millisecond
	missingTime = 3 * time.Second
)

type wait struct {
	limit   time.Duration
	hold    time.Duration          // time for which the condition must stay true
	changed func() <-chan struct{} // closed when the condition may have changed
	poll    time.Duration          // interval between checks
}

// final is an error after which waiting stops.
type final struct{ error }

func (f final) Unwrap() error { return f.error }

// eventually waits until check succeeds for the hold time. Besides its error, check returns the
// number of states so far. If a state was skipped during the hold time, the hold time starts again.
func eventually(ctx context.Context, w wait, check func() (int64, error)) error {
	deadline := time.NewTimer(limitOf(ctx, w.limit))
	defer deadline.Stop()
	var held *time.Timer // active while the condition is true
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
			holding, over = held.C, nil // a condition that becomes true in time may hold beyond the timeout
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

// jsonDiff returns a line diff of two JSON values with three lines of context. The prefix - marks
// wanted lines and + marks actual lines.
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

// jsonLines returns the lines of indented JSON, each with a leading blank, so that no line begins
// with - or +.
func jsonLines(v any) []string {
	text, err := json.MarshalIndent(v, " ", " ")
	if err != nil {
		text = []byte(err.Error())
	}
	return slices.Collect(strings.Lines(" " + string(text) + "\n"))
}
