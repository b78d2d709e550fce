package clusterstore

import (
	"maps"
	"slices"
	"time"

	"isthmus/clusterstore/cluster"
	"isthmus/federation"
)

// ExportOptions make the local cluster and all linked ones cache what somebody else reads from their objects for
// exports. One value is for all of them. Both functions are needed.
type ExportOptions struct {
	// Hooks returns the hooks of a cluster. The name is empty for the local one. The Store sets Changed.
	Hooks func(cluster string) cluster.ExportHooks
	// Settings reads the annotations of a link Secret. It returns at most one warning for each. The settings must not
	// be nil.
	Settings func(annotations map[string]string) (settings any, warnings []string)
}

// ClusterExports is what is known of the exports of the local cluster or of a link.
type ClusterExports struct {
	Name   string    // empty: the local cluster
	Domain string    // of the cluster, such as "cluster.local"
	Linked time.Time // when the link Secret was created
	// the result of ExportOptions.Settings; nil: the Secret can't be used, or it is the local
	// cluster
	Settings     any
	OtherNetwork bool             // clients reach the cluster through Linkerd gateways
	Exports      *cluster.Exports // nil: it is not known what the cluster exports
}

// Exports returns what is known of the exports of the local cluster, which comes first, and of all links, sorted by
// name. It is false if the link Secrets have not been listed yet. Exports and the methods below are for a Store with
// Options.Exports. The time that Exports takes depends on the number of links and, after a change, on what the
// cluster exports.
func (s *Store) Exports() (all []ClusterExports, linksListed bool) {
	s.mu.Lock()
	dispatched, links := s.dispatched, maps.Clone(s.links)
	s.mu.Unlock()
	all = append(all, ClusterExports{Exports: s.opts.LocalLink.link.published.Load().exports()})
	for _, name := range slices.Sorted(maps.Keys(links)) {
		all = append(all, links[name].clusterExports())
	}
	return all, dispatched
}

// ExportsChanged returns a channel that is closed when Exports may return something else than before the call.
func (s *Store) ExportsChanged() <-chan struct{} {
	_, changed := s.exportsChanged.Get()
	return changed
}

// LookAgain closes the channel of ExportsChanged. It is called after each change that may be one of Exports, and for
// changes elsewhere of what plans depend on.
func (s *Store) LookAgain() { s.lookAgain() }

// SelectorsChanged makes the hooks of a cluster read all its Services again. The name is empty for the local cluster.
// It does not block.
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

// clusterExports returns what is known of the exports of a link's cluster.
func (l *link) clusterExports() ClusterExports {
	c := ClusterExports{Name: string(l.name)}
	if list, _ := l.mailbox.Get(); len(list) > 0 {
		c.Linked = list[0].created
	}
	v := l.published.Load()
	if v == nil || v.accepted == nil {
		return c
	}
	c.Domain = v.accepted.domain
	c.Linked = v.accepted.created
	c.Settings = v.standing.settings.exports
	c.OtherNetwork = v.standing.settings.network != l.env.network
	c.Exports = v.exports()
	return c
}

// exports returns the hooks of the link's cluster. Without Options.Exports it is nil.
func (l *link) exports() *cluster.ExportHooks {
	o := l.env.exports
	if o == nil {
		return nil
	}
	hooks := o.Hooks(string(l.name))
	hooks.Changed = l.env.lookAgain
	return &hooks
}
