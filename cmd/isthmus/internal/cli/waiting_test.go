package cli

import (
	"bytes"
	"testing"
	"testing/synctest"
	"time"
)

// TestWaiting: what is waited for is printed after a second, whenever it changes then, and not after the end.
func TestWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b bytes.Buffer
		w := Process{Name: "demo", Stderr: &b}.Wait(": a")
		time.Sleep(slowAfter - 1)
		w.On(": b")
		if b.Len() > 0 {
			t.Errorf("early: %q", b.String())
		}
		w.On(": b") // by its lock, what is printed next comes after this look at b
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		w.On(": b")
		w.On(" for c")
		w.Stop()
		w.On(": d")
		if got := b.String(); got != "demo: waiting: b\ndemo: waiting for c\n" {
			t.Errorf("%q", got)
		}
	})
}
