package local

import (
	"cmp"
	"slices"

	"isthmus/clusterstore/cluster"
	"isthmus/federation"
)

// Problem is what can't be used of a Service's annotations and labels.
type Problem struct {
	Service  string   `json:"service"` // namespace/name
	Problems []string `json:"problems"`
}

// Problems lists the Services that are not, or not wholly, what their
// annotations and labels say, sorted by name.
func (l *Local) Problems() []Problem {
	l.mu.Lock()
	defer l.mu.Unlock()
	list := make([]Problem, 0, len(l.problems))
	for id, problems := range l.problems {
		list = append(list, Problem{id.String(), problems})
	}
	slices.SortFunc(list, func(a, b Problem) int {
		return cmp.Compare(a.Service, b.Service)
	})
	return list
}

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
