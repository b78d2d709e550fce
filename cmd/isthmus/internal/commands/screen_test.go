package commands

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	pb "github.com/linkerd/linkerd2-proxy-api/go/destination"
)

// TestShowOnlyChanges checks that a state that equals the previous one is not printed again.
func TestShowOnlyChanges(t *testing.T) {
	for _, redraw := range []bool{false, true} {
		var b bytes.Buffer
		out := &screen{w: &b, redraw: redraw}
		var state getState
		s := session[pb.Update]{authority: "web:80", state: &state}
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

// TestJSONLine checks that programs decode escaped characters to the original characters.
func TestJSONLine(t *testing.T) {
	texts := []string{"a b", "\x1b\u009b\u202e\u2028\U000e0001\u00a0\u007f", "ünï"}
	line, err := JSONLine(texts)
	if err != nil || string(line) != `["a b","\u001b\u009b\u202e\u2028\udb40\udc01\u00a0\u007f","ünï"]`+"\n" {
		t.Errorf("%s, %v", line, err)
	}
	var back []string
	if err := json.Unmarshal(line, &back); err != nil || !reflect.DeepEqual(back, texts) {
		t.Errorf("%q, %v", back, err)
	}
}
