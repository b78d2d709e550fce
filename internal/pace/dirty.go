package pace

import (
	"context"
	"sync"
	"time"
)

// Dirty is a set of keys that have to be handled. If a key is added again while it is waiting, it
// is still handled only once. All methods are safe for concurrent use.
type Dirty[K comparable] struct {
	wake chan struct{} // has one token while the set may have keys

	mu    sync.Mutex
	since map[tenantKey[K]]time.Time // when each key was first added
	queue *turns[K]                  // the same keys
}

// Different tenants may add the same key.
type tenantKey[K comparable] struct {
	tenant string
	key    K
}

func NewDirty[K comparable]() *Dirty[K] {
	return &Dirty[K]{
		wake:  make(chan struct{}, 1),
		since: make(map[tenantKey[K]]time.Time),
		queue: newTurns[K](),
	}
}

// Add adds a key for a tenant. If the key is already waiting, Add does not update the time at which
// the key was added. Add never blocks.
func (d *Dirty[K]) Add(tenant string, key K, at time.Time) {
	defer d.signal()
	o := tenantKey[K]{tenant, key}
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, ok := d.since[o]; !ok {
		d.since[o] = at
		d.queue.push(tenant, key)
	}
}

// Run handles keys one by one until ctx is done. If several goroutines call Run, they handle keys
// of different tenants concurrently. Two keys of one tenant are never handled at the same time.
func (d *Dirty[K]) Run(ctx context.Context, handle func(key K, at time.Time)) {
	for ctx.Err() == nil {
		d.Drain(ctx, handle)
		select {
		case <-ctx.Done():
		case <-d.wake:
		}
	}
}

// Drain handles keys one by one until no keys are left or ctx is done. The handler receives the key
// and the time that was passed to Add. If Add was called several times while the key was waiting,
// the handler receives the time from the first call.
func (d *Dirty[K]) Drain(ctx context.Context, handle func(key K, at time.Time)) {
	for ctx.Err() == nil {
		tenant, key, at, ok := d.next()
		if !ok {
			return
		}
		d.handle(tenant, key, at, handle)
	}
}

// handle handles one key and then frees the tenant for its next key, even if the handler panics.
func (d *Dirty[K]) handle(tenant string, key K, at time.Time, handle func(K, time.Time)) {
	defer d.done(tenant)
	handle(key, at)
}

func (d *Dirty[K]) done(tenant string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.queue.done(tenant)
	if d.queue.len() > 0 {
		d.signal() // if handle panicked, this worker handles no further keys
	}
}

// next returns the next key to handle, and wakes another worker if more keys are waiting.
func (d *Dirty[K]) next() (tenant string, key K, at time.Time, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	tenant, key, ok = d.queue.pop()
	at = d.since[tenantKey[K]{tenant, key}]
	delete(d.since, tenantKey[K]{tenant, key})
	if d.queue.len() > 0 {
		d.signal()
	}
	return tenant, key, at, ok
}

func (d *Dirty[K]) signal() {
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// The turns type is a queue of keys in which tenants take turns. Only one key of each tenant is
// handled at a time. The queue does not detect duplicate keys, and is not safe for concurrent use.
type turns[K comparable] struct {
	tenants map[string]*tenant[K] // the tenants with waiting keys or a key that is being handled
	order   []*tenant[K]          // the tenants that can start a waiting key; the first is next
}

type tenant[K comparable] struct {
	name    string
	waiting []K // in the order in which they were added
	busy    bool
}

func newTurns[K comparable]() *turns[K] {
	return &turns[K]{tenants: make(map[string]*tenant[K])}
}

// len returns the number of tenants whose next key can be handled now.
func (q *turns[K]) len() int { return len(q.order) }

func (q *turns[K]) push(name string, key K) {
	o := q.tenants[name]
	if o == nil {
		o = &tenant[K]{name: name}
		q.tenants[name] = o
	}
	if len(o.waiting) == 0 && !o.busy {
		q.order = append(q.order, o)
	}
	o.waiting = append(o.waiting, key)
}

// pop removes and returns the next key and its tenant. If no key can be handled now, pop returns
// false. The tenant's next key waits until done is called.
func (q *turns[K]) pop() (name string, key K, ok bool) {
	if len(q.order) == 0 {
		return name, key, false
	}
	o := q.order[0]
	q.order[0] = nil
	q.order = q.order[1:]
	key = o.waiting[0]
	o.waiting = o.waiting[1:]
	o.busy = true
	return o.name, key, true
}

// The done method allows pop to return the tenant's next key. Call this method after you have
// handled the key that pop returned for the tenant.
func (q *turns[K]) done(name string) {
	o := q.tenants[name]
	o.busy = false
	if len(o.waiting) > 0 {
		q.order = append(q.order, o)
	} else {
		delete(q.tenants, name)
	}
}
