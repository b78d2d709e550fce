package kube

import (
	"net/http"
	"net/http/httptrace"
	"sync"
)

// firstAlone lets the first request get a connection before it sends others. net/http opens a
// connection for each request that comes before it knows that the server has HTTP/2, on which all have
// room: a cluster would be connected to seven times over when it is linked, to use one of these.
//
// If the first gets no connection, those that wait go on, each for itself.
type firstAlone struct {
	next http.RoundTripper

	mu    sync.Mutex
	first chan struct{} // closed once the first has a connection, or has failed; nil: none has come
}

func (f *firstAlone) RoundTrip(r *http.Request) (*http.Response, error) {
	f.mu.Lock()
	first := f.first
	if first == nil {
		f.first = make(chan struct{})
	}
	f.mu.Unlock()
	if first == nil {
		return f.alone(r)
	}
	select {
	case <-first:
	case <-r.Context().Done(): // next returns the error
	}
	return f.next.RoundTrip(r)
}

// alone sends the first request. What is written is written to a connection that others can use.
func (f *firstAlone) alone(r *http.Request) (*http.Response, error) {
	connected := sync.OnceFunc(func() { close(f.first) })
	defer connected()
	trace := &httptrace.ClientTrace{WroteHeaders: connected}
	return f.next.RoundTrip(r.WithContext(httptrace.WithClientTrace(r.Context(), trace)))
}
