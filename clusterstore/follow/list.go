package follow

import (
	"cmp"
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// pageSize is how many objects one page of a list has at most.
	pageSize = 500
	// listTimeout is how long one answer to a list may take.
	listTimeout = 30 * time.Second
	// maxListTime is how long a whole list may take. One that takes longer than slowList is shown.
	maxListTime, slowList = 5 * time.Minute, time.Minute
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

// list reads all objects, and puts them into the Store. It returns the watch that they came by; nil: they came in pages.
func (r *Resource) list(ctx context.Context) (*opened, error) {
	began, wanted := time.Now(), r.wanted.Load()
	w, version, err := r.read(ctx)
	r.took = time.Since(began)
	if err != nil {
		r.feed.abandonList()
		return nil, err
	}
	r.version, r.streams, r.crowded = version, 0, false
	r.heard = time.Now()
	r.listedFor.Store(wanted)
	r.feed.commit(w != nil)
	return w, nil
}

// read stages all objects: streamed where the server does that, or else by pages. These show at
// once how many objects there are, so they are for a resource that has been over budget too.
func (r *Resource) read(ctx context.Context) (w *opened, version string, err error) {
	if !r.group.options.NoWatchList && !r.crowded && r.streams < maxStreams {
		if w, version, err = r.stream(ctx); err != errNoStream {
			return w, version, err
		}
	}
	r.feed.beginList()
	version, err = r.pages(ctx, r.feed.stagePage)
	return nil, version, err
}

// pageFunc reads one page, and returns how many objects it has.
type pageFunc func(context.Context, metav1.ListOptions) (metav1.ListMeta, int, error)

// pages reads all pages of a list as the API server's storage has it. It waits until each may be
// requested; only one after a page with many objects waits for nothing.
func (r *Resource) pages(ctx context.Context, read pageFunc) (version string, err error) {
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

// newestVersion returns the server's present version, with a list of one object.
func (r *Resource) newestVersion(ctx context.Context) (string, error) {
	if err := r.admit(ctx); err != nil {
		return "", err
	}
	list, _, err := readPage(ctx, metav1.ListOptions{Limit: 1, FieldSelector: r.fields}, r.feed.skipPage)
	return list.ResourceVersion, err
}

// stream stages the objects that a watch begins with, and returns that watch. errNoStream: the list is to be read
// in pages instead, which shows whether that fails too.
func (r *Resource) stream(ctx context.Context) (w *opened, version string, err error) {
	w, err = r.open(ctx, "", true)
	if err == nil || outdated(err) {
		r.streams++
	} else if answered(err) {
		return nil, "", errNoStream
	}
	if err != nil {
		return nil, "", err
	}
	r.feed.beginList()
	for {
		e, err := w.next()
		if e.initial {
			return w, e.version, nil
		}
		if err == nil {
			err = cmp.Or(r.late(w.began), r.feed.stageEvent(ctx, e))
		}
		if err != nil {
			w.close()
			return nil, "", unlisted(err)
		}
	}
}
