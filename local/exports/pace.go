package exports

import (
	"time"
)

const (
	// minPause is how long an object is not written again; each further write within changeTime doubles that, up to
	// maxPause.
	minPause, maxPause = time.Second, time.Minute
	changeTime         = 10 * time.Minute
	// maxReverts is how often others may undo what was written, within changeTime, before it is written once in maxPause.
	maxReverts = 3
	// A write that fails is tried again after minRetry, which then doubles up to maxRetry.
	minRetry, maxRetry = time.Second, 5 * time.Minute
)

// outcome is how a write has ended.
type outcome struct {
	problem  string // why it has failed; empty: it has not
	nothing  bool   // there was nothing to write: it was as it is to be, or is somebody else's
	again    bool   // somebody else was faster: it is to be read again
	reverted bool   // somebody else had undone what was written
	managers string // who has written to it, but for the gateway
	content  string // what was written, as a hash
	left     string // what is known of the object as that has left it, if it differs from what is to be; empty: it does not
}

// history is what is remembered of an object that was written.
type history struct {
	at, next time.Time // when it was last written, and may be again
	pause    time.Duration
	failures int
	problem  string // why the last write has failed; empty: it has not
	reverts  []time.Time
	managers string

	content, left string // as in the last outcome
}

// isLeft reports whether a change has been made, and what is there is all that the API keeps of it.
func (o *history) isLeft(c *Change) bool {
	return o.left != "" && c.known != nil && o.left == c.known() && o.content == c.content()
}

// changedBack reports whether others undo again and again what is written.
func (o *history) changedBack() bool { return len(o.reverts) >= maxReverts }

// add records how a write has ended.
func (o *history) add(r outcome, now time.Time) {
	switch {
	case r.again:
		o.next = now.Add(minRetry)
		return
	case r.problem != "":
		o.failures++
		o.problem = r.problem
		o.next = now.Add(min(maxRetry, minRetry<<min(o.failures-1, 20)))
		return
	}
	o.failures, o.problem = 0, ""
	if r.nothing {
		o.next = now.Add(minPause) // until the state has what was read
		return
	}
	for len(o.reverts) > 0 && now.Sub(o.reverts[0]) > changeTime {
		o.reverts = o.reverts[1:]
	}
	if r.reverted {
		o.reverts, o.managers = append(o.reverts, now), r.managers
	}
	switch {
	case now.Sub(o.at) > changeTime:
		o.pause = minPause
	default:
		o.pause = min(maxPause, 2*o.pause)
	}
	if o.changedBack() {
		o.pause = maxPause
	}
	o.at, o.next, o.content, o.left = now, now.Add(o.pause), r.content, r.left
}
