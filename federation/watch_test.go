package federation

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestLatest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l Latest[int]
		v, replaced := l.Get()
		if v != 0 {
			t.Fatalf("zero value: %d", v)
		}
		woken := 0
		var wg sync.WaitGroup
		wg.Go(func() { <-replaced; woken++ })
		synctest.Wait()
		if woken != 0 {
			t.Fatal("woken before anything was set")
		}
		l.Set(1)
		l.Set(2)
		wg.Wait()
		if v, replaced := l.Get(); v != 2 {
			t.Fatalf("got %d, want the newest", v)
		} else {
			select {
			case <-replaced:
				t.Fatal("the newest value was reported as replaced")
			case <-time.After(time.Hour):
			}
		}
	})
}
