package follow

import (
	"sync"
	"time"
)

const (
	// troublePause is how long nothing must happen before a trouble is over.
	troublePause = 5 * time.Minute
	// troubleCount is how often something has to happen before it is a trouble: API
	// servers end watches early now and then, when they restart for example, and one that
	// is slow is late with a bookmark.
	troubleCount = 3
)

// A cause is something that a server does that asks for more requests than are
// sensible, though no answer of it is a failure.
type cause string

const (
	endedSoon     cause = "the API server ends watches as soon as they have begun"
	failsSoon     cause = "the API server ends watches by an error as soon as they have begun"
	expiredAtOnce cause = "the API server answers that a version is too old, or not known yet, as soon as it is requested"
	poorPages     cause = "the API server sends pages of a list with few objects or none, and announces more"
	silentWatch   cause = "the API server kept a watch open and sent neither an event nor a bookmark: the objects were listed again"
	longList      cause = "the API server has been sending a list for more than a minute"
	overdueWatch  cause = "the API server does not end watches at their timeoutSeconds"
)

// trouble keeps what a server does to a Resource that is no failure, so that it can be
// shown.
type trouble struct {
	mu    sync.Mutex
	count int // of what has happened in a row
	last  time.Time
	text  string              // empty: nothing to show
	seen  map[cause]time.Time // when each cause was last seen as a trouble
}

// add counts something that has happened. It returns true if that is to be logged: once for each cause until the cause
// has not been seen for troublePause.
func (t *trouble) add(c cause, text string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	if now.Sub(t.last) > troublePause {
		t.count, t.text, t.seen = 0, "", make(map[cause]time.Time)
	}
	t.count, t.last = t.count+1, now
	if t.count < troubleCount && c != overdueWatch && c != longList {
		return false
	}
	before := t.seen[c]
	t.text, t.seen[c] = text, now
	return now.Sub(before) > troublePause
}

// now returns what is wrong; empty: nothing.
func (t *trouble) now() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if time.Since(t.last) > troublePause {
		return ""
	}
	return t.text
}
