package pace

import (
	"context"
	"sync"
	"time"
)

// Dirty is a set of keys to be handled. A key that is added again before its turn comes
// is handled once. All methods are safe for concurrent use.
type Dirty[K comparable] struct {
	wake chan struct{} // holds one token while the set may have something

	mu    sync.Mutex
	since map[tenantKey[K]]time.Time // when each was first added
	queue *turns[K]                  // of the same keys
}

// tenantKey is a key as work of a tenant. The same key may be work of several.
type tenantKey[K comparable] struct {
	tenant string
	key    K
}

// NewDirty returns an empty set.
func NewDirty[K comparable]() *Dirty[K] {
	return &Dirty[K]{
		wake:  make(chan struct{}, 1),
		since: make(map[tenantKey[K]]time.Time),
		queue: newTurns[K](),
	}
}

// Add adds a key as work of a tenant. at is passed on to the handler. Add never blocks.
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

// Run handles keys, one by one, until ctx ends. Several goroutines may call it: then
// keys of different tenants are handled at the same time, but never two of one tenant.
func (d *Dirty[K]) Run(ctx context.Context, handle func(key K, at time.Time)) {
	for ctx.Err() == nil {
		d.Drain(ctx, handle)
		select {
		case <-ctx.Done():
		case <-d.wake:
		}
	}
}

// Drain handles keys, one by one, until none is left or ctx ends. at is the time with
// which a key was first added since its last turn.
func (d *Dirty[K]) Drain(ctx context.Context, handle func(key K, at time.Time)) {
	for ctx.Err() == nil {
		tenant, key, at, ok := d.next()
		if !ok {
			return
		}
		d.handle(tenant, key, at, handle)
	}
}

// handle handles one key. The tenant's next key can be handled after that, also if handle panics.
func (d *Dirty[K]) handle(tenant string, key K, at time.Time, handle func(K, time.Time)) {
	defer d.done(tenant)
	handle(key, at)
}

func (d *Dirty[K]) done(tenant string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.queue.done(tenant)
	if d.queue.len() > 0 {
		d.signal() // if handle has panicked, this worker takes nothing more
	}
}

// next takes the key whose turn it is. If there are more, it wakes another worker.
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

// turns is a queue of keys in which tenants take turns: at most one key of a tenant is being handled at a time. It does
// not look for duplicate keys, and is not safe for concurrent use.
type turns[K comparable] struct {
	tenants map[string]*tenant[K] // the tenants with keys, waiting or being handled
	order   []*tenant[K]          // the tenants with a waiting key and none being handled; the first is next
}

// tenant is one tenant's keys.
type tenant[K comparable] struct {
	name    string
	waiting []K // in the order in which they were added
	busy    bool
}

func newTurns[K comparable]() *turns[K] {
	return &turns[K]{tenants: make(map[string]*tenant[K])}
}

// len returns how many tenants can start a key. It is 0 if and only if pop returns none.
func (q *turns[K]) len() int { return len(q.order) }

// push adds a key of a tenant.
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

// pop removes the next key, and returns its tenant too. If there is none, ok is false. The tenant's next key waits
// until done is called.
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

// done says that the key that pop returned last for a tenant has been handled.
func (q *turns[K]) done(name string) {
	o := q.tenants[name]
	o.busy = false
	if len(o.waiting) > 0 {
		q.order = append(q.order, o)
	} else {
		delete(q.tenants, name)
	}
}
