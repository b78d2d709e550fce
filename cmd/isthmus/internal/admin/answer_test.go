package admin

import (
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"weak"
)

// TestShared checks that concurrent callers, and callers soon afterwards, get the same value.
func TestShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		made := 0 // values that were computed so far
		cost := 100 * time.Millisecond
		s := newShared(50*time.Millisecond, 9, func() int { made++; time.Sleep(cost); return made })
		var all sync.WaitGroup
		for range 16 {
			all.Go(func() {
				if got := s.get().value; got != 1 {
					t.Errorf("value %d", got)
				}
			})
		}
		all.Wait()
		first := s.get()
		time.Sleep(9*cost - time.Nanosecond)
		if s.get() != first {
			t.Error("the value was computed again too early")
		}
		cost = time.Millisecond
		time.Sleep(time.Nanosecond)
		second := s.get()
		if second.value != 2 || second.number <= first.number {
			t.Errorf("got %+v, before %+v", *second, *first)
		}
		time.Sleep(50*time.Millisecond - time.Nanosecond)
		if s.get() != second {
			t.Error("the value was computed again before the minimum time")
		}
		cost = time.Hour
		time.Sleep(time.Nanosecond)
		third := s.get()
		time.Sleep(maxShareAge)
		cost = 0
		fourth := s.get()
		if another := newShared(0, 0, func() int {
			return 0
		}); another.get().number < fourth.number { // like in a restarted replica
			t.Error("the number of a later process is lower")
		}
		if third.value != 3 || fourth.value != 4 {
			t.Errorf("got value %d, and %d after %v", third.value, fourth.value, maxShareAge)
		}
	})
}

// TestSharedIsDropped checks that a value is dropped when it expires, even while its successor is
// computed.
func TestSharedIsDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var made weak.Pointer[byte]
		s := newShared(time.Second, 9, func() []byte {
			text := make([]byte, 1<<20)
			made = weak.Make(&text[0])
			return text
		})
		s.get()
		for _, there := range []bool{true, false} {
			synctest.Wait()
			runtime.GC()
			if got := made.Value() != nil; got != there {
				t.Errorf("the value is cached: %t, want %t", got, there)
			}
			time.Sleep(time.Second)
		}
	})
}
