package lease

import (
	"time"
)

const (
	// minPause is how long an object is not written again; each further write within changeTime doubles that, up to the
	// Loop's MaxPause.
	minPause   = time.Second
	changeTime = 10 * time.Minute
	// maxReverts is how often others may undo what was written, within changeTime, before it is written once in
	// MaxPause.
	maxReverts = 3
	// A write that fails is tried again after minRetry, which then doubles up to maxRetry.
	minRetry, maxRetry = time.Second, 5 * time.Minute
)

// Outcome is how a task has ended. The zero value: the object has been written.
type Outcome struct {
	Problem string // why it has failed; empty: it has not
	Nothing bool   // there was nothing to write: it was as it is to be, or is somebody else's
	// with Nothing: the next attempt waits as after a write, since what there is is to be seen
	// first, or it took long to find out
	Later    bool
	Again    bool   // somebody else was faster: it is to be read again
	Reverted bool   // somebody else had undone what was written
	Managers string // who has written to it, except the gateway
	Content  string // what was written, as a hash
	// what is known of the object as that has left it, if it differs from what is to be; empty: it
	// does not
	Left string
}

// History is what is remembered of an object that was written.
type History struct {
	at, next time.Time // when it was last written, and may be again
	pause    time.Duration
	reverts  []time.Time

	Ended         bool   // an attempt to write it has ended, well or not, or there was nothing to write
	Failures      int    // since it was last written
	Problem       string // why the last write has failed; empty: it has not
	Managers      string // who has undone it
	Content, Left string // as in the last Outcome
	Undone        int    // how often in a row others have undone the same content
}

// ChangedBack reports whether others undo again and again what is written.
func (h *History) ChangedBack() bool { return len(h.reverts) >= maxReverts }

// add records how a write has ended.
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
		h.Undone++
	} else {
		h.Undone = 0
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
