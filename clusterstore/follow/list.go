package follow

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	metainternal "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

const (
	// pageSize is how many objects one page of a list has at most.
	pageSize = 500
	// listTimeout is how long one answer to a list may take.
	listTimeout = 30 * time.Second
	// maxListTime is how long a whole list may take. One that takes longer than slowList is shown.
	maxListTime, slowList = 5 * time.Minute, time.Minute
	// watchTime is how long a watch that begins with all objects lasts at least. It lasts up to
	// twice as long, as a reflector's do.
	watchTime = 5 * time.Minute
)

var errLongList = fmt.Errorf("the API server has sent a list for %v, without an end: check whether it sends objects again and again", maxListTime)

// late returns an error for a list that has lasted too long, and shows one that lasts long.
func (r *Resource) late(began time.Time) error {
	switch took := time.Since(began); {
	case took > maxListTime:
		return errLongList
	case took > slowList:
		r.note(longList, nil)
	}
	return nil
}

// list reads and stages all objects. The reflector gets their version alone; the feed puts what is
// staged into the Store.
func (r *Resource) list(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
	r.listing.Lock()
	defer r.listing.Unlock()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	r.endWatch()
	r.over, r.proven = nil, false
	began := time.Now()
	version, err := r.read(ctx, opts.ResourceVersion)
	r.took = time.Since(began)
	if err == nil {
		return &metainternal.List{ListMeta: metav1.ListMeta{ResourceVersion: version}}, nil
	}
	r.feed.abandonList()
	switch {
	case isOver(err):
		r.exceed(err)
	case outdated(err):
		err = r.startOver(ctx, err)
	default:
		r.failed(ctx, err)
	}
	return nil, err
}

// read stages all objects: streamed where the server does that, or else by pages. These show at
// once how many objects there are, so they are for a resource that has been over budget too.
func (r *Resource) read(ctx context.Context, version string) (string, error) {
	if r.group.options.NoWatchList || r.crowded || r.streams >= maxStreams {
		return r.pages(ctx, r.feed.stagePage)
	}
	if version == "0" { // a reflector's first: of any age
		version = ""
	}
	version, err := r.stream(ctx, version)
	if !errors.Is(err, errNoStream) {
		return version, err
	}
	return r.pages(ctx, r.feed.stagePage)
}

// pageFunc reads one page, and returns how many objects it has.
type pageFunc func(context.Context, metav1.ListOptions) (metav1.ListMeta, int, error)

// pages reads all pages of a list as the API server's storage has it. It waits until each may be
// requested; only one after a page with many objects waits for nothing.
func (r *Resource) pages(ctx context.Context, read pageFunc) (version string, err error) {
	r.feed.beginList()
	return r.eachPage(ctx, read)
}

func (r *Resource) eachPage(ctx context.Context, read pageFunc) (version string, err error) {
	opts := metav1.ListOptions{Limit: pageSize, FieldSelector: r.fields}
	began := time.Now()
	for poor := 0; ; {
		if err := r.late(began); err != nil {
			return "", err
		}
		if opts.Continue == "" || poor > 0 {
			if err := r.admit(ctx); err != nil {
				return "", err
			}
		}
		list, n, err := readPage(ctx, opts, read)
		if err != nil {
			return "", err
		}
		r.group.event()
		if opts.Continue == "" {
			version = list.ResourceVersion
		}
		if opts.Continue = list.Continue; opts.Continue == "" {
			return version, nil
		}
		if n >= richPage {
			poor = 0
			continue
		}
		if poor++; poor > maxPoorPages {
			return "", errPoorPages
		}
		r.note(poorPages, nil)
	}
}

func readPage(ctx context.Context, opts metav1.ListOptions, read pageFunc) (metav1.ListMeta, int, error) {
	ctx, stop := context.WithTimeout(ctx, listTimeout)
	defer stop()
	return read(ctx, opts)
}

// stream reads the objects that a watch begins with. The watch goes on as the reflector's. errNoStream:
// the list is to be read in pages instead, which shows whether that fails too.
func (r *Resource) stream(ctx context.Context, version string) (string, error) {
	if err := r.admit(ctx); err != nil {
		return "", err
	}
	lasts := int64((1 + rand.Float64()) * watchTime.Seconds())
	all := true
	o, err := r.open(ctx, metav1.ListOptions{
		ResourceVersion: version, ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
		SendInitialEvents: &all, AllowWatchBookmarks: true, TimeoutSeconds: &lasts,
	})
	switch {
	case outdated(err):
		r.streams++
		return "", err
	case answered(err):
		return "", errNoStream
	case err != nil:
		return "", err
	}
	r.streams++
	r.feed.beginList()
	for {
		e, err := o.next()
		if err == nil && !e.initial {
			err = cmp.Or(r.late(o.began), r.feed.stageEvent(ctx, e))
		}
		switch {
		case err != nil:
			o.Close()
			return "", o.unlisted(err)
		case e.initial:
			r.began, r.proven = o, true
			return e.version, nil
		}
	}
}

// startOver returns the error by which the reflector starts over, after an answer that
// a version is too old or not known yet. If that is the answer again and again, it is a
// failure.
func (r *Resource) startOver(ctx context.Context, err error) error {
	r.note(expiredAtOnce, nil)
	if r.outdated++; r.outdated > maxOutdated {
		err = errors.New(err.Error()) // or the reflector would retry at once
		r.failed(ctx, err)
	}
	return err
}
