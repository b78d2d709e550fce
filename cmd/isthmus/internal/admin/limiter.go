package admin

import (
	"context"
	"net"
	"net/http"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
)

// These constants limit how long a request keeps its slot after the response. The request keeps the
// slot so that a client that sends one request after another cannot use all of the CPU time.
const (
	restFor = 9           // time after the response, as a multiple of the time to handle the request
	maxRest = time.Second // maximum time after the response
)

// limiter limits the number of concurrent requests. A request occupies a slot while the request is
// handled, and for a short time afterwards. If all slots are occupied, further requests wait in
// order of arrival.
//
// If there are several slots, a single client address cannot occupy all of them.
type limiter struct {
	each int64               // maximum number of slots for one address, which is all slots but one
	wait time.Duration       // maximum wait for a slot; after that, the response is 503 Service Unavailable
	take time.Duration       // maximum time to compute and send a response
	all  *semaphore.Weighted // all slots

	mu    sync.Mutex
	addrs map[string]*asker // addresses with a request that has a slot or waits for one
}

// asker is a client address.
type asker struct {
	turns    *semaphore.Weighted
	requests int // number of requests that have a slot or wait for one
}

func newLimiter(turns int64, wait, take time.Duration) *limiter {
	return &limiter{
		each:  max(1, turns-1),
		wait:  wait,
		take:  take,
		all:   semaphore.NewWeighted(turns),
		addrs: make(map[string]*asker),
	}
}

// The limit method returns a handler that calls the next handler once a slot is free.
func (l *limiter) limit(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength != 0 { // handlers do not read bodies, so a request must not keep its slot to wait for one
			w.Header().Set("Connection", "close")
		}
		end, ok := l.turn(w, r)
		if !ok {
			return
		}
		defer end()
		// SetWriteDeadline fails only in tests without a real connection, and these tests do not
		// need a deadline.
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(l.take))
		next.ServeHTTP(w, r)
	})
}

// The turn method waits until a slot is free for the request. The caller must call the end function
// after handling the request. If the request waits longer than l.wait, the client receives an error
// response, and ok is false.
func (l *limiter) turn(w http.ResponseWriter, r *http.Request) (end func(), ok bool) {
	addr, _, _ := net.SplitHostPort(r.RemoteAddr)
	from := l.count(addr, 1)
	ctx, cancel := context.WithTimeout(r.Context(), l.wait)
	defer cancel()
	if from.turns.Acquire(ctx, 1) == nil {
		if l.all.Acquire(ctx, 1) == nil {
			began := time.Now()
			return func() {
				time.AfterFunc(min(maxRest, restFor*time.Since(began)), func() {
					l.all.Release(1)
					from.turns.Release(1)
					l.count(addr, -1)
				})
			}, true
		}
		from.turns.Release(1)
	}
	l.count(addr, -1)
	w.Header().Set("Retry-After", "5")
	http.Error(w, "too many concurrent requests: try again later", http.StatusServiceUnavailable)
	return nil, false
}

// count adds n to the number of requests from an address, and removes the address if no requests
// remain.
func (l *limiter) count(addr string, n int) *asker {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.addrs[addr]
	if a == nil {
		a = &asker{turns: semaphore.NewWeighted(l.each)}
		l.addrs[addr] = a
	}
	a.requests += n
	if a.requests == 0 {
		delete(l.addrs, addr)
	}
	return a
}
