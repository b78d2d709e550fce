package budget

import (
	"errors"
	"fmt"
	"sync"

	"isthmus/internal/adminapi"
)

// Limits are a Pool's, in bytes.
type Limits struct {
	Cluster int64 // that may be kept of one cluster
	All     int64 // of all clusters together, with lists that are being read
}

// ErrOver is what every error wraps that is about a cluster which takes too much.
var ErrOver = errors.New("over budget")

// Pool is the memory that all linked clusters share.
type Pool struct {
	// fixed
	limits Limits

	mu      sync.Mutex // guards the rest, and the fields of the budgets
	budgets map[*Budget]struct{}
}

// NewPool returns a Pool without budgets.
func NewPool(l Limits) *Pool {
	return &Pool{limits: l, budgets: make(map[*Budget]struct{})}
}

// Budget is the memory of one cluster.
type Budget struct {
	pool *Pool // fixed

	// under pool.mu
	used   int64 // all that is there of it
	counts int64 // for Limits.Cluster
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
	b.used, b.counts, b.closed = 0, 0, true
	delete(b.pool.budgets, b)
}

// Usage returns what the cluster has now, and the most that it can have: Limits.Cluster, or its part and what
// one cluster gets beyond that, if that is less. Without a Budget it is zero.
func (b *Budget) Usage() adminapi.Memory {
	if b == nil {
		return adminapi.Memory{}
	}
	b.pool.mu.Lock()
	defer b.pool.mu.Unlock()
	l := b.pool.limits
	return adminapi.Memory{Used: b.used, Limit: min(l.Cluster, b.pool.part()+l.All/2/2)}
}

// Keep takes so many bytes, of which some count for the limit of the cluster alone, or refuses them by an
// error that wraps [ErrOver] and takes none. Negative ones are given back, which is never refused.
func (b *Budget) Keep(used, counts int64, what string) error {
	if b == nil {
		return nil
	}
	b.pool.mu.Lock()
	defer b.pool.mu.Unlock()
	if b.closed {
		return nil
	}
	if err := b.refuse(used, counts, what); err != nil {
		return err
	}
	b.used, b.counts = b.used+used, b.counts+counts
	return nil
}

// Change is Keep for what may not be refused: what takes less than before, or as much under another name.
func (b *Budget) Change(used, counts int64) {
	if b == nil {
		return
	}
	b.pool.mu.Lock()
	defer b.pool.mu.Unlock()
	if !b.closed {
		b.used, b.counts = b.used+used, b.counts+counts
	}
}

// Fits returns the error by which so many more bytes would be refused for the limit of the cluster alone.
func (b *Budget) Fits(counts int64, what string) error {
	if b == nil {
		return nil
	}
	b.pool.mu.Lock()
	defer b.pool.mu.Unlock()
	return b.refuse(0, counts, what)
}

// refuse returns why so many more bytes are too much; nil: they are not. pool.mu is held.
func (b *Budget) refuse(used, counts int64, what string) error {
	limit := b.pool.limits.Cluster
	if counts > 0 && counts > limit-b.counts {
		return fmt.Errorf("%w: %s would take %s more, and the cluster has %s of the %s that --cluster-memory allows", ErrOver, what, size(counts), size(b.counts), size(limit))
	}
	all, half := b.pool.limits.All, b.pool.limits.All/2
	mine, others := b.beyond(used), int64(0)
	if used <= 0 || mine == 0 {
		return nil
	}
	for other := range b.pool.budgets {
		if other != b {
			others += other.beyond(0)
		}
	}
	if mine > half/2 {
		return fmt.Errorf("%w: %s would take %s more, the cluster has %s, and of the %s of all linked clusters one can't have more: raise the gateway's memory limit",
			ErrOver, what, size(used), size(b.used), size(all))
	}
	if mine > half-others {
		return fmt.Errorf("%w: %s would take %s more, the cluster has %s, and all linked clusters together have no more to spare "+
			"of their %s: raise the gateway's memory limit, or link fewer clusters", ErrOver, what, size(used), size(b.used), size(all))
	}
	return nil
}

// beyond returns how much the cluster would have beyond its part if it had n more; 0 if it has that within
// it. pool.mu is held.
func (b *Budget) beyond(n int64) int64 {
	return max(0, b.used+n-b.pool.part())
}

// part returns what each cluster gets, whatever the others take. pool.mu is held.
func (p *Pool) part() int64 { return p.limits.All / 2 / int64(max(1, len(p.budgets))) }

// size returns a number of bytes for people.
func size(n int64) string {
	if n < 1<<20 {
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
}
