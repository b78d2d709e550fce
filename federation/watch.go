package federation

import (
	"sync"
	"sync/atomic"
)

// Latest holds the newest value of something. Its zero value holds T's zero
// value. All methods may be called at any time by any goroutine; none blocks.
type Latest[T any] struct {
	p atomic.Pointer[cell[T]]
}

type cell[T any] struct {
	value    T
	replaced chan struct{}
}

// Get returns the newest value, and a channel that is closed once that value has
// been replaced.
func (l *Latest[T]) Get() (T, <-chan struct{}) {
	c := l.p.Load()
	for c == nil {
		l.p.CompareAndSwap(nil, &cell[T]{replaced: make(chan struct{})})
		c = l.p.Load()
	}
	return c.value, c.replaced
}

// Set replaces the value, and then wakes all goroutines that wait on the channel
// of the old one. They find v, or a newer value.
func (l *Latest[T]) Set(v T) {
	if old := l.p.Swap(&cell[T]{value: v, replaced: make(chan struct{})}); old != nil {
		close(old.replaced)
	}
}

// Watch reads the newest value of something that is kept up to date only while
// it is watched. All methods may be called at any time by any goroutine.
type Watch[T any] struct {
	latest *Latest[T]
	once   sync.Once
	close  func()
}

// NewWatch returns a watch of latest. The first Close calls closed.
func NewWatch[T any](latest *Latest[T], closed func()) *Watch[T] {
	return &Watch[T]{latest: latest, close: closed}
}

// Get returns the newest value, and a channel that is closed once that value has
// been replaced. After Close it goes on returning the last value.
func (w *Watch[T]) Get() (T, <-chan struct{}) { return w.latest.Get() }

// Close ends the watch. It may be called more than once. It does not wake
// goroutines that wait on a channel from Get.
func (w *Watch[T]) Close() { w.once.Do(w.close) }
