package follow

import (
	"fmt"
	"time"
)

// Health says how an API is doing, as far as it is followed.
type Health struct {
	Err       error     // the newest failure of a needed resource that still lasts; nil: none
	Lost      time.Time // since when what was synced is not followed; zero: it is
	LastEvent time.Time // when anything last came: a list, an event or a bookmark; zero: nothing yet
	Resources []ResourceHealth
}

// ResourceHealth says how one resource is doing.
type ResourceHealth struct {
	Resource string `json:"resource"`
	Needed   bool   `json:"needed"`
	Synced   bool   `json:"synced"`
	Objects  int    `json:"objects"`       // known and of use
	Err      string `json:"err,omitempty"` // what last failed and still does: unreachable, forbidden, absent, …
}

// condition is a resource's part of the health, under Group.mu.
type condition struct {
	synced bool
	err    error
	since  time.Time // when err first came
	newest time.Time // when it was last seen
}

func (g *Group) setSynced() {
	g.mu.Lock()
	g.synced = true
	g.mu.Unlock()
	g.version.Set(struct{}{})
}

// fail records that a resource could not be listed or watched.
func (g *Group) fail(c *condition, err error) {
	err = g.options.Printable(err)
	now := time.Now()
	g.mu.Lock()
	news := c.err == nil || c.err.Error() != err.Error()
	if c.err == nil {
		c.since = now
	}
	c.err, c.newest = err, now
	g.mu.Unlock()
	if news {
		g.version.Set(struct{}{})
	}
}

// listed records that a resource is listed. What is wrong with it stays so
// until it is watched too: one that can only be listed goes out of date.
func (g *Group) listed(c *condition) {
	g.event()
	g.mu.Lock()
	news := !c.synced
	c.synced = true
	g.mu.Unlock()
	if news {
		g.version.Set(struct{}{})
	}
}

// heal records that a resource is listed and watched.
func (g *Group) heal(c *condition) {
	g.event()
	g.mu.Lock()
	news := c.err != nil || !c.synced
	*c = condition{synced: true}
	g.mu.Unlock()
	if news {
		g.version.Set(struct{}{})
	}
}

// event records a sign of life.
func (g *Group) event() { g.lastEvent.Store(time.Now().UnixNano()) }

// Health says how the API is doing.
func (g *Group) Health() Health {
	var all Health
	if ns := g.lastEvent.Load(); ns != 0 {
		all.LastEvent = time.Unix(0, ns)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	var newest time.Time
	for _, r := range g.resources {
		c := r.condition
		one := ResourceHealth{Resource: r.name, Needed: r.needed, Synced: c.synced, Objects: int(r.objects.Load())}
		if c.err != nil {
			one.Err = c.err.Error()
		}
		all.Resources = append(all.Resources, one)
		if c.err == nil || !r.needed {
			continue
		}
		if c.newest.After(newest) {
			newest, all.Err = c.newest, fmt.Errorf("%s: %w", r.name, c.err)
		}
		if g.synced && (all.Lost.IsZero() || c.since.Before(all.Lost)) {
			all.Lost = c.since
		}
	}
	return all
}
