package follow

import (
	"errors"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"isthmus/internal/adminapi"
)

// Health describes whether the resources of an API can be listed and watched.
type Health struct {
	Err error // newest lasting failure of a needed resource or of one that is over budget; nil if there is none
	// StaleSince is the start of the oldest failure that makes the Group stale, or zero if the
	// Group is not stale. A Group is stale if a required resource can no longer be read, or if any
	// resource is over budget. Resources for which [Kind].Aside is true never make a Group stale.
	StaleSince time.Time
	LastEvent  time.Time       // when a list, an event or a bookmark was last received; zero if none was
	Failed     bool            // lists and watches have ended because of Err; see Group.Fail
	Refused    []RefusedObject // a few refused objects of each resource
	Resources  []adminapi.Resource
}

// RefusedObject is an object that could not be decoded, for example because it is too large.
type RefusedObject struct {
	Resource string
	Key      string // as returned by [JoinKey]
	Why      string // cleaned for display
}

// resourceState is the health of one resource. Group.mu guards all fields.
type resourceState struct {
	synced   bool
	err      error
	since    time.Time // first failure since the resource was healthy
	lastSeen time.Time // when err was last reported
	over     time.Time // since when the resource is over budget; zero if it is not

	throttled time.Time // when the server accepts requests again; zero if it never sent Retry-After

	failure adminapi.ReadFailure // class of err
	first   time.Time            // since when all failures are of that class
	lasts   bool                 // the failure counts as lasting
}

// A failure counts as lasting once its first and latest occurrences are at least lastingAfter
// apart. Transient failures are normal while an API server starts, because the server does not yet
// know all tokens and permissions.
const lastingAfter = 10 * time.Second

func (s *resourceState) classify(failure adminapi.ReadFailure, now time.Time) {
	if s.failure != failure {
		s.failure = failure
		s.first = now
	}
	s.lasts = now.Sub(s.first) >= lastingAfter
}

// errLate is reported for a resource that was not listed before the first sync ended.
var errLate = errors.New("the API server has not sent the complete list yet")

// classOf never returns Absent, because only API discovery can confirm that a resource is absent.
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
	troublePause = 5 * time.Minute // how long a problem is shown after its last occurrence
	// troubleCount is the number of consecutive occurrences after which unusual behavior is
	// reported. Isolated occurrences are normal: API servers close watches early when they restart,
	// and slow servers send bookmarks late.
	troubleCount = 3
)

// A cause is a kind of unusual behavior of an API server, such as closing watches too early.
type cause string

const (
	endedSoon     cause = "the API server closes watches as soon as they start"
	failsSoon     cause = "the API server closes watches with an error as soon as they start"
	expiredAtOnce cause = "the API server rejects current resource versions as too old or not yet known"
	poorPages     cause = "the API server sends list pages with few or no objects, but says that more pages follow"
	silentWatch   cause = "the API server keeps a watch open without sending events or bookmarks"
	longList      cause = "the API server has been sending a list for more than a minute"
	overdueWatch  cause = "the API server does not end watches after the requested timeoutSeconds"
)

// trouble records recent unusual behavior of the API server for one Resource.
type trouble struct {
	mu    sync.Mutex
	count int // occurrences in a row
	last  time.Time
	text  string              // empty if there is nothing to show
	seen  map[cause]time.Time // when each kind of behavior was last recorded in text
}

// The add method counts one occurrence of a kind of unusual behavior, and reports whether to log
// the behavior. Each kind of unusual behavior is logged once, and again only if it recurs after
// more than troublePause.
func (t *trouble) add(c cause, text string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	if now.Sub(t.last) > troublePause {
		t.count = 0
		t.text = ""
		t.seen = make(map[cause]time.Time)
	}
	t.count, t.last = t.count+1, now
	if t.count < troubleCount && c != overdueWatch && c != longList {
		return false
	}
	before := t.seen[c]
	t.text = text
	t.seen[c] = now
	return now.Sub(before) > troublePause
}

func (t *trouble) now() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if time.Since(t.last) > troublePause {
		return ""
	}
	return t.text
}
