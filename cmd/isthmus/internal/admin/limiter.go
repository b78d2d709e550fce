package admin

import (
	"context"
	"net"
	"net/http"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
)

// A request keeps its turn for some time after the response, so that a client that sends one
// request after another cannot use the whole CPU. These constants limit this time.
const (
	restFor = 9           // rest as a multiple of the duration of the turn
	maxRest = time.Second // maximum rest
)

// limiter limits the number of concurrent requests. Each request occupies a turn from the start of
// the handler until the client has read the response. Further requests wait for a turn in order of
// arrival.
//
// If there are several turns, a single client address cannot occupy all of them.
type limiter struct {
	each int64               // maximum number of turns of one address, which is all turns but one
	wait time.Duration       // maximum wait for a turn; after that a request gets 503 Service Unavailable
	take time.Duration       // maximum duration of a turn, including sending the response
	all  *semaphore.Weighted // all turns

	mu    sync.Mutex
	addrs map[string]*asker // addresses with a request that has a turn or waits for one
}

// asker is a client address.
type asker struct {
	turns    *semaphore.Weighted
	requests int // number of requests that have a turn or wait for one
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

// limit returns a handler that calls the next handler once the request has a turn.
func (l *limiter) limit(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength != 0 { // handlers do not read bodies, so do not wait for the body during the turn
			w.Header().Set("Connection", "close")
		}
		end, ok := l.turn(w, r)
		if !ok {
			return
		}
		defer end()
		// SetWriteDeadline fails only in tests that do not use a connection and do not need a
		// deadline.
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(l.take))
		next.ServeHTTP(w, r)
	})
}

// turn waits until the request has a turn. The caller must call the end function after handling the
// request. If the request waits longer than l.wait, the client receives an error response, and ok
// is false.
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
