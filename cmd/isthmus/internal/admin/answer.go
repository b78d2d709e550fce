package admin

import (
	"encoding/json"
	"net/http"
	"time"

	"isthmus/internal/text"
)

// answer is a value that has been encoded as indented JSON, or the error from encoding the value.
type answer struct {
	text []byte
	err  error
}

func encode(value any) answer {
	text, err := json.MarshalIndent(value, "", "  ")
	return answer{append(text, '\n'), err}
}

func (a answer) serve(w http.ResponseWriter) {
	if a.err != nil {
		http.Error(w, "cannot encode the page: "+printable(a.err.Error()), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	_, _ = w.Write(a.text) // the client may have disconnected
}

// sharedAnswer returns a handler that encodes the result of the value function, caches the encoded
// response, and serves it to all clients.
func sharedAnswer(value func() any) http.Handler {
	s := newShared(0, restFor, func() answer { return encode(value()) })
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { s.get().value.serve(w) })
}

// maxShareAge is the maximum age of a shared value.
const maxShareAge = 30 * time.Second

// shared is a cache for one value that is expensive to compute and that many clients request.
// Concurrent callers wait for a single computation and share its result. The result is cached for
// at most maxShareAge.
type shared[T any] struct {
	make  func() T      // not called concurrently
	least time.Duration // minimum lifetime of a value
	times int           // lifetime as a multiple of the time to compute the value, up to maxShareAge

	making chan struct{} // a lock, which is held while the channel contains an element
	newest *made[T]      // nil if there is no valid value
	number uint64        // number of the last value
}

// made is a computed value.
type made[T any] struct {
	value  T
	number uint64 // increases, even across restarts
	until  time.Time
}

func newShared[T any](least time.Duration, times int, make func() T) *shared[T] {
	return &shared[T]{make: make, least: least, times: times, making: newSlot()}
}

func newSlot() chan struct{} { return make(chan struct{}, 1) }

// get returns the cached value, or computes a new value if the cached one has expired. Callers must
// not modify the value.
func (s *shared[T]) get() *made[T] {
	s.making <- struct{}{}
	defer func() { <-s.making }()
	if s.newest != nil && time.Now().Before(s.newest.until) {
		return s.newest
	}
	s.newest = nil // free the memory of the old value during the computation
	began := time.Now()
	s.number = max(s.number+1, uint64(began.UnixNano()))
	m := &made[T]{value: s.make(), number: s.number}
	good := min(maxShareAge, max(s.least, time.Duration(s.times)*time.Since(began)))
	m.until = time.Now().Add(good)
	s.newest = m
	time.AfterFunc(good, func() { s.drop(m) })
	return m
}

func (s *shared[T]) drop(m *made[T]) {
	s.making <- struct{}{}
	defer func() { <-s.making }()
	if s.newest == m {
		s.newest = nil
	}
}

// maxRepeated is the maximum length of a string in a response, in bytes. The names of Kubernetes
// objects are always shorter than maxRepeated.
const maxRepeated = 400

func printable(s string) string { return text.Clean(s, maxRepeated) }

func printables(texts []string) []string { return text.CleanAll(texts, maxRepeated) }
