package follow

import (
	"context"
	"errors"
	"fmt"

	metainternal "k8s.io/apimachinery/pkg/apis/meta/internalversion"
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

// How many events of a cluster with a budget are handled at most: eventRate a second, after
// eventBurst at once. Each takes some 20 µs of processor time.
const (
	eventRate  = 10_000
	eventBurst = 20_000
)

var (
	errPoorPages = fmt.Errorf("the API server sent %d pages of a list in a row with fewer than %d of the %d objects requested, and announced more",
		maxPoorPages, richPage, pageSize)
	errNoStreams = errors.New("lists are read in pages: streamed ones have not come to their end, or do not show how many objects there are")
)

// admit waits until another request may be sent.
func (r *Resource) admit(ctx context.Context) error { return r.requests.Wait(ctx) }

// countPage counts a page that announces more and has few objects, since a server may
// send such pages without end.
func (r *Resource) countPage(page *metainternal.List) {
	if page.Continue == "" || len(page.Items) >= richPage {
		r.poorPages = 0
		return
	}
	r.poorPages++
	r.note(poorPages, nil)
}

// admitPage waits until a page of a list may be requested. A page after one that
// brought many objects waits for nothing.
func (r *Resource) admitPage(ctx context.Context, more bool) error {
	switch {
	case !more:
		r.poorPages = 0
	case r.poorPages == 0:
		return nil
	case r.poorPages >= maxPoorPages:
		r.failed(ctx, errPoorPages)
		return errPoorPages
	}
	return r.admit(ctx)
}

// startOver returns the error by which the reflector starts over, after an answer that
// a version is too old or not known yet. If that is the answer again and again, it is a
// failure.
func (r *Resource) startOver(ctx context.Context, err error) error {
	r.note(expiredAtOnce, nil)
	if r.outdated++; r.outdated > maxOutdated {
		err = hidden{err} // or the reflector would retry at once
		r.failed(ctx, err)
	}
	return err
}
