package main

import (
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestShared: the value is made once a second at most, whatever the number of those that ask, less
// often if that takes long, and not at all while nobody asks.
func TestShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var made atomic.Int64
		takes := time.Duration(0)
		s := newShared(func() *int64 {
			time.Sleep(takes)
			n := made.Add(1)
			return &n
		})
		// readers has several readers ask ten times a second for so long, and returns how often it was made.
		readers := func(long time.Duration) int64 {
			before := made.Load()
			var all sync.WaitGroup
			for range 10 {
				all.Go(func() {
					last := uint64(0)
					for began := time.Now(); time.Since(began) < long; time.Sleep(100 * time.Millisecond) {
						value, number := s.get()
						if *value > made.Load() || number < last {
							t.Errorf("number %d after %d", number, last)
						}
						last = number
					}
				})
			}
			all.Wait()
			return made.Load() - before
		}
		if n := readers(time.Minute); n != 60 {
			t.Errorf("made %d times in a minute", n)
		}
		takes = 200 * time.Millisecond // so it is made every 10.2 s, or 100 ms later
		readers(time.Minute)
		if n := readers(1020 * time.Second); n < 98 || n > 101 {
			t.Errorf("made %d times in 1,020 s, though each takes 0.2 s", n)
		}
		_, number := s.get()
		time.Sleep(time.Minute)
		synctest.Wait()
		if s.kept || s.newest != nil {
			t.Error("it is kept though nobody asks")
		}
		before := made.Load()
		time.Sleep(time.Hour)
		if n := made.Load() - before; n != 0 {
			t.Errorf("made %d times though nobody asks", n)
		}
		if _, later := s.get(); later <= number {
			t.Errorf("number %d after %d", later, number)
		}
		time.Sleep(time.Minute)
		another := newShared(func() int { return 0 }) // of a gateway that starts anew
		if _, later := another.get(); later <= number {
			t.Errorf("number %d of a new process after %d", later, number)
		}
		time.Sleep(time.Minute)
	})
}
