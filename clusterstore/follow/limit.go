package follow

import (
	"context"
	"fmt"
	"time"
)

// How many requests a Resource sends at most: requestRate a second, after requestBurst
// at once. Only pages of a list that bring many objects come on top.
const (
	requestRate  = 1
	requestBurst = 5
)

const (
	// richPage is how many objects a page brings at least so that the next one is
	// requested at once. API servers fill their pages.
	richPage = pageSize / 10
	// maxPoorPages is how many pages with fewer objects may follow one another.
	maxPoorPages = 10
	// maxStreams is how often a streamed list is begun, without coming to its end,
	// before the objects are listed in pages.
	maxStreams = 3
	// maxOutdated is how many answers may be, one after the other, that a version is
	// too old or not known yet. It is normal at times, and no failure.
	maxOutdated = 5
)

// A resource that is over budget is left alone for overRest times as long as reading its newest list took, within
// these limits.
const (
	overRest     = 4
	minOverPause = 5 * time.Second
	maxOverPause = 30 * time.Second
)

// How many events of a cluster with a budget, and objects of lists but the first, are handled at most: eventRate a
// second, after eventBurst at once. Each takes some 20 µs of processor time.
const (
	eventRate  = 10_000
	eventBurst = 20_000
)

var errPoorPages = fmt.Errorf("the API server sent %d pages of a list in a row with fewer than %d of the %d objects requested, and announced more",
	maxPoorPages, richPage, pageSize)

// pace waits until the cluster may have one more event handled. What comes meanwhile waits in
// the connection, and so at the server.
func (r *Resource) pace(ctx context.Context) error {
	if r.group.events == nil {
		return nil
	}
	return r.group.events.Wait(ctx)
}

// admit waits until another request may be sent.
func (r *Resource) admit(ctx context.Context) error { return r.requests.Wait(ctx) }
