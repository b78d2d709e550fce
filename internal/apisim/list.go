package apisim

import (
	"net/http"
	"strconv"

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

// pages are the lists that have been sent in part. Old ones are forgotten: they have expired.
type pages struct {
	next  uint64
	lists map[uint64]page
}

// page is the rest of a list.
type page struct {
	objects []*object
	version uint64
}

const keptPages = 64

// keepPage remembers the rest of a list and returns a token for it. s.mu is not held.
func (s *store) keepPage(p page) (token string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pages.lists == nil {
		s.pages.lists = make(map[uint64]page)
	}
	s.pages.next++
	s.pages.lists[s.pages.next] = p
	delete(s.pages.lists, s.pages.next-keptPages)
	return strconv.FormatUint(s.pages.next, 10)
}

func (s *store) takePage(token string) (page, bool) {
	id, err := strconv.ParseUint(token, 10, 64)
	if err != nil {
		return page{}, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	p, ok := s.pages.lists[id]
	delete(s.pages.lists, id)
	return p, ok
}

// list answers with a page of a list.
func (s *Server) list(w http.ResponseWriter, r *request) {
	var p page
	if token := r.options.Continue; token != "" {
		var ok bool
		if p, ok = s.store.takePage(token); !ok {
			refuse(w, expired("The provided continue parameter is too old to display a consistent list result."))
			return
		}
	} else {
		p.objects, p.version = s.store.snapshot(r.target, r.keep)
	}
	head := metav1.ListMeta{ResourceVersion: strconv.FormatUint(p.version, 10)}
	now := p.objects
	if limit := int(r.options.Limit); limit > 0 && limit < len(now) {
		now = now[:limit]
		left := int64(len(p.objects) - limit)
		head.Continue, head.RemainingItemCount = s.store.keepPage(page{p.objects[limit:], p.version}), &left
	}
	body, err := r.encodeList(head, now)
	if err != nil {
		refuse(w, failure(http.StatusInternalServerError, metav1.StatusReasonInternalError, err.Error()))
		return
	}
	w.Header().Set("Content-Type", r.contentType())
	_, _ = w.Write(body) // fails if the client has gone
}
