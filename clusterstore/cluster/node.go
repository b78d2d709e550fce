package cluster

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"isthmus/clusterstore/follow"
)

// nodes follows Nodes.
func (c *Cluster) nodes() follow.Kind[*metav1.PartialObjectMetadata, string] {
	return follow.Kind[*metav1.PartialObjectMetadata, string]{
		Name:    "nodes",
		Calls:   c.metadata("", "nodes"),
		Compact: compactNode,
		Into:    lockedStore[string]{c.state, c.state.nodeStore()},
		Changed: c.cfg.OnNode,
	}
}

// compactNode keeps a Node's zone.
func compactNode(o *metav1.PartialObjectMetadata) (string, bool) {
	return shared(o.Labels[zoneLabel]), true
}

func (s *state) nodeStore() storeFuncs[string] {
	return storeFuncs[string]{
		put: func(name, zone string) follow.Effect {
			old, ok := s.zones[name]
			s.zones[name] = zone
			switch {
			case !ok:
				return follow.Added
			case old != zone:
				return follow.Replaced
			}
			return follow.Same
		},
		drop: func(name string) bool {
			_, ok := s.zones[name]
			delete(s.zones, name)
			return ok
		},
		keys: keysOf(s.zones, func(string) bool { return true }),
	}
}
