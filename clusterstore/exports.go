package clusterstore

import (
	"isthmus/federation"
	"isthmus/local/exports/plan"
)

// ExportOptions are for clusters of which exports are kept: one value for the own and all linked ones.
type ExportOptions struct {
	// Namespaces are those that a link may export to whose Secret does not say (annotation isthmus.io/export-namespaces).
	Namespaces plan.Patterns
	// Selectors returns which Services of a cluster are exported; name is empty for the own one. It is called by several
	// goroutines, and must not block. When its result has changed, call [Store.SelectorsChanged].
	Selectors func(cluster string) plan.Selectors
}

// Exports is what the own and all linked clusters export, and what is there under the names of exports. It is not changed
// afterwards, and must not be.
type Exports struct {
	// Clusters are sorted by name, the own one (whose name is empty) first. Their Lease is not set.
	Clusters []plan.Cluster
	// Namespaces are those of the own cluster that are not being deleted.
	Namespaces map[string]bool
	// Services are all of the own cluster. Of those that neither this gateway nor Linkerd's service mirror wrote, there is
	// no more than that they are there.
	Services map[plan.ID]*plan.Service
}

// Exports returns what there is now; false: exports are not kept, or the own cluster's Services or Namespaces, or the link
// Secrets, have not been listed yet.
func (s *Store) Exports() (Exports, bool) { return Exports{}, false }

// ExportsChanged returns a channel that is closed when Exports may return something else than before the call.
func (s *Store) ExportsChanged() <-chan struct{} {
	_, changed := s.exportsChanged.Get()
	return changed
}

// SelectorsChanged makes a cluster's Services be judged again, since ExportOptions.Selectors returns others for it; an empty name is
// that of the own cluster. It does not block.
func (s *Store) SelectorsChanged(cluster string) { _ = federation.ClusterName(cluster) }
