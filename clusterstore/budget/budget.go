package budget

import (
	"errors"
	"fmt"
	"sync"
)

// Limits are a Pool's, in bytes.
type Limits struct {
	Cluster int64 // of one cluster
	All     int64 // of all clusters together
}

// Usage is what a cluster takes, by estimate, and what it may take, in bytes.
type Usage struct {
	Used  int64 `json:"used"`
	Limit int64 `json:"limit"`
}

// ErrOver is in every error about a cluster that takes too much.
var ErrOver = errors.New("over budget")

// Error is why something was refused. It is an [ErrOver].
type Error struct{ text string }

func (e *Error) Error() string { return ErrOver.Error() + ": " + e.text }

// Is reports whether target is ErrOver.
func (e *Error) Is(target error) bool { return target == ErrOver }

// Errorf returns an Error with that text after "over budget: ".
func Errorf(format string, args ...any) *Error { return &Error{fmt.Sprintf(format, args...)} }

// Pool is the memory that all linked clusters share.
type Pool struct {
	// fixed
	limits Limits
	turn   chan struct{} // has an element while a list is being decoded

	mu      sync.Mutex // guards the rest, and the fields of the budgets
	budgets map[*Budget]struct{}
}

// NewPool returns a Pool without budgets.
func NewPool(l Limits) *Pool {
	return &Pool{limits: l, turn: make(chan struct{}, 1), budgets: make(map[*Budget]struct{})}
}

// Budget is the memory of one cluster.
type Budget struct {
	pool *Pool // fixed

	// under pool.mu
	used   int64
	closed bool
}

// Add returns a new Budget, which counts in the Pool until it is closed.
func (p *Pool) Add() *Budget {
	if p == nil {
		return nil
	}
	b := &Budget{pool: p}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.budgets[b] = struct{}{}
	return b
}

// Close gives back all that the budget has. Later charges count nothing.
func (b *Budget) Close() {
	if b == nil {
		return
	}
	b.pool.mu.Lock()
	defer b.pool.mu.Unlock()
	b.used, b.closed = 0, true
	delete(b.pool.budgets, b)
}

// Usage returns what the cluster has now. Without a Budget it is zero.
func (b *Budget) Usage() Usage {
	if b == nil {
		return Usage{}
	}
	b.pool.mu.Lock()
	defer b.pool.mu.Unlock()
	return Usage{Used: b.used, Limit: b.pool.limits.Cluster}
}

// Charge takes n bytes for what is named, or refuses them by an [Error] and takes none.
// A negative n gives bytes back, which is never refused.
func (b *Budget) Charge(n int64, what string) error {
	if b == nil {
		return nil
	}
	b.pool.mu.Lock()
	defer b.pool.mu.Unlock()
	if b.closed {
		return nil
	}
	if n > 0 {
		if err := b.refuse(n, what); err != nil {
			return err
		}
	}
	b.used += n
	return nil
}

// refuse returns why n more bytes are too much; nil: they are not. pool.mu is held.
func (b *Budget) refuse(n int64, what string) error {
	if limit := b.pool.limits.Cluster; n > limit-b.used {
		return Errorf("%s would take %s more, by estimate, and the cluster has %s of the %s that --cluster-memory allows",
			what, size(n), size(b.used), size(limit))
	}
	part := b.pool.limits.All / 2 / int64(len(b.pool.budgets))
	if b.used+n <= part {
		return nil
	}
	// Beyond its part a cluster takes from the common half.
	common := b.used + n - part
	for other := range b.pool.budgets {
		if other != b {
			common += max(0, other.used-part)
		}
	}
	if half := b.pool.limits.All / 2; common > half {
		return Errorf("%s would take %s more, by estimate, the cluster has %s, and all linked clusters together have no more to spare "+
			"of their %s: raise the gateway's memory limit, or link fewer clusters", what, size(n), size(b.used), size(b.pool.limits.All))
	}
	return nil
}

// size returns a number of bytes for people.
func size(n int64) string {
	if n < 1<<20 {
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
}
