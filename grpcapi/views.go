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
	bound  int

	mu   sync.Mutex
	all  map[federation.Key]*view
	idle *simplelru.LRU[federation.Key, *view] // those of all that nobody uses
}

func newViews(t *federation.Table, enc encoder, o Options) (*views, error) {
	idle, err := simplelru.NewLRU[federation.Key, *view](o.IdleViews, nil)
	if err != nil {
		return nil, fmt.Errorf("idle views: %w", err)
	}
	return &views{
		table: t, enc: enc, linger: o.Linger, bound: o.IdleViews,
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
		v.expiry.Stop()
		v.expiry = nil
		vs.idle.Remove(k)
	}
	return v
}

// release ends one stream's use of a view.
func (vs *views) release(v *view) {
	if old := vs.retire(v); old != nil && old.watch != nil {
		old.watch.Close()
	}
}

// retire returns the view that is to be closed now, if any: it may be another
// one, which has been idle for longer.
func (vs *views) retire(v *view) *view {
	vs.mu.Lock()
	defer vs.mu.Unlock()
	if v.refs--; v.refs > 0 {
		return nil
	}
	if vs.linger < 0 || !v.worthKeeping() {
		delete(vs.all, v.key)
		return v
	}
	var oldest *view
	if vs.idle.Len() == vs.bound {
		_, oldest, _ = vs.idle.RemoveOldest()
		delete(vs.all, oldest.key)
		oldest.expiry.Stop()
	}
	vs.idle.Add(v.key, v)
	v.leases++
	lease := v.leases
	v.expiry = time.AfterFunc(vs.linger, func() { vs.expire(v, lease) })
	return oldest
}

// worthKeeping tells whether to keep an idle view: an empty one is made again in
// no time, and may be of a name that somebody made up.
func (v *view) worthKeeping() bool {
	if v.watch == nil {
		return false
	}
	set, _ := v.get()
	return len(set.Endpoints) > 0
}

// expire closes a view unless it has been used since that lease began, or has
// been closed.
func (vs *views) expire(v *view, lease uint64) {
	vs.mu.Lock()
	due := vs.all[v.key] == v && v.refs == 0 && v.leases == lease
	if due {
		delete(vs.all, v.key)
		vs.idle.Remove(v.key)
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
