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

// bookmarkEvery is the interval between bookmarks on watches that allow bookmarks.
const bookmarkEvery = 10 * time.Second

type watcher struct {
	*request
	store *store
	out   http.ResponseWriter
	at    uint64 // the version that the client has
}

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
	_ = v.write(watch.Error, status.TypeMeta, status) // fails if the client has disconnected
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

// bookmark sends a bookmark with the version up to which the client has received all events.
func (v *watcher) bookmark() error {
	of := v.typeMeta("")
	// In the protobuf encoding of all kinds, field 1 contains the metadata. A bookmark contains
	// only metadata, so a PartialObjectMetadata can serve as a bookmark for any kind.
	return v.write(watch.Bookmark, of, &metav1.PartialObjectMetadata{TypeMeta: of, ObjectMeta: metav1.ObjectMeta{
		ResourceVersion: strconv.FormatUint(v.at, 10),
	}})
}

func (v *watcher) write(kind watch.EventType, of metav1.TypeMeta, o marshaler) error {
	text, err := v.marshal(o)
	if err != nil {
		return err
	}
	return v.writeEvent(v.out, kind, of, text)
}
