package clusterstore

import (
	"context"

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

// Look makes all clusters that are ready read trust anchors and Pod networks again. It returns once all have
// read them, or ctx ends. Status then shows the facts with their age.
func (s *Store) Look(ctx context.Context) {
	var looks []<-chan struct{}
	for _, v := range s.publishedLinks() {
		looks = append(looks, v.look())
	}
	await(ctx, looks...)
}

// Look makes the cluster read trust anchors and Pod networks again. It returns once the cluster has read
// them, or ctx ends.
func (o *Own) Look(ctx context.Context) { await(ctx, o.link.published.Load().look()) }

// look makes the cluster that is shown read its facts again. The channel is nil if the cluster is not ready.
func (v *linkState) look() <-chan struct{} {
	if at := v.shown(); at != nil && v.state == cluster.Ready {
		return at.cluster.Look()
	}
	return nil
}

// await returns once all channels that are not nil are closed, or ctx ends.
func await(ctx context.Context, all ...<-chan struct{}) {
	for _, one := range all {
		if one == nil {
			continue
		}
		select {
		case <-one:
		case <-ctx.Done():
			return
		}
	}
}
