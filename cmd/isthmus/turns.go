package main

import (
	"net/http"
	"time"
)

// turns bounds how many requests are served at once, from the first line of the handler
// until the client has taken the answer, and how long that may take.
type turns struct {
	slots chan struct{} // fixed, as are all fields; has a value for each request that is served
	wait  time.Duration // of a request that finds no slot; after that it gets busyCode
	take  time.Duration // in which a client has to take an answer, from its first byte; 0: the server's limit

	busyCode int    // what a request gets that has found no slot
	busy     string // the text with it
}

func newTurns(n int, wait, take time.Duration) *turns {
	return &turns{
		slots: make(chan struct{}, n), wait: wait, take: take,
		busyCode: http.StatusServiceUnavailable, busy: "too many requests are being served: try again",
	}
}

// limit returns a handler that serves in turns.
func (t *turns) limit(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength != 0 { // the server would wait for the body, which no page reads, during the turn
			w.Header().Set("Connection", "close")
		}
		if !t.begin(r) {
			w.Header().Set("Retry-After", "5")
			http.Error(w, t.busy, t.busyCode)
			return
		}
		defer func() { <-t.slots }()
		if t.take > 0 {
			w = &takenInTime{ResponseWriter: w, take: t.take}
		}
		next.ServeHTTP(w, r)
	})
}

// begin returns whether the request has got a slot.
func (t *turns) begin(r *http.Request) bool {
	select {
	case t.slots <- struct{}{}:
		return true
	default:
	}
	if t.wait == 0 {
		return false
	}
	late := time.NewTimer(t.wait)
	defer late.Stop()
	select {
	case t.slots <- struct{}{}:
		return true
	case <-late.C:
	case <-r.Context().Done():
	}
	return false
}

// takenInTime sets a write deadline when the answer begins.
type takenInTime struct {
	http.ResponseWriter
	take  time.Duration
	began bool
}

// WriteHeader implements http.ResponseWriter.
func (w *takenInTime) WriteHeader(code int) {
	w.begin()
	w.ResponseWriter.WriteHeader(code)
}

// Write implements http.ResponseWriter.
func (w *takenInTime) Write(p []byte) (int, error) {
	w.begin()
	return w.ResponseWriter.Write(p)
}

func (w *takenInTime) begin() {
	if w.began {
		return
	}
	w.began = true
	// It fails only if the writer is no connection's, as in tests: then there is nothing to wait for.
	_ = http.NewResponseController(w.ResponseWriter).SetWriteDeadline(time.Now().Add(w.take))
}
