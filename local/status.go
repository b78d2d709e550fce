package local

import (
	"cmp"
	"slices"

	"isthmus/clusterstore"
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

// Status tells about the cluster as a link's status does; it has no Secret.
func (l *Local) Status() clusterstore.LinkStatus {
	h := l.cluster.Health()
	l.mu.Lock()
	defer l.mu.Unlock()
	st := clusterstore.LinkStatus{
		Cluster:   federation.ClusterName(federation.Local.String()),
		State:     cmp.Or(l.state, clusterstore.Pending),
		Since:     l.since,
		Server:    l.server,
		LastEvent: h.LastEvent,
		Warnings:  h.Warnings(),
		Resources: h.Resources,
	}
	if h.Err != nil {
		st.Reason = h.Err.Error()
	}
	return st
}
