package federation

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// watchedService is a service that has at least one watch.
type watchedService struct {
	table *Table    // fixed
	id    ServiceID // fixed

	refs   int         // under table.mu: its watches
	byNode atomic.Bool // its sets depend on the client's node

	// mu is held while sources are read, and while the result is merged and
	// published.
	mu    sync.Mutex
	ports map[uint16]*port
}

// port is one watched port of a service: what its members offer, the merged list,
// and the sets published from it.
type port struct {
	number    uint16
	members   []contribution // in definition order
	offers    []offer        // of the members, at the same places, without what is refused
	merged    []*Endpoint
	contested contested // among the offers
	conflict  bool      // a conflict has been reported, and there is still one
	summary   summary
	published map[Client]*published
}

// origin is the cluster and the time of the change that causes sets to be
// published. The zero value: not one cluster's change, but a definition or a link.
type origin struct {
	cluster ClusterName
	at      time.Time
}

// summary is what all sets of a port have in common.
type summary struct {
	exists, complete, byNode bool
	reason                   Reason      // of sets without endpoints
	cluster                  ClusterName // that the reason is about
}

// published is the newest set for one kind of client.
type published struct {
	refs   int // watches
	latest Latest[*Set]
}

// watch returns the sets published for the key, which it adds if it is the first
// watch of that key.
func (s *watchedService) watch(k Key) *Latest[*Set] {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.ports[k.Port]
	if p == nil {
		p = &port{number: k.Port, published: make(map[Client]*published)}
		d, links, owner := s.table.inputs(s.id)
		s.rebuildPort(p, d, links, owner)
		s.ports[k.Port] = p // not before: a source that panics must leave nothing half built
	}
	to := p.published[k.Client]
	if to == nil {
		to = &published{}
		p.published[k.Client] = to
		p.publish(s.table.opts.IPv6, k.Client, to, origin{})
	}
	to.refs++
	return &to.latest
}

// unwatch ends one watch of the key.
func (s *watchedService) unwatch(k Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.ports[k.Port]
	to := p.published[k.Client]
	if to.refs--; to.refs > 0 {
		return
	}
	delete(p.published, k.Client)
	if len(p.published) == 0 {
		delete(s.ports, k.Port)
		s.countOffered(p.members, nil)
	}
}

// rebuild publishes what a new definition, or another link of a member's cluster,
// changes.
func (s *watchedService) rebuild() {
	s.mu.Lock()
	defer s.mu.Unlock()
	d, links, owner := s.table.inputs(s.id)
	for _, p := range s.ports {
		s.rebuildPort(p, d, links, owner)
	}
}

// update stores a port's merged list and summary, and publishes what that changes.
func (s *watchedService) update(p *port, d *Definition, merged []*Endpoint, why origin) {
	sum := summarize(d, p.members)
	changed := sum != p.summary || !same(merged, p.merged)
	p.merged, p.summary = merged, sum
	s.byNode.Store(sum.byNode)
	if changed {
		for client, to := range p.published {
			p.publish(s.table.opts.IPv6, client, to, why)
		}
	}
}

// publish publishes the newest set for one kind of client, if it differs from the
// one published last.
func (p *port) publish(ipv6 bool, c Client, to *published, why origin) {
	now := &Set{
		Version: 1, Exists: p.summary.exists, Complete: p.summary.complete, ByNode: p.summary.byNode, Changed: why.at, Origin: why.cluster,
		Endpoints: choose(p.merged, ipv6, p.summary.byNode, c),
	}
	if len(now.Endpoints) == 0 {
		now.Reason, now.Cluster = p.summary.reason, p.summary.cluster
	}
	if old, _ := to.latest.Get(); old != nil {
		if old.Exists == now.Exists && old.Complete == now.Complete && old.ByNode == now.ByNode &&
			old.Reason == now.Reason && old.Cluster == now.Cluster && same(old.Endpoints, now.Endpoints) {
			return
		}
		now.Version = old.Version + 1
	}
	to.latest.Set(now)
}

// same reports whether two lists have the same pointers.
func same(a, b []*Endpoint) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0] || slices.Equal(a, b))
}

// summarize derives a port's summary from its members. A service that is not
// federated is treated as a list of at most one member.
func summarize(d *Definition, members []contribution) summary {
	switch {
	case d == nil:
		return summary{complete: true, reason: Undefined}
	case !d.Federated && len(members) == 0:
		return summary{exists: true, complete: true, reason: NoRemoteService}
	}
	sum := summary{exists: true, complete: true}
	for _, c := range members {
		switch {
		case c.status.Link == Pending:
			sum.complete, sum.reason = false, Unknown
		case c.status.Link == Unreachable:
			sum.reason = Unknown
		case c.member.Cluster == Local && c.status.Service == Present:
			sum.byNode = c.nodeLocal
		}
	}
	if !d.Federated {
		switch s := members[0].status; {
		case s.Link == Unlinked:
			sum.exists, sum.reason, sum.cluster = false, NotLinked, members[0].member.Cluster
		case s.Link == Ready && s.Service == Missing:
			sum.exists = false
		case s.Link == Ready && s.Service == ExternalName:
			sum.reason = External
		}
	}
	return sum
}
