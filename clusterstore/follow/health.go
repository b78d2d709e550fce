package follow

import (
	"errors"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"isthmus/internal/adminapi"
)

// Health shows whether the resources of an API can be listed and watched.
type Health struct {
	Err error // the newest failure of a needed resource, or over budget, that still lasts; nil: none
	// StaleSince is since when the first of the resources can't be read that make the Group stale: needed ones that
	// were listed before, and all that are over budget, listed before or not, except those aside. Zero: there is none.
	StaleSince time.Time
	LastEvent  time.Time       // when anything last came: a list, an event or a bookmark; zero: nothing yet
	Failed     bool            // the resources are not followed any more, for the reason Err: see Group.Fail
	Refused    []RefusedObject // a few of each resource that are refused
	Resources  []adminapi.Resource
}

// RefusedObject is an object that could not be decoded: it is too large, or beyond a bound. What was
// read of it before stays.
type RefusedObject struct {
	Resource string
	Key      string // as [JoinKey] makes it
	Why      string // fit to be shown
}

// resourceState is a resource's part of the health, under Group.mu.
type resourceState struct {
	synced   bool
	err      error
	since    time.Time // of the first failure since it was healthy
	lastSeen time.Time // when err was last reported
	over     time.Time // since when err is that it is over budget; zero: it is not

	throttled time.Time // until when the server wants no request; zero if it never said

	failure adminapi.ReadFailure // of err
	first   time.Time            // since when all failures were of that kind
	lasts   bool                 // the failure has been seen again after lastingAfter
}

// lastingAfter is how long after a failure the same failure is seen again so that it lasts. API servers that start
// refuse requests for a moment, before they know all tokens and permissions.
const lastingAfter = 10 * time.Second

// classify sets what kind of failure err is.
func (s *resourceState) classify(failure adminapi.ReadFailure, now time.Time) {
	if s.failure != failure {
		s.failure, s.first = failure, now
	}
	s.lasts = now.Sub(s.first) >= lastingAfter
}

// errLate is the failure of a resource that the first sync has not waited for any longer.
var errLate = errors.New("the API server has not sent the list yet")

// classOf classifies a failure. That a resource is absent is only known once API discovery confirms that.
func classOf(err error) adminapi.ReadFailure {
	switch {
	case isOver(err):
		return adminapi.OverBudget
	case apierrors.IsUnauthorized(err):
		return adminapi.Unauthorized
	case apierrors.IsForbidden(err), apierrors.IsMethodNotSupported(err):
		return adminapi.Forbidden
	}
	return adminapi.Failing
}

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
	expiredAtOnce cause = "the API server answers that a version is too old, or not known yet, as soon as it is " +
		"requested"
	poorPages   cause = "the API server sends pages of a list with few objects or none, and announces more"
	silentWatch cause = "the API server kept a watch open and sent neither an event nor a bookmark: the objects " +
		"were listed again"
	longList     cause = "the API server has been sending a list for more than a minute"
	overdueWatch cause = "the API server does not end watches at their timeoutSeconds"
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
