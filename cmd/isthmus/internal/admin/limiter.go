package admin

import (
	"context"
	"net"
	"net/http"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
)

// A turn stays occupied for a while after its response, so that clients that repeat requests at
// once leave CPU time for proxies.
const (
	restFor  = 9           // multiple of the duration of the turn
	restMost = time.Second // maximum rest
)

// limiter limits the number of concurrent requests. A request occupies a turn from the start of the
// handler until the client has read the response. Other requests wait in order.
//
// Requests of one client address first wait for each other, and one address can't occupy all turns.
// A client that sends a thousand requests therefore does not delay other clients for long.
type limiter struct {
	each int64               // maximum number of turns of one address: all but one
	wait time.Duration       // maximum wait for a turn; after that a request gets 503 Service Unavailable
	take time.Duration       // maximum duration of a turn, including sending the response
	all  *semaphore.Weighted // all turns

	mu    sync.Mutex
	addrs map[string]*asker // addresses that have a turn or wait for one
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

// limit returns a handler that serves next in turns.
func (l *limiter) limit(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength != 0 { // no page reads a body: do not let the server wait for it during the turn
			w.Header().Set("Connection", "close")
		}
		end, ok := l.turn(w, r)
		if !ok {
			return
		}
		defer end()
		// SetWriteDeadline only fails in tests whose writer is not a connection. Such tests need no
		// deadline.
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(l.take))
		next.ServeHTTP(w, r)
	})
}

// turn waits for a turn and returns a function that ends the turn. If the wait exceeds the limit,
// turn sends the response and ok is false.
func (l *limiter) turn(w http.ResponseWriter, r *http.Request) (end func(), ok bool) {
	addr, _, _ := net.SplitHostPort(r.RemoteAddr)
	from := l.count(addr, 1)
	ctx, cancel := context.WithTimeout(r.Context(), l.wait)
	defer cancel()
	if from.turns.Acquire(ctx, 1) == nil {
		if l.all.Acquire(ctx, 1) == nil {
			began := time.Now()
			return func() {
				time.AfterFunc(min(restMost, restFor*time.Since(began)), func() {
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

// count adds n to the number of requests of an address, and removes an address without requests.
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
