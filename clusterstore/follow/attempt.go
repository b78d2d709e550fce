package follow

import (
	"context"
	"time"

	metainternal "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

// listTimeout is how long one answer to a list may take.
const listTimeout = 30 * time.Second

// tryList gets one page. It is compacted before the next one is requested.
func (r *Resource) tryList(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
	if err := r.nextListErr; err != nil {
		r.nextListErr = nil
		return nil, err
	}
	if err := r.takeOver(); err != nil {
		return nil, err
	}
	if err := r.admitPage(ctx, opts.Continue != ""); err != nil {
		return nil, err
	}
	if opts.ResourceVersion == "0" {
		opts.ResourceVersion = "" // for version "0" servers ignore the limit and send all objects at once
	}
	if r.over.probation.Load() != nil {
		opts.Limit = richPage     // a whole page may be more than there is room for
		opts.ResourceVersion = "" // of another version a list in pages is what there was then, which was too much
	}
	limited, stop := context.WithTimeout(ctx, listTimeout)
	defer stop()
	opts.FieldSelector = r.fields
	if opts.Continue == "" {
		r.beginList(&opts)
	}
	limited, request := r.begin(limited, "a list of ")
	defer request.End()
	list, err := r.calls.List(limited, opts)
	var compact *metainternal.List
	if err == nil {
		r.group.event()
		r.watchUnproven = true
		compact, err = r.feed.compactList(list)
	}
	if err == nil && opts.Continue == "" {
		r.foresee(compact)
	}
	if over := r.takeOver(); over != nil {
		return nil, over
	}
	if outdated(err) {
		return nil, r.startOver(ctx, err)
	}
	if err != nil {
		r.failed(ctx, err)
		return nil, err
	}
	r.countPage(compact)
	return compact, nil
}

// tryWatch starts a watch. A reflector asks for two kinds. One begins with all objects
// (a streamed list); if the server answers that it doesn't support that, the
// reflector lists in pages. The other goes on from the version of a list.
func (r *Resource) tryWatch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	lists := streamsList(opts)
	if err := r.takeOver(); err != nil {
		if lists {
			r.nextListErr = err
		}
		return nil, err
	}
	if lists && (r.streams >= maxStreams || r.over.probation.Load() != nil) {
		return nil, errNoStreams // the reflector will list in pages, of which the first shows how many objects there are
	}
	if err := r.admit(ctx); err != nil {
		return nil, err
	}
	r.over.listing = time.Time{}
	if lists {
		r.beginList(&opts)
	}
	opts.FieldSelector = r.fields
	watchCtx, _ := r.begin(ctx, "") // ends with the watch's body
	w, err := r.calls.Watch(watchCtx, opts)
	if lists && (err == nil || outdated(err)) {
		r.streams++
	}
	switch {
	case err == nil:
		r.watchUnproven, r.watching = false, r.guard(w, opts)
		if !lists { // or else the objects are readable once all have come
			r.outdated = 0
			r.healthy()
		}
		return r.watching, nil
	case outdated(err):
		return nil, r.startOver(ctx, err)
	case !lists:
		r.failed(ctx, err)
		return nil, relist(err)
	case answered(err):
		return nil, err // the reflector will list, which shows whether that fails too
	}
	// A list would fail in the same way. And before it retries an error that it
	// knows to be temporary, a reflector waits regardless of ctx: so hide the type.
	r.failed(ctx, err)
	r.nextListErr = hidden{err}
	return nil, r.nextListErr
}

// beginList is called before the first request of a list.
func (r *Resource) beginList(opts *metav1.ListOptions) {
	r.over.listing, r.over.announced = time.Now(), 0
	r.feed.beginList()
	r.useNewest(opts)
}

// useNewest makes the request for a list one that the API server answers from its storage, if
// that was asked for: without a version. The match that a streamed list has stays.
func (r *Resource) useNewest(opts *metav1.ListOptions) {
	select {
	case <-r.relist: // this list is what was asked for
		r.afresh.Store(true)
	default:
	}
	if r.afresh.Load() {
		opts.ResourceVersion = ""
	}
}
