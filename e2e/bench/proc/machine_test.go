package proc

import (
	"testing"
	"time"
)

func TestParseTimes(t *testing.T) {
	got, err := parseTimes([]byte("cpu  10 2 30 400 50 6 7 8 9 9\ncpu0 1 1 1 1 1 1 1 1 0 0\n"))
	if want := (times{idle: 450, all: 513}); err != nil || got != want {
		t.Errorf("%+v, %v", got, err)
	}
	for _, wrong := range []string{"", "cpu 1 2 3\n", "cpu0 1 2 3 4 5 6 7 8\n", "cpu 1 2 3 4 5 6 7 x\n", "cpu 1 2 3 -4 5 6 7 8\n"} {
		if got, err := parseTimes([]byte(wrong)); err == nil {
			t.Errorf("%q is %+v", wrong, got)
		}
	}
}

func TestBusy(t *testing.T) {
	before := times{idle: 450, all: 513}
	for after, want := range map[times]float64{
		{idle: 460, all: 533}: 0.5, {idle: 450, all: 514}: 1, {idle: 460, all: 523}: 0,
		{idle: 449, all: 514}: 1, {idle: 460, all: 520}: 0, // what the kernel counts has gone back
	} {
		if got, err := after.busySince(before); err != nil || got != want {
			t.Errorf("%+v: %v, not %v; %v", after, got, want, err)
		}
	}
	if got, err := before.busySince(before); err == nil {
		t.Errorf("%v without any time", got)
	}
	if got, err := Busy(t.Context(), 100*time.Millisecond); err != nil || got < 0 || got > 1 {
		t.Errorf("%v, %v", got, err)
	}
}
