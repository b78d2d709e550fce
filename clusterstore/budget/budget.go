package budget

import (
	"errors"
	"fmt"
	"sync"

	"isthmus/internal/adminapi"
)

// Limits are a Pool's, in bytes.
type Limits struct {
	Cluster int64 // that may be kept of one cluster; while it is read it may take reading more
	All     int64 // of all clusters together, with what is being read
}

// reading is the part of what may be kept that is left, or comes on top, for lists and events
// on their way: a cluster of which as much is kept as may be has to be read to become smaller.
const reading = 4

// turns is how many lists are decoded at once. With one, a second processor has little to do
// while a gateway starts; with more, what is decoded at once would be more.
const turns = 2

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
	turn   chan struct{} // has an element for each list that is being decoded

	mu      sync.Mutex // guards the rest, and the fields of the budgets
	budgets map[*Budget]struct{}
}

// NewPool returns a Pool without budgets.
func NewPool(l Limits) *Pool {
	return &Pool{limits: l, turn: make(chan struct{}, turns), budgets: make(map[*Budget]struct{})}
}

// Budget is the memory of one cluster.
type Budget struct {
	pool *Pool // fixed

	// under pool.mu
	used   int64 // with what is kept
	kept   int64
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
	b.used, b.kept, b.closed = 0, 0, true
	delete(b.pool.budgets, b)
}

// Usage returns what the cluster has now. Without a Budget it is zero.
func (b *Budget) Usage() adminapi.Memory {
	if b == nil {
		return adminapi.Memory{}
	}
	b.pool.mu.Lock()
	defer b.pool.mu.Unlock()
	return adminapi.Memory{Used: b.used, Limit: b.pool.limits.Cluster}
}

// Charge takes n bytes for what is named and on its way, or refuses them by an [Error] and
// takes none. A negative n gives bytes back, which is never refused.
func (b *Budget) Charge(n int64, what string) error { return b.charge(n, 0, what) }

// Keep is Charge for what is kept.
func (b *Budget) Keep(n int64, what string) error { return b.charge(n, n, what) }

// charge takes n bytes, of which so many are kept.
func (b *Budget) charge(n, kept int64, what string) error {
	if b == nil {
		return nil
	}
	b.pool.mu.Lock()
	defer b.pool.mu.Unlock()
	if b.closed {
		return nil
	}
	if n > 0 {
		if err := b.refuse(n, kept, what); err != nil {
			return err
		}
	}
	b.used, b.kept = b.used+n, b.kept+kept
	return nil
}

// refuse returns why n more bytes are too much, of which so many are kept; nil: they are not.
// pool.mu is held.
func (b *Budget) refuse(n, kept int64, what string) error {
	limit, has := b.pool.limits.Cluster, b.used
	if kept > 0 {
		has = b.kept
	}
	if n > limit+limit/reading-b.used || kept > 0 && kept > limit-b.kept {
		return Errorf("%s would take %s more, by estimate, and the cluster has %s of the %s that --cluster-memory allows",
			what, size(n), size(has), size(limit))
	}
	all, half := b.pool.limits.All, b.pool.limits.All/2
	if b.beyond(n, (*Budget).takes) > half || kept > 0 && b.beyond(kept, (*Budget).keeps) > half-half/reading {
		return Errorf("%s would take %s more, by estimate, the cluster has %s, and all linked clusters together have no more to spare "+
			"of their %s: raise the gateway's memory limit, or link fewer clusters", what, size(n), size(b.used), size(all))
	}
	return nil
}

func (b *Budget) takes() int64 { return b.used }
func (b *Budget) keeps() int64 { return b.kept }

// beyond returns how much all clusters would have beyond their parts if this one had n more; 0
// if it has that within its own. pool.mu is held.
func (b *Budget) beyond(n int64, has func(*Budget) int64) int64 {
	part := b.pool.limits.All / 2 / int64(len(b.pool.budgets))
	common := has(b) + n - part
	if common <= 0 {
		return 0
	}
	for other := range b.pool.budgets {
		if other != b {
			common += max(0, has(other)-part)
		}
	}
	return common
}

// size returns a number of bytes for people.
func size(n int64) string {
	if n < 1<<20 {
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
}
