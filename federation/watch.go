package federation

import "sync"

// Watch follows the newest value of something that lives only while it is
// watched. Close it when done; Close may be called more than once, and Get goes
// on returning the last value after it.
type Watch[T any] struct {
	latest *Latest[T]
	once   sync.Once
	close  func()
}

// NewWatch returns a watch of latest; closed, when it is done, is called once.
func NewWatch[T any](latest *Latest[T], closed func()) *Watch[T] {
	return &Watch[T]{latest: latest, close: closed}
}

// Get returns the newest value and a channel that is closed once that value has
// been replaced.
func (w *Watch[T]) Get() (T, <-chan struct{}) { return w.latest.Get() }

// Close ends the watch. It does not wake those who wait on a channel from Get.
func (w *Watch[T]) Close() { w.once.Do(w.close) }
