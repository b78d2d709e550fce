package local

import (
	"cmp"

	"isthmus/clusterstore/cluster"
	"isthmus/federation"
	"isthmus/internal/adminapi"
)

// Status returns the cluster's state now.
func (l *Local) Status() adminapi.Cluster {
	h := l.cluster.Health()
	state, since := l.life.State()
	st := adminapi.Cluster{Cluster: federation.Local.String(), ClusterStatus: cluster.Status{
		State:     cmp.Or(state, cluster.Pending),
		Since:     since,
		Server:    l.server,
		LastEvent: h.LastEvent,
		Warnings:  h.Warnings(),
		Resources: h.Resources,

		Standing:       l.cordon.String(),
		StandingReason: l.cordonReason(),
		Region:         l.currentRegion(),
	}}
	st.ObjectWarnings, st.API = st.Warnings, &h.API
	if h.Err != nil {
		st.Reason = h.Err.Error()
	}
	return st
}
