package follow

import (
	"errors"
	"fmt"
	"sync"

	"isthmus/internal/adminapi"
)

// ErrOverBudget means that a cluster would exceed its memory cap. Errors with details wrap
// ErrOverBudget.
var ErrOverBudget = errors.New("over budget")

// MemoryCap limits the estimated memory of one cluster's cache, in bytes. Each resource contributes
// the size of its cache or of the list that is being read, whichever is larger. A separate limit of
// the same size applies to objects that are staged while a list is being read. A MemoryCap is safe
// for concurrent use.
//
// A MemoryCap rejects changes that would exceed the limit. A MemoryCap does not evict objects or
// wait for free memory.
type MemoryCap struct {
	limit int64 // fixed

	mu      sync.Mutex
	counted int64 // sum over all resources of the larger of cached and listed bytes
	staged  int64 // bytes staged by lists that are being read
}

// NewMemoryCap returns a MemoryCap with the given limit in bytes, or nil if the limit is zero.
func NewMemoryCap(limit int64) *MemoryCap {
	if limit == 0 {
		return nil
	}
	return &MemoryCap{limit: limit}
}

// Usage returns the counted bytes and the limit, which are both zero for a nil MemoryCap.
func (m *MemoryCap) Usage() adminapi.Memory {
	if m == nil {
		return adminapi.Memory{}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return adminapi.Memory{Used: m.counted, Limit: m.limit}
}

// add adds bytes to both counters. If a counter would exceed the limit, both counters stay
// unchanged, and the returned error wraps [ErrOverBudget].
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

// adjust is like add, but never fails. adjust is for changes that free memory, or that move objects
// from a list to the cache.
func (m *MemoryCap) adjust(counted, staged int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.counted += counted
	m.staged += staged
}

// The fits method returns the error that add would return, without changing the counters.
func (m *MemoryCap) fits(counted int64, resource string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.check(counted, 0, resource)
}

// The check method returns an error if adding the given bytes would exceed the limit. The caller
// holds m.mu.
func (m *MemoryCap) check(counted, staged int64, resource string) error {
	switch {
	case counted > 0 && counted > m.limit-m.counted:
		return fmt.Errorf("%w: the cache of %s needs %s more memory, but %s of the memory cap of %s is already in use",
			ErrOverBudget, resource, size(counted), size(m.counted), size(m.limit))
	case staged > 0 && staged > m.limit-m.staged:
		return fmt.Errorf("%w: a list of %s needs %s more memory, "+
			"but the lists in progress already use %s of the memory cap of %s",
			ErrOverBudget, resource, size(staged), size(m.staged), size(m.limit))
	}
	return nil
}

func size(n int64) string {
	if n < 1<<20 {
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
}
