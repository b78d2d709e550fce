package main

import (
	"context"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"
)

// A turn counts for a while after its answer, so that clients that ask again at once leave the
// processors to proxies.
const (
	restFor  = 9           // times as long as the turn has taken
	restMost = time.Second // and not longer
)

// limiter bounds how many requests are served at once, from the first line of the handler until
// the client has taken the answer. The others wait. Client addresses take turns, and none has all
// of them, so one that asks a thousand times keeps no other one waiting for long.
type limiter struct {
	turns int           // at once
	wait  time.Duration // for a turn; after that a request gets 503 Service Unavailable
	take  time.Duration // from when a turn begins: in which the answer has to be made, and taken by the client

	mu               sync.Mutex
	waiting, serving []*turn        // waiting: the oldest first
	begun            int            // turns
	last             map[string]int // of the address of each of those, what begun was when one of it began last
}

// turn is a request's.
type turn struct {
	addr   string
	begins chan struct{} // closed
}

func count(list []*turn, addr string) (n int) {
	for _, t := range list {
		if t.addr == addr {
			n++
		}
	}
	return n
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
	t := &turn{begins: make(chan struct{})}
	t.addr, _, _ = net.SplitHostPort(r.RemoteAddr)
	ctx, cancel := context.WithTimeout(r.Context(), l.wait)
	defer cancel()
	l.mu.Lock()
	l.waiting = append(l.waiting, t)
	l.next()
	l.mu.Unlock()
	select {
	case <-t.begins:
	case <-ctx.Done():
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !slices.Contains(l.serving, t) {
		l.remove(t)
		w.Header().Set("Retry-After", "5")
		http.Error(w, "too many requests are being served: try again", http.StatusServiceUnavailable)
		return nil, false
	}
	began := time.Now()
	return func() { time.AfterFunc(min(restMost, restFor*time.Since(began)), func() { l.end(t) }) }, true
}

// next begins turns that are free, the address first that has had none for longest. l.mu is held.
func (l *limiter) next() {
	for len(l.serving) < l.turns {
		first := -1
		for i, t := range l.waiting {
			if (first < 0 || l.last[t.addr] < l.last[l.waiting[first].addr]) && count(l.serving, t.addr) < max(1, l.turns-1) {
				first = i
			}
		}
		if first < 0 {
			return
		}
		t := l.waiting[first]
		l.waiting, l.serving = slices.Delete(l.waiting, first, first+1), append(l.serving, t)
		if l.begun++; l.last == nil {
			l.last = make(map[string]int)
		}
		l.last[t.addr] = l.begun
		close(t.begins)
	}
}

// end ends a turn.
func (l *limiter) end(t *turn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.remove(t)
	l.next()
}

// remove forgets a turn, and its address with its last one. l.mu is held.
func (l *limiter) remove(t *turn) {
	gone := func(o *turn) bool { return o == t }
	l.waiting, l.serving = slices.DeleteFunc(l.waiting, gone), slices.DeleteFunc(l.serving, gone)
	if count(l.waiting, t.addr)+count(l.serving, t.addr) == 0 {
		delete(l.last, t.addr)
	}
}
