package grpcapi

import (
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"isthmus/federation"
)

// base is what the views of both RPCs have in common: the key K that it is shared
// by, and a watch of the newest T.
type base[K comparable, T any] struct {
	key K

	// under views.mu
	refs   int
	leases uint64      // how often it has become idle
	expiry *time.Timer // of the newest lease; nil: it is in use
	weighs int         // its weight when it became idle

	mu      sync.Mutex
	watch   *federation.Watch[T] // fixed once startWatch has returned
	updates uint64               // under mu: of a profile, how often it was another when it was asked for
}

// startWatch begins to watch, unless that has been done.
func (b *base[K, T]) startWatch(watch func(K) *federation.Watch[T]) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.watch == nil {
		b.watch = watch(b.key)
	}
}

// get returns the newest value, and a channel that is closed once there is another.
func (b *base[K, T]) get() (T, <-chan struct{}) { return b.watch.Get() }

func (b *base[K, T]) root() *base[K, T] { return b }

// shared is a view that embeds a base.
type shared[K comparable, T any] interface {
	comparable
	root() *base[K, T]
	// rest is called when nobody uses the view, which watches, any more. It returns
	// about how many bytes the view takes from now on; 0: it is not worth keeping.
	rest() int
}

// views are all views of one kind by key. A view is open while a stream uses it,
// and stays for some time after.
type views[K comparable, T any, V shared[K, T]] struct {
	create func(K) V // fixed, as are linger, bound and most
	linger time.Duration
	bound  int // of the number of idle views
	most   int // of their weight

	mu      sync.Mutex
	all     map[K]V
	idle    *simplelru.LRU[K, V] // those of all that nobody uses
	weighs  int                  // what these weigh
	evicted uint64               // closed to make room
}

func newViews[K comparable, T any, V shared[K, T]](o Options, create func(K) V) (*views[K, T, V], error) {
	idle, err := simplelru.NewLRU[K, V](o.IdleViews, nil)
	if err != nil {
		return nil, fmt.Errorf("idle views: %w", err)
	}
	return &views[K, T, V]{
		create: create, linger: o.Linger, bound: o.IdleViews, most: o.IdleBytes,
		all: make(map[K]V), idle: idle,
	}, nil
}

// acquire returns the key's view, for one stream to use and release. It may not
// watch yet: see startWatch.
func (vs *views[K, T, V]) acquire(k K) V {
	vs.mu.Lock()
	defer vs.mu.Unlock()
	v, ok := vs.all[k]
	if !ok {
		v = vs.create(k)
		vs.all[k] = v
	}
	b := v.root()
	if b.refs++; b.expiry != nil {
		vs.wake(b)
	}
	return v
}

// wake makes a view idle no more. vs.mu is held.
func (vs *views[K, T, V]) wake(b *base[K, T]) {
	b.expiry.Stop()
	b.expiry = nil
	vs.idle.Remove(b.key)
	vs.weighs -= b.weighs
}

// release ends one stream's use of a view.
func (vs *views[K, T, V]) release(v V) {
	for _, old := range vs.retire(v) {
		if old.watch != nil {
			old.watch.Close()
		}
	}
}

// retire returns the views that are to be closed now: this one, or others that
// have been idle for longer.
func (vs *views[K, T, V]) retire(v V) (old []*base[K, T]) {
	vs.mu.Lock()
	defer vs.mu.Unlock()
	b := v.root()
	if b.refs--; b.refs > 0 {
		return nil
	}
	b.weighs = 0
	if vs.linger >= 0 && b.watch != nil {
		b.weighs = v.rest()
	}
	if b.weighs == 0 || b.weighs > vs.most {
		delete(vs.all, b.key)
		return []*base[K, T]{b}
	}
	for vs.idle.Len() == vs.bound || vs.weighs+b.weighs > vs.most {
		_, oldest, _ := vs.idle.GetOldest()
		vs.wake(oldest.root())
		delete(vs.all, oldest.root().key)
		old = append(old, oldest.root())
		vs.evicted++
	}
	vs.idle.Add(b.key, v)
	vs.weighs += b.weighs
	b.leases++
	lease := b.leases
	b.expiry = time.AfterFunc(vs.linger, func() { vs.expire(v, lease) })
	return old
}

// expire closes a view unless it has been used since that lease began, or has
// been closed.
func (vs *views[K, T, V]) expire(v V, lease uint64) {
	b := v.root()
	vs.mu.Lock()
	due := vs.all[b.key] == v && b.refs == 0 && b.leases == lease
	if due {
		delete(vs.all, b.key)
		vs.wake(b)
	}
	vs.mu.Unlock()
	if due {
		b.watch.Close()
	}
}

// count returns the number of views, and of those among them that are idle.
func (vs *views[K, T, V]) count() (all, idle int) {
	vs.mu.Lock()
	defer vs.mu.Unlock()
	return len(vs.all), vs.idle.Len()
}

// evictions returns the number of views that were closed to make room.
func (vs *views[K, T, V]) evictions() uint64 {
	vs.mu.Lock()
	defer vs.mu.Unlock()
	return vs.evicted
}
