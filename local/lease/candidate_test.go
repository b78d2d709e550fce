package lease

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

// TestCandidate checks that each change is logged once, and that Leadership returns the current
// leadership until it ends.
func TestCandidate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, logged := observer.New(zap.DebugLevel)
		s := NewCandidate[int]("things", Config{Identity: "me"}, zap.New(core))
		start := time.Now()
		time.Sleep(time.Second)
		s.observe("other", nil)
		if got, want := s.Status(), (Status{Holder: "other", Since: start}); got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
		s.observe("", errors.New("forbidden"))
		s.observe("", errors.New("forbidden, again"))
		if got := s.Status().Problem; got != "forbidden, again" {
			t.Errorf("problem %q", got)
		}
		s.observe("me", nil)
		work, end := context.WithCancelCause(t.Context())
		s.lead(work, new(7), func(context.Context, *int) {
			if got, want := s.Status(), (Status{
				Holder:  "me",
				Leading: true,
				Since:   time.Now(),
			}); got != want || *s.Leadership() != 7 {
				t.Errorf("%+v with leadership %d, want %+v", got, *s.Leadership(), want)
			}
			end(ErrTaken)
		})
		if s.Leadership() != nil || s.Status().Leading {
			t.Error("the candidate still leads after its leadership ended")
		}
		var got []string
		for _, e := range logged.All() {
			text := e.Level.String() + " " + e.Message
			for _, key := range []string{"identity", "error", "reason"} {
				if value, ok := e.ContextMap()[key]; ok {
					text += ", " + key + " " + value.(string)
				}
			}
			got = append(got, text)
		}
		if want := []string{
			"error the Lease for writing things cannot be used; still trying, error forbidden",
			"info the Lease for writing things can be used again",
			"info this replica holds the Lease and writes things, identity me",
			"info this replica no longer writes things, reason the Lease has another holder, or none",
		}; !slices.Equal(got, want) {
			t.Errorf("logged %q\nwant %q", got, want)
		}
	})
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
