package main

import "time"

const (
	shareFor = time.Second // at least: for so long a shared value is good
	restFor  = 50          // times as long as making it has taken, if that is more
)

// shared is a value that takes time to make and that many clients ask for. It is made when somebody
// asks, so seldom that all that ask cost a fiftieth of a core for it, and dropped when nobody does.
type shared[T any] struct {
	fresh func() T // not called again before it has returned

	making chan struct{} // has a value while somebody has the fields below; making may take long
	newest T
	number uint64 // of newest
	kept   bool   // there is a newest
	madeAt time.Time
	rest   time.Duration // until it may be made anew
	forget *time.Timer   // drops newest once nobody asks
}

func newShared[T any](fresh func() T) *shared[T] {
	return &shared[T]{fresh: fresh, making: make(chan struct{}, 1)}
}

// get returns the value as it was a moment ago, and its number, which grows, also when the gateway
// starts anew. Callers share the value.
func (s *shared[T]) get() (T, uint64) {
	s.making <- struct{}{}
	defer func() { <-s.making }()
	if s.kept && time.Since(s.madeAt) < s.rest {
		return s.newest, s.number
	}
	began := time.Now()
	s.newest, s.kept = s.fresh(), true
	s.madeAt = time.Now()
	s.number = max(s.number+1, uint64(s.madeAt.UnixNano()))
	s.rest = max(shareFor, restFor*s.madeAt.Sub(began))
	if s.forget != nil {
		s.forget.Stop()
	}
	s.forget = time.AfterFunc(2*s.rest, s.drop)
	return s.newest, s.number
}

// drop frees the memory of what nobody asks for any more.
func (s *shared[T]) drop() {
	s.making <- struct{}{}
	defer func() { <-s.making }()
	if time.Since(s.madeAt) >= 2*s.rest {
		var none T
		s.newest, s.kept = none, false
	}
}
