package grpcapi

import (
	"sync/atomic"
	"time"
)

// watchdog ends a stream when one of its sends takes too long. Its timer is left
// running after a send, and finds out when it fires: to arm and stop it around
// each send would cost a good part of what an update costs at all.
type watchdog struct {
	limit time.Duration // fixed, as are epoch and bark
	epoch time.Time
	bark  func() // stalled of getStream or profileStream
	timer *time.Timer // fixed after the first send

	since atomic.Int64 // when the send in progress began, by epoch; zero: there is none
	armed atomic.Bool  // the timer is running
}

// begin notes that a send begins now. It belongs to the stream's goroutine, as
// does done.
func (w *watchdog) begin(now time.Time) {
	w.since.Store(max(1, int64(now.Sub(w.epoch))))
	if w.armed.Load() || !w.armed.CompareAndSwap(false, true) {
		return
	}
	if w.timer == nil {
		w.timer = time.AfterFunc(1<<62, w.fire) // not to fire before the field is set
	}
	w.timer.Reset(w.limit)
}

// done notes that the send is over.
func (w *watchdog) done() { w.since.Store(0) }

func (w *watchdog) fire() {
	for {
		if since := w.since.Load(); since != 0 {
			if left := w.limit - time.Since(w.epoch) + time.Duration(since); left > 0 {
				w.timer.Reset(left)
			} else {
				w.bark()
			}
			return
		}
		w.armed.Store(false)
		if w.since.Load() == 0 || !w.armed.CompareAndSwap(false, true) {
			return // or a send has begun meanwhile, and found the timer running
		}
	}
}

// stop releases the timer, once nothing is sent any more.
func (w *watchdog) stop() {
	if w.timer != nil {
		w.timer.Stop()
	}
}
