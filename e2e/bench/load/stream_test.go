package load

import (
	"bytes"
	"math/rand/v2"
	"testing"
	"time"
)

// TestTake cuts a stream of messages everywhere, and at random.
func TestTake(t *testing.T) {
	messages := [][]byte{[]byte("first"), {}, bytes.Repeat([]byte{7}, 300), {}, {}, []byte("x"), {}}
	var data []byte
	for _, m := range messages {
		data = appendMessage(data, m)
	}
	check := func(cuts ...int) {
		t.Helper()
		s, begin, done := stream{target: Target{Keep: true}}, 0, 0
		for _, end := range append(cuts, len(data)) {
			done += s.take(data[begin:end], time.Now())
			begin = end
		}
		if done != len(messages) || len(s.arrivals) != done || len(s.kept) != done {
			t.Fatalf("cut at %d: %d messages, %d arrivals, %d kept", cuts, done, len(s.arrivals), len(s.kept))
		}
		for i, m := range messages {
			if !bytes.Equal(s.kept[i], m) {
				t.Fatalf("cut at %d: message %d is %q", cuts, i, s.kept[i])
			}
		}
	}
	check()
	for i := range len(data) {
		check(i)
	}
	for range 1000 {
		var cuts []int
		for at := rand.IntN(20); at < len(data); at += rand.IntN(20) {
			cuts = append(cuts, at)
		}
		check(cuts...)
	}
}
