package kube

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"isthmus/internal/adminapi"
	"isthmus/internal/guard"
)

// maxRefusals is the maximum number of refused requests that are recorded per server. Isthmus sends
// only about thirty different kinds of requests to a server.
const maxRefusals = 100

type observer struct {
	printable func(error) error
	answered  chan struct{} // closed by the first response

	mu      sync.Mutex
	now     adminapi.APIServer // without Refused
	refused map[adminapi.RefusedRequest]int
}

func newObserver(printable func(error) error) *observer {
	return &observer{
		printable: printable,
		answered:  make(chan struct{}),
		refused:   make(map[adminapi.RefusedRequest]int),
	}
}

func (o *observer) over(next http.RoundTripper) http.RoundTripper { return observing{next, o} }

type observing struct {
	next http.RoundTripper
	*observer
}

func (o observing) RoundTrip(r *http.Request) (*http.Response, error) {
	sent := time.Now()
	response, err := o.next.RoundTrip(r)
	switch {
	case err == nil:
		o.answer(r, response, sent, time.Now())
	case !errors.Is(r.Context().Err(), context.Canceled): // otherwise the caller has given up
		o.failure(err)
	}
	return response, err
}

func (o *observer) answer(r *http.Request, response *http.Response, sent, received time.Time) {
	clock := clockOf(response.Header.Get("Date"), sent, received)
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.now.Answered.IsZero() {
		close(o.answered)
	}
	o.now.Answered = received
	o.now.Error = ""
	o.now.Certificate = ""
	o.now.OtherAuthority = false
	o.now.ClientCertificate = ""
	o.now.Clock = cmp.Or(clock, o.now.Clock)
	kind := kindOf(r)
	switch status := response.StatusCode; {
	case status < 400, status == http.StatusConflict, status == http.StatusGone:
		o.forget(kind, r.URL.Path)
	case o.refused[kind] != 0 || len(o.refused) < maxRefusals:
		o.refused[kind] = status
	}
}

// The forget method is called when the server has accepted a request. If the server previously
// refused requests with the same verb and resource, the method removes the record of this refusal.
// The method also removes recorded refusals of API discovery requests for the same API group. A
// client watches only objects that it has permission to list. After a successful watch request, the
// method therefore also removes the recorded refusal of list requests for the same resource.
func (o *observer) forget(kind adminapi.RefusedRequest, path string) {
	delete(o.refused, kind)
	if kind.Verb == "watch" {
		kind.Verb = "list"
		delete(o.refused, kind)
	}
	for k := range o.refused {
		if strings.HasPrefix(k.Resource, "/") && strings.Contains(path, k.Resource+"/") {
			delete(o.refused, k)
		}
	}
}

func (o *observer) failure(err error) {
	certificate, other := guard.Certificate(err)
	text := o.printable(err).Error()
	o.mu.Lock()
	defer o.mu.Unlock()
	o.now.Error = text
	o.now.Certificate = certificate
	o.now.OtherAuthority = other
	o.now.ClientCertificate = guard.RefusedCertificate(err)
}

// clockOf compares a server's clock with the local clock, or returns nil if the response has no
// date. The Date header is truncated to whole seconds, and the exact time of the response is
// unknown. Because both times are known only as ranges, clockOf compares the midpoint of the range
// of local times with the midpoint of the range of server times.
func clockOf(date string, sent, received time.Time) *adminapi.Clock {
	at, err := http.ParseTime(date)
	if err != nil {
		return nil
	}
	const half = time.Second / 2
	took := received.Sub(sent)
	return &adminapi.Clock{Ahead: at.Add(half).Sub(sent.Add(took / 2)).Seconds(), Within: (took/2 + half).Seconds()}
}

// kindOf returns a RefusedRequest with the verb and the resource of a request, but no status.
func kindOf(r *http.Request) adminapi.RefusedRequest {
	verb := map[string]string{
		http.MethodPost:   "create",
		http.MethodPut:    "update",
		http.MethodPatch:  "patch",
		http.MethodDelete: "delete",
	}[r.Method]
	group, path := "", ""
	if _, rest, ok := strings.Cut(r.URL.Path, "/apis/"); ok {
		group, rest, _ = strings.Cut(rest, "/")
		_, path, _ = strings.Cut(rest, "/") // skip the version
		group = "." + group
	} else {
		_, path, _ = strings.Cut(r.URL.Path, "/api/v1/")
	}
	parts := strings.Split(path, "/")
	if parts[0] == "namespaces" && len(parts) > 2 {
		parts = parts[2:]
	}
	resource, named := parts[0]+group, len(parts) > 1
	watch := r.URL.Query().Get("watch")
	switch {
	case path == "": // API discovery, or the version
		verb = "get"
		resource = withoutBase(r.URL.Path)
	case verb != "": // with or without a name
	case named:
		verb, resource = "get", resource+"/"+parts[1]
	case watch != "" && watch != "false":
		verb = "watch"
	default:
		verb = "list"
	}
	return adminapi.RefusedRequest{Verb: verb, Resource: resource}
}

// withoutBase removes the path of the server's URL from the path of a request. The path of the
// server's URL may contain a secret for a proxy in front of the server.
func withoutBase(path string) string {
	for _, of := range []string{"/apis/", "/api/", "/version"} {
		if i := strings.LastIndex(path, of); i >= 0 {
			return path[i:]
		}
	}
	return "/" + path[strings.LastIndex(path, "/")+1:]
}

// SortRefused sorts refused requests by resource and verb.
func SortRefused(list []adminapi.RefusedRequest) {
	slices.SortFunc(list, func(a, b adminapi.RefusedRequest) int {
		return cmp.Or(cmp.Compare(a.Resource, b.Resource), cmp.Compare(a.Verb, b.Verb))
	})
}
