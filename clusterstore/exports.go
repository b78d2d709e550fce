package clusterstore

import (
	"maps"
	"slices"

	"isthmus/clusterstore/cluster"
	"isthmus/federation"
	"isthmus/local/exports/plan"
)

// ExportOptions are for clusters of which exports are kept: one value for the own and all linked ones.
type ExportOptions struct {
	// Namespaces are those that a link may export to whose Secret does not say (annotation isthmus.io/export-namespaces).
	Namespaces plan.Patterns
	// ExcludeLabels are keys of labels that are not copied from the local cluster, nor from a link whose Secret has no
	// annotation isthmus.io/export-exclude-labels.
	ExcludeLabels plan.KeyPatterns
	// Selectors returns which Services of a cluster are exported; name is empty for the own one. It is called by several
	// goroutines, and must not block. When its result has changed, call [Store.SelectorsChanged].
	Selectors func(cluster string) plan.Selectors
	// ServiceExports is whether ServiceExports are read, of the own cluster also ServiceImports.
	ServiceExports bool
}

// Exports returns what the own and all linked clusters export, and what is there under the names of exports, without what else a plan
// depends on: Settings, Now, LeaseOf, and the Lease of each cluster. false: the own cluster's Services or Namespaces, or the link Secrets,
// have not been listed yet. Only the elements of its Clusters, which are sorted by name, the own one first, may be changed, not their
// Exports. It and the methods below are for a Store with Options.Exports. It takes a time that grows with the number of links and, after a
// change, of what has changed of a cluster.
func (s *Store) Exports() (plan.World, bool) {
	own := s.opts.LocalLink.link.published.Load().exports()
	s.mu.Lock()
	dispatched, links := s.dispatched, maps.Clone(s.links)
	s.mu.Unlock()
	if own == nil || !dispatched {
		return plan.World{}, false
	}
	all := plan.World{
		Clusters: []plan.Cluster{{
			Seen:               true,
			SeenServiceExports: own.ServiceExports,
			Emptied:            own.Emptied,
			Exports:            own.List,
			ExcludeLabels:      s.opts.Exports.ExcludeLabels,
		}},
		Namespaces: own.Namespaces, Services: own.Services, Imports: own.Imports, MCSVersion: own.MCSVersion,
	}
	for _, name := range slices.Sorted(maps.Keys(links)) {
		all.Clusters = append(all.Clusters, links[name].asCluster())
	}
	return all, true
}

// ExportsChanged returns a channel that is closed when Exports may return something else than before the call.
func (s *Store) ExportsChanged() <-chan struct{} {
	_, changed := s.exportsChanged.Get()
	return changed
}

// LookAgain closes the channel of ExportsChanged. It is called after each change that may be one of Exports, and for changes elsewhere of
// what plans depend on.
func (s *Store) LookAgain() { s.lookAgain() }

// SelectorsChanged makes a cluster's Services be judged again, since ExportOptions.Selectors returns others for it; an empty name is
// that of the own cluster. It does not block.
func (s *Store) SelectorsChanged(name string) {
	l := s.opts.LocalLink.link
	if name != "" {
		s.mu.Lock()
		l = s.links[federation.ClusterName(name)]
		s.mu.Unlock()
	}
	if l == nil {
		return
	}
	if v := l.published.Load(); v != nil {
		for _, r := range []*runningCluster{v.serving, v.next} {
			if r != nil {
				r.cluster.SelectorsChanged()
			}
		}
	}
}

// exports returns what the link's cluster exports; nil: it is not known. v may be nil.
func (v *linkStatus) exports() *cluster.Exports {
	if v == nil || v.shown() == nil {
		return nil
	}
	return v.shown().cluster.Exports()
}

// asCluster returns a link as plans have it. Nothing is removed for one that can't be used: what its Secret says is not known.
func (l *link) asCluster() plan.Cluster {
	c := plan.Cluster{Name: string(l.name), Joins: plan.Unreadable}
	if list, _ := l.mailbox.Get(); len(list) > 0 {
		c.Age = list[0].created
	}
	v := l.published.Load()
	if v == nil || v.accepted == nil || v.standing.settings.allow == nil {
		return c
	}
	c.Domain, c.Age = v.accepted.domain, v.accepted.created
	c.Joins, c.Allow = v.standing.settings.joins, *v.standing.settings.allow
	c.ExcludeLabels = v.standing.settings.exclude
	c.OtherNetwork = v.standing.settings.network != l.env.network
	if kept := v.exports(); kept != nil {
		c.Seen, c.SeenServiceExports, c.Emptied, c.Exports = true, kept.ServiceExports, kept.Emptied, kept.List
	}
	return c
}

// exports is what makes a link's cluster keep them; nil: it does not.
func (l *link) exports() *cluster.ExportConfig {
	o := l.env.exports
	if o == nil {
		return nil
	}
	return &cluster.ExportConfig{
		Selectors:      func() plan.Selectors { return o.Selectors(string(l.name)) },
		ServiceExports: o.ServiceExports,
		Changed:        l.env.lookAgain,
	}
}
