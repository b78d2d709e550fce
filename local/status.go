package local

import (
	"cmp"

	"isthmus/clusterstore/cluster"
	"isthmus/federation"
)

// Status says how the cluster is doing, for people, as a link's status does.
type Status struct {
	Cluster string `json:"cluster"`
	cluster.Status
}

// Status says how the cluster is doing, now.
func (l *Local) Status() Status {
	h := l.cluster.Health()
	l.mu.Lock()
	defer l.mu.Unlock()
	st := Status{Cluster: federation.Local.String(), Status: cluster.Status{
		State:     cmp.Or(l.standing, cluster.Pending),
		Since:     l.since,
		Server:    l.server,
		LastEvent: h.LastEvent,
		Warnings:  h.Warnings(),
		Resources: h.Resources,
	}}
	if h.Err != nil {
		st.Reason = h.Err.Error()
	}
	return st
}
