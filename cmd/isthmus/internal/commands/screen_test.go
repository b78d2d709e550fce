package commands

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	pb "github.com/linkerd/linkerd2-proxy-api/go/destination"
)

var noon = time.Date(2026, 9, 1, 12, 0, 0, 0, time.UTC)

// TestShowOnlyChanges: a state like the one before is not printed again.
func TestShowOnlyChanges(t *testing.T) {
	for _, redraw := range []bool{false, true} {
		var b bytes.Buffer
		out := &screen{w: &b, redraw: redraw}
		var state getState
		s := session[pb.Update]{of: "web:80", state: &state}
		for _, u := range []struct {
			apply  func() error
			change bool
		}{
			{func() error { return state.apply(add("10.0.0.1:80")) }, true},
			{func() error { return state.apply(add("10.0.0.1:80")) }, false},
			{func() error { return state.apply(none(true)) }, true},
			{func() error { return state.apply(none(false)) }, true},
			{func() error { return state.apply(none(false)) }, false},
		} {
			b.Reset()
			if err := errors.Join(u.apply(), s.show(out)); err != nil {
				t.Fatal(err)
			}
			if got := b.Len() > 0; got != u.change {
				t.Errorf("printed %q, want a change: %t", b.String(), u.change)
			}
			if u.change && strings.HasPrefix(b.String(), "\x1b[H\x1b[2J") != redraw {
				t.Errorf("redraw %t: %q", redraw, b.String())
			}
		}
	}
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("the pipe is closed") }

func TestShowFails(t *testing.T) {
	s := session[pb.Update]{state: &getState{}}
	if err := s.show(&screen{w: broken{}}); err == nil || !strings.Contains(err.Error(), "the pipe is closed") {
		t.Errorf("error %v", err)
	}
}
