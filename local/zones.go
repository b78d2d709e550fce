package local

import (
	"sync"

	"isthmus/federation"
)

// zones has the zone of every node.
type zones struct {
	mu       sync.Mutex
	nodes    map[string]*federation.Latest[string]
	appeared federation.Latest[struct{}] // replaced when a node appears
}

// Zone returns the zone of a node, and a channel that is closed when the zone may
// have changed: call Zone again then. The zone is empty if the node has none or is
// not known. All who ask for unknown nodes get the same channel, which is closed when
// any node appears, so that names that clients make up take no memory. Without a name
// there is nothing to wait for: the channel is nil.
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

// set stores a node's zone; exists is false if the node was deleted.
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
