package federation

import "sync/atomic"

// Latest holds the newest value of something. Its zero value holds T's zero
// value. All methods may be called at any time by any goroutine; none blocks.
type Latest[T any] struct {
	p atomic.Pointer[cell[T]]
}

type cell[T any] struct {
	value T
	stale chan struct{}
}

// Get returns the newest value and a channel that is closed once that value has
// been replaced.
func (l *Latest[T]) Get() (T, <-chan struct{}) {
	c := l.p.Load()
	for c == nil {
		l.p.CompareAndSwap(nil, &cell[T]{stale: make(chan struct{})})
		c = l.p.Load()
	}
	return c.value, c.stale
}

// Set replaces the value: swap one pointer, then wake whoever waits for it.
// A goroutine that is woken finds v, or something newer.
func (l *Latest[T]) Set(v T) {
	if old := l.p.Swap(&cell[T]{value: v, stale: make(chan struct{})}); old != nil {
		close(old.stale)
	}
}
