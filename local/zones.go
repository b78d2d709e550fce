package local

import (
	"sync"

	"isthmus/federation"
)

// zones knows the zone of every node.
type zones struct {
	mu       sync.Mutex
	nodes    map[string]*federation.Latest[string]
	appeared federation.Latest[struct{}] // replaced when a node appears
}

// Zone returns the zone of a node, and a channel that is closed when that may
// have changed: ask again then. The zone is empty where none is known; for a node
// that is not known the channel is closed when any node appears, and for no node
// at all (an empty name) there is nothing to wait for: it is nil.
func (l *Local) Zone(node string) (zone string, changed <-chan struct{}) { return l.zones.get(node) }

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

// set takes what is known of a node: its zone, or that it is gone.
func (z *zones) set(node, zone string, exists bool) {
	z.mu.Lock()
	defer z.mu.Unlock()
	latest := z.nodes[node]
	switch {
	case exists && latest == nil:
		latest = &federation.Latest[string]{}
		latest.Set(zone)
		z.nodes[node] = latest
		z.appeared.Set(struct{}{})
	case exists:
		if now, _ := latest.Get(); now != zone {
			latest.Set(zone)
		}
	case latest != nil:
		delete(z.nodes, node)
		latest.Set("")
	}
}
