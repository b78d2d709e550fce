package lease

import (
	"time"
)

const (
	// minPause is the minimum pause between two writes to an object. Each write within changeTime
	// of the previous write doubles the pause, up to the MaxPause of the Loop.
	minPause   = time.Second
	changeTime = 10 * time.Minute
	// If other writers revert an object maxReverts times within changeTime, the object is written
	// only once per MaxPause.
	maxReverts = 3
	// A failed write is retried after minRetry. Each further failure doubles the delay, up to
	// maxRetry.
	minRetry, maxRetry = time.Second, 5 * time.Minute
)

// Outcome is the result of a task. The zero Outcome means that the object was written.
type Outcome struct {
	Problem string // why the task failed; empty on success
	Nothing bool   // no write needed: already correct, or not managed by Isthmus
	// If both Nothing and Later are set, at least minPause passes before the next attempt. A task
	// sets Later if the cache needs time to catch up with the API server, or if the task is too
	// slow to be repeated immediately.
	Later    bool
	Again    bool   // another writer was faster; read the object again
	Reverted bool   // somebody else had reverted the last write
	Managers string // other field managers of the object
	Content  string // hash of the written content
	// If the stored object still differs from the desired object after the write, Left identifies
	// the state of the stored object. Otherwise, Left is empty.
	Left string
}

type History struct {
	at, next time.Time // last write, and earliest next write
	pause    time.Duration
	reverts  []time.Time

	Ended         bool   // whether any attempt has ended, successful or not
	Failures      int    // consecutive failed attempts
	Problem       string // why the last attempt failed; empty on success
	Managers      string // field managers that reverted the object
	Content, Left string // from the last Outcome with a write
	Reverts       int    // consecutive reverts of the same content
}

// ChangedBack reports whether other controllers keep reverting the writes to the object.
func (h *History) ChangedBack() bool { return len(h.reverts) >= maxReverts }

func (h *History) add(r Outcome, now time.Time, maxPause time.Duration) {
	if r.Again {
		h.next = now.Add(minRetry)
		return
	}
	h.Ended = true
	if r.Problem != "" {
		h.Failures++
		h.Problem = r.Problem
		h.next = now.Add(min(maxRetry, minRetry<<min(h.Failures-1, 20)))
		return
	}
	h.Failures = 0
	h.Problem = ""
	if r.Nothing {
		if h.next = now; r.Later {
			h.next = now.Add(minPause)
		}
		return
	}
	for len(h.reverts) > 0 && now.Sub(h.reverts[0]) > changeTime {
		h.reverts = h.reverts[1:]
	}
	if r.Reverted {
		h.reverts, h.Managers = append(h.reverts, now), r.Managers
		h.Reverts++
	} else {
		h.Reverts = 0
	}
	switch {
	case now.Sub(h.at) > changeTime:
		h.pause = minPause
	default:
		h.pause = min(maxPause, 2*h.pause)
	}
	if h.ChangedBack() {
		h.pause = maxPause
	}
	h.at, h.next, h.Content, h.Left = now, now.Add(h.pause), r.Content, r.Left
}
