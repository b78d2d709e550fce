package handover

import (
	"fmt"
	"testing"
	"time"
)

// grace is how long Kubernetes waits for a process after SIGTERM, unless the Pod sets another time.
const grace = 30 * time.Second

// Limits of time. They are those of a machine that is busy with other tests; promise sets those that docs/operations.md states.
var (
	// blindLimit is how long a proxy may be blind when there is another gateway.
	blindLimit = 20 * time.Second
	// firstLimit is how long half of the proxies, at most, may wait for a first message of a gateway that is ready.
	firstLimit = 10 * time.Second
	// endLimit is how long a process may take to end.
	endLimit = time.Minute
)

func promise() { blindLimit, firstLimit, endLimit = 2*time.Second, 500*time.Millisecond, grace }

// TestHandover: with the default flags, and with records that live as long as in most clusters.
func TestHandover(t *testing.T) {
	w := newWorld(t)
	s := setting{ttl: 30 * time.Second, lag: 100 * time.Millisecond, size: 100}
	t.Run("group", func(t *testing.T) { // so that the world lasts as long as they do
		t.Run("surge", func(t *testing.T) {
			t.Parallel()
			o := w.surge(t, s)
			o.check(t)
			if o.back == 0 || o.back == o.moved {
				t.Errorf("%d of %d proxies came back to the gateway that went: their caches should be of all ages", o.back, o.moved)
			}
		})
		t.Run("two", func(t *testing.T) {
			t.Parallel()
			w.two(t, s).check(t)
		})
		t.Run("restart", func(t *testing.T) {
			t.Parallel()
			o := w.restart(t, s, 0)
			t.Logf("away for %v; all follow %v after it is ready, half of them after %v", o.away, last(o.follow), median(o.follow))
			// A proxy pauses for about as long as it has tried in vain: when it tries again is not up to the gateway.
			if half := median(o.served); half > firstLimit {
				t.Errorf("half of the proxies were served %v after they first tried a gateway that was ready", half)
			}
			if worst := last(o.follow); worst > max(5*time.Second, o.away+2*firstLimit) {
				t.Errorf("a proxy followed %v after the gateway was ready, which was away for %v", worst, o.away)
			}
			o.checkServed(t)
		})
	})
}

// check checks what must hold when there is another gateway.
func (o outcome) check(t *testing.T) {
	t.Helper()
	t.Log(o)
	if worst := last(o.blind); worst > blindLimit {
		t.Errorf("a proxy was blind for %v", worst)
	}
	if o.ended >= endLimit {
		t.Errorf("the process ended %v after SIGTERM", o.ended)
	}
	o.checkServed(t)
}

// checkServed checks what must hold while a gateway that goes still serves: no proxy is refused, or sent away twice.
func (o outcome) checkServed(t *testing.T) {
	t.Helper()
	if len(o.turned) > 0 {
		t.Errorf("%d streams were refused while the gateway served, the first by %v", len(o.turned), o.turned[0].Err)
	}
	if o.twice > 0 {
		t.Errorf("%d proxies were sent away more than once", o.twice)
	}
}

func (o outcome) String() string {
	return fmt.Sprintf("ended after %v; changes took %v at most; proxies were blind for %v at most, half of them for %v; of %d %d came back; %d at most came elsewhere within a second",
		o.ended, last(o.reach), last(o.blind), median(o.blind), o.moved, o.back, o.burst)
}
