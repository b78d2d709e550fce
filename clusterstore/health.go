package clusterstore

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"isthmus/federation"
)

// Health says how a cluster's API is doing.
type Health struct {
	Err       error     // the newest failure of a needed resource that still lasts; nil: none
	Lost      time.Time // since when a cluster that was synced is not followed; zero: it is
	LastEvent time.Time // when anything last came: a list, an event or a bookmark; zero: nothing yet
	Resources []ResourceHealth
	// MalformedProxies counts the meshed Pods whose proxy's listen addresses
	// are missing or can't be read. They are served without transport header.
	MalformedProxies int
	// Unusable names the Servers, ExternalWorkloads and ServiceProfiles whose
	// writer has given them a form that can't be used, and says why. They are
	// treated as absent, but for ServiceProfiles: those stand in the way of
	// others, or, if only a part can't be used, are used without it.
	Unusable []string
	// RejectedProfiles counts the ServiceProfiles that can't be used at all.
	RejectedProfiles int
}

// ResourceHealth says how one resource of a cluster is doing.
type ResourceHealth struct {
	Resource string `json:"resource"`
	Needed   bool   `json:"needed"`
	Synced   bool   `json:"synced"`
	Objects  int    `json:"objects"`       // known and of use
	Err      string `json:"err,omitempty"` // what last failed and still does: unreachable, forbidden, absent, …
}

// health collects what the resources of one cluster report.
type health struct {
	// fixed
	resources []*resource
	printable func(error) error // makes an error fit to be shown

	version   federation.Latest[struct{}]
	lastEvent atomic.Int64 // unix nanoseconds

	mu     sync.Mutex
	synced bool // under mu: the cluster, as a whole
}

// condition is a resource's part of the health, under health.mu.
type condition struct {
	synced bool
	err    error
	since  time.Time // when err first came
	newest time.Time // when it was last seen
}

func (h *health) setSynced() {
	h.mu.Lock()
	h.synced = true
	h.mu.Unlock()
	h.version.Set(struct{}{})
}

// fail records that a resource could not be listed or watched.
func (h *health) fail(c *condition, err error) {
	err = h.printable(err)
	now := time.Now()
	h.mu.Lock()
	news := c.err == nil || c.err.Error() != err.Error()
	if c.err == nil {
		c.since = now
	}
	c.err, c.newest = err, now
	h.mu.Unlock()
	if news {
		h.version.Set(struct{}{})
	}
}

// listed records that a resource is listed. What is wrong with it stays so
// until it is watched too: one that can only be listed goes out of date.
func (h *health) listed(c *condition) {
	h.event()
	h.mu.Lock()
	news := !c.synced
	c.synced = true
	h.mu.Unlock()
	if news {
		h.version.Set(struct{}{})
	}
}

// heal records that a resource is listed and watched.
func (h *health) heal(c *condition) {
	h.event()
	h.mu.Lock()
	news := c.err != nil || !c.synced
	*c = condition{synced: true}
	h.mu.Unlock()
	if news {
		h.version.Set(struct{}{})
	}
}

// event records a sign of life.
func (h *health) event() { h.lastEvent.Store(time.Now().UnixNano()) }

func (h *health) get() Health {
	var all Health
	if ns := h.lastEvent.Load(); ns != 0 {
		all.LastEvent = time.Unix(0, ns)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	var newest time.Time
	for _, r := range h.resources {
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
		if h.synced && (all.Lost.IsZero() || c.since.Before(all.Lost)) {
			all.Lost = c.since
		}
	}
	return all
}
