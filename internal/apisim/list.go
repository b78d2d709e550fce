package apisim

import (
	"context"
	"net/http"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// request is a list, a watch, or about one object.
type request struct {
	target
	method   string
	options  metav1.ListOptions
	metadata bool // only that is asked for
	protobuf bool // rather than JSON
	keep     func(*object) bool
}

// page is the rest of a list that has been sent in part. The newest ones are kept; older ones have expired.
type page struct {
	token   uint64
	objects []*object
	version uint64
}

const keptPages = 64

// keepPage remembers the rest of a list and returns a token for it. s.mu is not held.
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

// list answers with a page of a list.
func (s *Server) list(ctx context.Context, w http.ResponseWriter, r *request) {
	var p page
	if token := r.options.Continue; token == "" {
		p.objects, p.version = s.store.snapshot(r.target, r.keep)
	} else if kept, ok := s.store.findPage(token); ok {
		p = kept
	} else {
		refuse(w, apierrors.NewResourceExpired("The provided continue parameter is too old to display a consistent list result."))
		return
	}
	head := metav1.ListMeta{ResourceVersion: strconv.FormatUint(p.version, 10)}
	now := p.objects
	if limit := int(r.options.Limit); limit > 0 && limit < len(now) {
		now = now[:limit]
		left := int64(len(p.objects) - limit)
		head.Continue, head.RemainingItemCount = s.store.keepPage(page{objects: p.objects[limit:], version: p.version}), &left
	}
	w.Header().Set("Content-Type", r.contentType())
	object := func(i int) ([]byte, error) { return r.encode(now[i]) }
	_ = r.writeList(ctx, w, head, len(now), object) // fails if the client has closed the connection
}
