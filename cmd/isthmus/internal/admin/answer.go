package admin

import (
	"encoding/json"
	"net/http"
	"time"

	"isthmus/internal/text"
)

// maxKept is how large an explanation may be, in bytes: four times what one of 500 addresses has with long texts.
const maxKept = 16 << 20

// answer is a value as indented JSON, or why there is none.
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
		http.Error(w, "the page can't be written: "+printable(a.err.Error()), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	_, _ = w.Write(a.text) // the client may have gone
}

// sharedAnswer returns a handler whose clients share one answer.
func sharedAnswer(value func() any) http.Handler {
	s := newShared(0, restFor, func() answer { return encode(value()) })
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { s.get().value.serve(w) })
}

// shareMost is how old a shared value gets.
const shareMost = 30 * time.Second

// shared is a value that takes time to make and that many clients ask for. Those who ask while it is made, or for some
// time after, get the same, so that all of them together cost a part of a processor, however many they are.
type shared[T any] struct {
	make  func() T      // not called again before it has returned
	least time.Duration // for so long a value is good
	times int           // as long as making it has taken, if that is more: for so long it is good then, up to shareMost

	making chan struct{} // has a value while somebody has newest; making may take long
	newest *made[T]      // nil: there is none that is good
	number uint64        // of the last one
}

// made is a value.
type made[T any] struct {
	value  T
	number uint64 // grows, also when the gateway starts anew
	until  time.Time
}

func newShared[T any](least time.Duration, times int, make func() T) *shared[T] {
	return &shared[T]{make: make, least: least, times: times, making: newSlot()}
}

func newSlot() chan struct{} { return make(chan struct{}, 1) }

// get returns the value as it was a moment ago. Callers share it.
func (s *shared[T]) get() *made[T] {
	s.making <- struct{}{}
	defer func() { <-s.making }()
	if s.newest != nil && time.Now().Before(s.newest.until) {
		return s.newest
	}
	s.newest = nil // it may go while its successor is made
	began := time.Now()
	s.number = max(s.number+1, uint64(began.UnixNano()))
	m := &made[T]{value: s.make(), number: s.number}
	good := min(shareMost, max(s.least, time.Duration(s.times)*time.Since(began)))
	m.until = time.Now().Add(good)
	s.newest = m
	time.AfterFunc(good, func() { s.drop(m) })
	return m
}

// drop forgets a value that is no longer good.
func (s *shared[T]) drop(m *made[T]) {
	s.making <- struct{}{}
	defer func() { <-s.making }()
	if s.newest == m {
		s.newest = nil
	}
}

// maxRepeated is how much of a text an answer has, in bytes: names of objects are shorter.
const maxRepeated = 400

func printable(s string) string { return text.Clean(s, maxRepeated) }

func printables(texts []string) []string { return text.CleanAll(texts, maxRepeated) }
