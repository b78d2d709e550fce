package grpcapi

import (
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"isthmus/federation"
)

// views are all views by key. A view is open while a stream uses it, and stays
// for some time after.
type views struct {
	table  *federation.Table // fixed, as are enc, linger and bound
	enc    encoder
	linger time.Duration
	bound  int // of the number of idle views
	most   int // of their endpoints

	mu        sync.Mutex
	all       map[federation.Key]*view
	idle      *simplelru.LRU[federation.Key, *view] // those of all that nobody uses
	endpoints int                                   // theirs, when they became idle
}

func newViews(t *federation.Table, enc encoder, o Options) (*views, error) {
	idle, err := simplelru.NewLRU[federation.Key, *view](o.IdleViews, nil)
	if err != nil {
		return nil, fmt.Errorf("idle views: %w", err)
	}
	return &views{
		table: t, enc: enc, linger: o.Linger, bound: o.IdleViews, most: o.IdleEndpoints,
		all: make(map[federation.Key]*view), idle: idle,
	}, nil
}

// acquire returns the key's view, for one stream to open, use and release.
func (vs *views) acquire(k federation.Key) *view {
	vs.mu.Lock()
	defer vs.mu.Unlock()
	v := vs.all[k]
	if v == nil {
		v = &view{key: k, enc: vs.enc}
		v.enc.zone = k.Client.Zone
		vs.all[k] = v
	}
	if v.refs++; v.expiry != nil {
		vs.wake(v)
	}
	return v
}

// wake makes a view idle no more. vs.mu is held.
func (vs *views) wake(v *view) {
	v.expiry.Stop()
	v.expiry = nil
	vs.idle.Remove(v.key)
	vs.endpoints -= v.weight
}

// release ends one stream's use of a view.
func (vs *views) release(v *view) {
	for _, old := range vs.retire(v) {
		if old.watch != nil {
			old.watch.Close()
		}
	}
}

// retire returns the views that are to be closed now: this one, or others that
// have been idle for longer.
func (vs *views) retire(v *view) (old []*view) {
	vs.mu.Lock()
	defer vs.mu.Unlock()
	if v.refs--; v.refs > 0 {
		return nil
	}
	v.weight = v.size()
	// An empty one is made again in no time, and may be of a name that somebody
	// made up.
	if vs.linger < 0 || v.weight == 0 || v.weight > vs.most {
		delete(vs.all, v.key)
		return []*view{v}
	}
	for vs.idle.Len() == vs.bound || vs.endpoints+v.weight > vs.most {
		_, oldest, _ := vs.idle.GetOldest()
		vs.wake(oldest)
		delete(vs.all, oldest.key)
		old = append(old, oldest)
	}
	vs.idle.Add(v.key, v)
	vs.endpoints += v.weight
	v.leases++
	lease := v.leases
	v.expiry = time.AfterFunc(vs.linger, func() { vs.expire(v, lease) })
	return old
}

// size returns how many endpoints the view has.
func (v *view) size() int {
	if v.watch == nil {
		return 0
	}
	set, _ := v.get()
	return len(set.Endpoints)
}

// expire closes a view unless it has been used since that lease began, or has
// been closed.
func (vs *views) expire(v *view, lease uint64) {
	vs.mu.Lock()
	due := vs.all[v.key] == v && v.refs == 0 && v.leases == lease
	if due {
		delete(vs.all, v.key)
		vs.wake(v)
	}
	vs.mu.Unlock()
	if due {
		v.watch.Close()
	}
}

// count returns the number of views, and of those among them that are idle.
func (vs *views) count() (all, idle int) {
	vs.mu.Lock()
	defer vs.mu.Unlock()
	return len(vs.all), vs.idle.Len()
}
