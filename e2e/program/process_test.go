package program

import (
	"context"
	"errors"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// shell starts a script that announces itself.
func shell(t *testing.T, script string) *Process {
	t.Helper()
	p, err := Start(Config{Path: "/bin/sh", Args: []string{"-c", script}, Announces: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Kill(); err != nil || p.Running() {
			t.Errorf("killed, and running is %v: %v", p.Running(), err)
		}
	})
	return p
}

func TestInputAndAnnouncement(t *testing.T) {
	p := shell(t, "printf 'at '; read word; echo $word; echo more; cat >&2; exit 3")
	if _, err := p.Write([]byte("home\n")); err != nil {
		t.Fatal(err)
	}
	if line, err := p.AwaitLine(t.Context()); line != "at home" || err != nil {
		t.Errorf("announced %q, %v", line, err)
	}
	if err := p.Close(); err == nil || err.Error() != "exit status 3" {
		t.Errorf("closed: %v", err)
	}
}

func TestEndsBeforeItIsReady(t *testing.T) {
	p := shell(t, "exit 3")
	if _, err := p.AwaitLine(t.Context()); err == nil || !strings.Contains(err.Error(), "before it was ready: exit status 3") {
		t.Error(err)
	}
	never := func(context.Context) error { return errors.New("not yet") }
	if err := p.Await(t.Context(), never); err == nil || !strings.Contains(err.Error(), "before it was ready: exit status 3") {
		t.Error(err)
	}
	if err := shell(t, "exit 0").Close(); err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := shell(t, "exec sleep 60").Await(ctx, never); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "not yet") {
		t.Error(err)
	}
}

// TestStop: SIGTERM comes first, and what ignores it is killed.
func TestStop(t *testing.T) {
	for script, want := range map[string]string{
		"trap 'exit 4' TERM; echo; while true; do sleep 0.01; done": "exit status 4",
		"trap '' TERM; echo; while true; do sleep 0.01; done":       "signal: killed",
	} {
		p := shell(t, script)
		if _, err := p.AwaitLine(t.Context()); err != nil {
			t.Fatal(err)
		}
		limit, killed := 20*time.Second, want == "signal: killed"
		if killed {
			limit = 100 * time.Millisecond
		}
		if err := p.Stop(limit); (err != nil) != killed || p.Running() || p.Err().Error() != want {
			t.Errorf("%s: %v, ended by %v", script, err, p.Err())
		}
		if err := p.Signal(syscall.SIGTERM); err == nil {
			t.Error("a signal reached a process that has ended")
		}
	}
}

func TestTail(t *testing.T) {
	var all strings.Builder
	tail := &Tail{To: &all}
	for range 3 * tailBytes / 8 {
		if _, err := tail.Write([]byte("1234567\n")); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := tail.Write([]byte("last\n")); err != nil || all.Len() != 3*tailBytes+5 {
		t.Errorf("%d bytes were passed on, %v", all.Len(), err)
	}
	if got := tail.Lines(2); got != "1234567\nlast" || len(tail.text) > 2*tailBytes {
		t.Errorf("%q of %d bytes", got, len(tail.text))
	}
}
