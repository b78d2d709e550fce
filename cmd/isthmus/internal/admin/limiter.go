package admin

import (
	"context"
	"net"
	"net/http"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
)

// A turn counts for a while after its answer, so that clients that ask again at once leave the
// processors to proxies.
const (
	restFor  = 9           // times as long as the turn has taken
	restMost = time.Second // and not longer
)

// limiter bounds how many requests are served at once, from the first line of the handler until
// the client has taken the answer. The others wait, in order. Those of one client address wait for
// each other first: so only few of them wait with those of others, and one that asks a thousand
// times keeps no other one waiting for long.
type limiter struct {
	each int64               // that one address has at once: all but one
	wait time.Duration       // for a turn; after that a request gets 503 Service Unavailable
	take time.Duration       // from when a turn begins: in which the answer has to be made, and taken by the client
	all  *semaphore.Weighted // turns

	mu    sync.Mutex
	addrs map[string]*asker // that have a turn, or wait for one
}

// asker is a client address.
type asker struct {
	turns    *semaphore.Weighted
	requests int // that have a turn, or wait for one
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

// limit returns a handler that serves in turns.
func (l *limiter) limit(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength != 0 { // the server would wait for the body, which no page reads, during the turn
			w.Header().Set("Connection", "close")
		}
		end, ok := l.turn(w, r)
		if !ok {
			return
		}
		defer end()
		// It fails only if the writer is no connection's, as in tests: then there is nothing to wait for.
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(l.take))
		next.ServeHTTP(w, r)
	})
}

// turn waits for a turn and returns how it ends. If there is none in time, it answers.
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
	http.Error(w, "too many requests are being served: try again", http.StatusServiceUnavailable)
	return nil, false
}

// count adds n to the requests of an address, and forgets an address without any.
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
