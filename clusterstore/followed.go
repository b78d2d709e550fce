package clusterstore

import (
	"isthmus/clusterstore/cluster"
	"isthmus/federation"
)

// Followed returns the cluster that a link is served from and the link's state. The state is
// empty if there is no such link, and the cluster is nil if none is served from.
func (s *Store) Followed(name federation.ClusterName) (*cluster.Cluster, cluster.State) {
	s.mu.Lock()
	l := s.links[name]
	s.mu.Unlock()
	if l == nil {
		return nil, ""
	}
	v := l.published.Load()
	if v == nil {
		return nil, cluster.Pending
	}
	if at := v.shown(); at != nil {
		c, _ := at.cluster.(*cluster.Cluster)
		return c, v.state
	}
	return nil, v.state
}
