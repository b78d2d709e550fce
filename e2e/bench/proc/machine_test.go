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
	busy, err := Busy(t.Context(), 100*time.Millisecond)
	if err != nil || busy < 0 || busy > 1 {
		t.Errorf("%v, %v", busy, err)
	}
}
