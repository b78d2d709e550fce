package apisim

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

type request struct {
	target
	method   string
	options  metav1.ListOptions
	metadata bool // only the metadata is requested
	protobuf bool // otherwise JSON
	keep     func(*object) bool
}

// page contains the objects in a list that the server has not sent yet. The server stores only the
// most recent pages, so older pages have expired.
type page struct {
	token   uint64
	objects []*object
	version uint64
}

const keptPages = 64

// keepPage stores the rest of a list, and returns a continue token for it. The caller must not hold
// s.mu.
func (s *store) keepPage(p page) (token string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lastPage++
	p.token = s.lastPage
	s.pages[p.token%keptPages] = p
	return strconv.FormatUint(p.token, 10)
}

func (s *store) findPage(token string) (page, bool) {
	id, err := strconv.ParseUint(token, 10, 64)
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.pages[id%keptPages]
	return p, err == nil && id > 0 && p.token == id
}

func (s *Server) list(ctx context.Context, w http.ResponseWriter, r *request) {
	var p page
	if token := r.options.Continue; token == "" {
		p.objects, p.version = s.store.snapshot(r.target, r.keep)
	} else if kept, ok := s.store.findPage(token); ok {
		p = kept
	} else {
		refuse(w, apierrors.NewResourceExpired(
			"The provided continue parameter is too old to display a consistent list result.",
		))
		return
	}
	head := metav1.ListMeta{ResourceVersion: strconv.FormatUint(p.version, 10)}
	now := p.objects
	if limit := int(r.options.Limit); limit > 0 && limit < len(now) {
		now = now[:limit]
		left := int64(len(p.objects) - limit)
		head.Continue = s.store.keepPage(page{
			objects: p.objects[limit:],
			version: p.version,
		})
		head.RemainingItemCount = &left
	}
	w.Header().Set("Content-Type", r.contentType())
	object := func(i int) ([]byte, error) { return r.encode(now[i]) }
	_ = r.writeList(ctx, w, head, len(now), object) // fails if the client has closed the connection
}

// bookmarkEvery is the interval between bookmarks on watches that allow bookmarks.
const bookmarkEvery = 10 * time.Second

type watcher struct {
	*request
	store *store
	out   http.ResponseWriter
	at    uint64 // the version that the client has
}

// watch sends events until the client disconnects, the watch times out, or the server ends all
// watches.
func (s *Server) watch(ctx context.Context, w http.ResponseWriter, r *request) {
	v := &watcher{request: r, store: s.store, out: w}
	if text := r.options.ResourceVersion; text != "" {
		var err error
		if v.at, err = strconv.ParseUint(text, 10, 64); err != nil {
			refuse(w, apierrors.NewBadRequest("resourceVersion is not a number"))
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
		return // the client has disconnected
	}
	v.follow(ctx)
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
	// In the protobuf encoding of all kinds, field 1 contains the metadata. A PartialObjectMetadata
	// is therefore encoded like an object whose other fields are empty.
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

// discover responds to API discovery requests, for which it omits absent kinds. For any other path,
// discover returns false.
func discover(w http.ResponseWriter, path string, absent []string) bool {
	there := slices.DeleteFunc(slices.Clone(kinds[:]), func(k kind) bool { return slices.Contains(absent, k.resource) })
	if path == "/apis" {
		answerJSON(w, http.StatusOK, groupsOf(there))
		return true
	}
	list := metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}}
	for _, k := range there {
		if strings.TrimSuffix(k.prefix(), "/") == path {
			list.GroupVersion = k.GroupVersion().String()
			list.APIResources = append(list.APIResources, metav1.APIResource{
				Name:       k.resource,
				Kind:       k.Kind,
				Namespaced: k.namespaced(),
				Verbs:      metav1.Verbs{"create", "delete", "get", "list", "update", "watch"},
			})
		}
	}
	if len(list.APIResources) == 0 {
		return false
	}
	answerJSON(w, http.StatusOK, list)
	return true
}

func groupsOf(there []kind) metav1.APIGroupList {
	list := metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}}
	for _, k := range there {
		version := metav1.GroupVersionForDiscovery{GroupVersion: k.GroupVersion().String(), Version: k.Version}
		known := slices.ContainsFunc(list.Groups, func(g metav1.APIGroup) bool { return g.Name == k.Group })
		if k.Group != "" && !known {
			list.Groups = append(list.Groups, metav1.APIGroup{
				Name: k.Group, Versions: []metav1.GroupVersionForDiscovery{version}, PreferredVersion: version,
			})
		}
	}
	return list
}

func answerJSON(w http.ResponseWriter, code int, o any) {
	text, err := json.Marshal(o)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = w.Write(text) // fails if the client has disconnected
}
