package follow

import (
	"errors"
	"fmt"
	"sync"

	"isthmus/internal/adminapi"
)

// ErrOverBudget is wrapped by every error that says that a cluster would exceed its memory cap.
var ErrOverBudget = errors.New("over budget")

// MemoryCap bounds the memory that one cluster's cache may take, in bytes by estimate. The cap counts, for each
// resource, the larger of what is cached and what a list that is being read will be. What such lists have staged
// beside the cache may take as much again. A nil *MemoryCap bounds nothing. Its methods may be called
// concurrently.
//
// Nothing waits for memory, and nothing that is cached is evicted: a change that would exceed the cap is refused.
type MemoryCap struct {
	limit int64 // fixed

	mu      sync.Mutex
	counted int64 // the larger of cached and listed, of all resources
	staged  int64 // what lists that are being read have staged
}

// NewMemoryCap returns a MemoryCap of limit bytes. If limit is zero, it returns nil.
func NewMemoryCap(limit int64) *MemoryCap {
	if limit == 0 {
		return nil
	}
	return &MemoryCap{limit: limit}
}

// Usage returns what counts against the cap, and the cap. If m is nil, it returns zero.
func (m *MemoryCap) Usage() adminapi.Memory {
	if m == nil {
		return adminapi.Memory{}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return adminapi.Memory{Used: m.counted, Limit: m.limit}
}

// add adds bytes to both figures. If one of them grows beyond the cap, add changes nothing and returns an error
// that wraps [ErrOverBudget].
func (m *MemoryCap) add(counted, staged int64, resource string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.check(counted, staged, resource); err != nil {
		return err
	}
	m.counted += counted
	m.staged += staged
	return nil
}

// adjust is like add, but is never refused. It is for changes that free memory, or move it from a list to the
// cache.
func (m *MemoryCap) adjust(counted, staged int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.counted += counted
	m.staged += staged
}

// fits returns the error with which add would refuse that many bytes.
func (m *MemoryCap) fits(counted int64, resource string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.check(counted, 0, resource)
}

// check returns why the figures may not grow by that much. m.mu is held.
func (m *MemoryCap) check(counted, staged int64, resource string) error {
	switch {
	case counted > 0 && counted > m.limit-m.counted:
		return fmt.Errorf("%w: the cache of %s would take %s more, and %s of the memory cap of %s are used",
			ErrOverBudget, resource, size(counted), size(m.counted), size(m.limit))
	case staged > 0 && staged > m.limit-m.staged:
		return fmt.Errorf("%w: a list of %s would take %s more, and lists that are being read use %s of the "+
			"memory cap of %s", ErrOverBudget, resource, size(staged), size(m.staged), size(m.limit))
	}
	return nil
}

// size formats a number of bytes for people.
func size(n int64) string {
	if n < 1<<20 {
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
}
