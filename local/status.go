package local

import (
	"cmp"

	"isthmus/clusterstore/cluster"
	"isthmus/federation"
)

// Status is the state of the cluster, for people, in the form of a link's status.
type Status struct {
	Cluster string `json:"cluster"`
	cluster.Status
}

// Status returns the cluster's state now.
func (l *Local) Status() Status {
	h := l.cluster.Health()
	l.mu.Lock()
	defer l.mu.Unlock()
	st := Status{Cluster: federation.Local.String(), Status: cluster.Status{
		State:     cmp.Or(l.state, cluster.Pending),
		Since:     l.since,
		Server:    l.server,
		LastEvent: h.LastEvent,
		Warnings:  h.Warnings(),
		Resources: h.Resources,

		Standing:       l.cordon.String(),
		StandingReason: l.cordonReason(),
		Region:         l.currentRegion(),
	}}
	if h.Err != nil {
		st.Reason = h.Err.Error()
	}
	return st
}
