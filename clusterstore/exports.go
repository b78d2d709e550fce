package clusterstore

import (
	"maps"
	"slices"
	"time"

	"isthmus/clusterstore/cluster"
	"isthmus/federation"
)

// ExportOptions connects package exports to the caches of the local cluster and all linked
// clusters. All clusters share one value. Both functions are required.
type ExportOptions struct {
	// Hooks returns the hooks for the cluster with the given name, which is empty for the local
	// cluster. The Store sets the Changed field of the returned hooks.
	Hooks func(cluster string) cluster.ExportHooks
	// Settings parses the annotations on a link Secret. The returned settings must not be nil.
	// Settings must return at most one warning for each annotation.
	Settings func(annotations map[string]string) (settings any, warnings []string)
}

// ClusterExports contains the exports of the local cluster or of one linked cluster.
type ClusterExports struct {
	Name   string    // empty for the local cluster
	Domain string    // DNS domain of the cluster, such as "cluster.local"
	Linked time.Time // when the link Secret was created
	// Settings is the result of ExportOptions.Settings. Settings is nil for the local cluster, and
	// for a linked cluster without a usable Secret.
	Settings     any
	OtherNetwork bool                   // proxies reach the cluster through Linkerd gateways
	Exports      *cluster.CachedExports // nil if the exports are unknown
}

// Exports returns the exports of the local cluster, followed by those of all links, sorted by name.
// If the link Secrets have not been listed yet, the linksListed result is false. The running time
// of Exports is proportional to the number of links and, after a change, to the number of exports.
//
// Exports, ExportsChanged, NotifyExports and RelistServices require Options.Exports.
func (s *Store) Exports() (all []ClusterExports, linksListed bool) {
	s.mu.Lock()
	dispatched := s.dispatched
	links := maps.Clone(s.links)
	s.mu.Unlock()
	all = append(all, ClusterExports{Exports: s.opts.LocalLink.link.published.Load().exports()})
	for _, name := range slices.Sorted(maps.Keys(links)) {
		all = append(all, links[name].clusterExports())
	}
	return all, dispatched
}

// ExportsChanged returns a channel that is closed when the result of Exports may have changed.
func (s *Store) ExportsChanged() <-chan struct{} {
	_, changed := s.exportsChanged.Get()
	return changed
}

// NotifyExports closes the channel that ExportsChanged returned. The Store calls NotifyExports
// after each change that may affect Exports. Other code must call NotifyExports after other changes
// that affect the plan of exports.
func (s *Store) NotifyExports() { s.notifyExports() }

// RelistServices makes a cluster call its export hooks again for all Services. For the local
// cluster, the name argument is empty. RelistServices does not block.
func (s *Store) RelistServices(name string) {
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
				r.cluster.RelistServices()
			}
		}
	}
}

// If the exports are unknown, the result is nil. The receiver may be nil.
func (v *linkStatus) exports() *cluster.CachedExports {
	if v == nil || v.shown() == nil {
		return nil
	}
	return v.shown().cluster.Exports()
}

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

func (l *link) exports() *cluster.ExportHooks {
	o := l.env.exports
	if o == nil {
		return nil
	}
	hooks := o.Hooks(string(l.name))
	hooks.Changed = l.env.notifyExports
	return &hooks
}
