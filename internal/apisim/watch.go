package apisim

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// bookmarkEvery is how often a watch that allows it is sent the newest version.
const bookmarkEvery = 10 * time.Second

// watcher is one watch under way.
type watcher struct {
	*request
	store *store
	out   http.ResponseWriter
	at    uint64 // the version that the client has
}

// watch answers with events until the client goes, the time is over, or the server ends its watches.
func (s *Server) watch(ctx context.Context, w http.ResponseWriter, r *request) {
	v := &watcher{request: r, store: s.store, out: w}
	if text := r.options.ResourceVersion; text != "" {
		var err error
		if v.at, err = strconv.ParseUint(text, 10, 64); err != nil {
			refuse(w, apierrors.NewBadRequest("resourceVersion is no number"))
			return
		}
	}
	if r.options.TimeoutSeconds != nil {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeout(ctx, time.Duration(*r.options.TimeoutSeconds)*time.Second)
		defer stop()
	}
	w.Header().Set("Content-Type", r.contentType())
	w.WriteHeader(http.StatusOK)
	if v.at == 0 && v.begin() != nil {
		return // the client has gone
	}
	v.follow(ctx)
}

// begin sends all objects there are.
func (v *watcher) begin() error {
	objects, version := v.store.snapshot(v.target, v.keep)
	for _, o := range objects {
		if err := v.send(event{watch.Added, o}); err != nil {
			return err
		}
	}
	v.at = version
	return nil
}

// follow sends what happens from now on.
func (v *watcher) follow(ctx context.Context) {
	tick := time.NewTicker(bookmarkEvery)
	defer tick.Stop()
	for now, ok := v.store.since(v.resource, v.at, true); ok; now, ok = v.store.since(v.resource, v.at, false) {
		v.at = now.version
		for _, e := range now.events {
			if err := v.send(e); err != nil {
				return
			}
		}
		if err := http.NewResponseController(v.out).Flush(); err != nil {
			return
		}
		select {
		case <-now.changed:
		case <-tick.C:
			if v.options.AllowWatchBookmarks && v.bookmark() != nil {
				return
			}
		case <-ctx.Done():
			return
		}
	}
	status := statusOf(apierrors.NewResourceExpired(fmt.Sprintf("too old resource version: %d", v.at)))
	_ = v.write(watch.Error, status.TypeMeta, status) // fails if the client has gone
}

func (v *watcher) send(e event) error {
	if !v.keep(e.object) {
		return nil
	}
	text, err := v.encode(e.object)
	if err != nil {
		return err
	}
	return v.writeEvent(v.out, e.kind, v.typeMeta(""), text)
}

// bookmark sends the client the version that it has.
func (v *watcher) bookmark() error {
	of := v.typeMeta("")
	// Metadata is field 1 of every kind, and so the same as that of a whole object which has nothing else.
	return v.write(watch.Bookmark, of, &metav1.PartialObjectMetadata{TypeMeta: of, ObjectMeta: metav1.ObjectMeta{
		ResourceVersion: strconv.FormatUint(v.at, 10),
	}})
}

// write sends an event of what is not stored.
func (v *watcher) write(kind watch.EventType, of metav1.TypeMeta, o marshaler) error {
	text, err := v.marshal(o)
	if err != nil {
		return err
	}
	return v.writeEvent(v.out, kind, of, text)
}
