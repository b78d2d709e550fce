package local

import (
	"context"
	"sync"

	"isthmus/federation"
	"isthmus/internal/pace"
)

// zones holds the zone of every node. The Cluster publishes the first change immediately, and then
// batches further changes for one second. Publishing a change wakes the streams of all clients on
// the node. Batching prevents a user who may edit Nodes from keeping Isthmus busy.
type zones struct {
	changed *pace.Signal // apply is due

	mu       sync.Mutex
	pending  map[string]zoneChange // changes for apply, by node
	nodes    map[string]*federation.Latest[string]
	appeared federation.Latest[struct{}] // replaced when a node appears
}

type zoneChange struct {
	zone   string
	exists bool
}

func newZones() zones {
	return zones{
		changed: pace.NewSignal(),
		pending: make(map[string]zoneChange),
		nodes:   make(map[string]*federation.Latest[string]),
	}
}

func (z *zones) get(node string) (string, <-chan struct{}) {
	if node == "" {
		return "", nil
	}
	z.mu.Lock()
	defer z.mu.Unlock()
	if zone := z.nodes[node]; zone != nil {
		return zone.Get()
	}
	_, appeared := z.appeared.Get()
	return "", appeared
}

func (z *zones) set(node, zone string, exists bool) {
	z.mu.Lock()
	z.pending[node] = zoneChange{zone, exists}
	z.mu.Unlock()
	z.changed.Changed()
}

func (z *zones) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-z.changed.C:
			z.apply()
		}
	}
}

func (z *zones) apply() {
	z.mu.Lock()
	defer z.mu.Unlock()
	appeared := false
	for node, now := range z.pending {
		latest := z.nodes[node]
		switch {
		case now.exists && latest == nil:
			latest = &federation.Latest[string]{}
			latest.Set(now.zone)
			z.nodes[node] = latest
			appeared = true
		case now.exists:
			if before, _ := latest.Get(); before != now.zone {
				latest.Set(now.zone)
			}
		case latest != nil:
			delete(z.nodes, node)
			latest.Set("")
		}
	}
	clear(z.pending)
	if appeared {
		z.appeared.Set(struct{}{})
	}
}
