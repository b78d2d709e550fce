package federation

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// service is a service that somebody watches.
type service struct {
	table *Table    // fixed
	id    ServiceID // fixed

	refs   int         // under table.mu: its watches
	byNode atomic.Bool // its answers depend on the client's node

	// mu is held while sources are asked, and while what they say is merged
	// and published.
	mu    sync.Mutex
	ports map[uint16]*port
}

// port is one port of a service: what its members offer, merged, and the views
// of that.
type port struct {
	number  uint16
	members []contribution // in definition order
	offers  []offer        // of the members, at the same places
	merged  []*Endpoint
	shared  contested // among the offers
	state   state
	views   map[Client]*view
}

// contribution is a member's part, remembered so that one cluster's change
// re-reads one cluster only.
type contribution struct {
	member    Member
	src       Source // nil unless the cluster is ready
	reader    Reader
	status    MemberStatus
	nodeLocal bool
	updates   uint64 // how often it has changed, or got another source
}

// change is what is published because of it happened where and when; the zero
// value: not because of a change in one cluster.
type change struct {
	cluster ClusterName
	at      time.Time
}

// state is what holds for all views of a port.
type state struct {
	exists, complete, byNode bool
	reason                   Reason      // if there is nothing
	cluster                  ClusterName // that the reason is about
}

// view is what one kind of client sees of a port.
type view struct {
	refs   int
	latest Latest[*Set]
}

// open returns what follows the key's view, which it makes if there is none.
func (s *service) open(k Key) *Latest[*Set] {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.ports[k.Port]
	if p == nil {
		p = &port{number: k.Port, views: make(map[Client]*view)}
		d, links := s.table.inputs(s.id)
		s.rebuildPort(p, d, links)
		s.ports[k.Port] = p // not before: if a source panics, nothing half built stays
	}
	v := p.views[k.Client]
	if v == nil {
		v = &view{}
		p.views[k.Client] = v
		p.publish(s.table.opts.IPv6, k.Client, v, change{})
	}
	v.refs++
	return &v.latest
}

// shut ends one watch of the key's view.
func (s *service) shut(k Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.ports[k.Port]
	v := p.views[k.Client]
	if v.refs--; v.refs > 0 {
		return
	}
	delete(p.views, k.Client)
	if len(p.views) == 0 {
		delete(s.ports, k.Port)
	}
}

// rebuild follows a new definition, or another link of a member's cluster.
func (s *service) rebuild() {
	s.mu.Lock()
	defer s.mu.Unlock()
	d, links := s.table.inputs(s.id)
	for _, p := range s.ports {
		s.rebuildPort(p, d, links)
	}
}

// rebuildPort reads what is new in a port's members, and keeps the rest. Nothing
// of the port is written before all has been read: a source may panic.
func (s *service) rebuildPort(p *port, d *Definition, links []link) {
	members, offers := make([]contribution, 0, len(links)), make([]offer, 0, len(links))
	for i, l := range links {
		c, o := contribution{member: d.Members[i], src: l.src}, offer(nil)
		at := slices.IndexFunc(p.members, func(o contribution) bool { return o.member == c.member })
		if at >= 0 {
			c.updates = p.members[at].updates
			if p.members[at].src != c.src {
				c.updates++
			}
		}
		switch {
		case l.src == nil:
		case at >= 0 && p.members[at].src == c.src:
			c, o = p.members[at], p.offers[at]
		default:
			c.reader = l.src.Reader(c.member.Service, p.number)
			o = c.read()
		}
		c.status.Link = l.state
		members, offers = append(members, c), append(offers, o)
	}
	merged, shared := merge(offers)
	p.members, p.offers, p.shared = members, offers, shared
	s.settle(p, d, retain(p.merged, merged), change{})
	s.table.report(s.id, d, p.members)
}

// reread follows a change in one cluster.
func (s *service) reread(m Member, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.ports {
		i := slices.IndexFunc(p.members, func(c contribution) bool { return c.member == m })
		if i < 0 || p.members[i].reader == nil {
			continue // meanwhile no member, or gone: a rebuild has been or follows
		}
		old := p.offers[i]
		before := p.members[i]
		p.offers[i] = p.members[i].read()
		merged, c := remerge(p.merged, p.shared, p.offers, i, old)
		p.shared = c
		now := p.members[i]
		if same(merged, p.merged) && before.status == now.status && before.nodeLocal == now.nodeLocal {
			continue
		}
		p.members[i].updates++
		d, _ := s.table.inputs(s.id)
		s.settle(p, d, merged, change{m.Cluster, at})
		if before.status != now.status {
			s.table.report(s.id, d, p.members)
		}
	}
}

// read asks the source.
func (c *contribution) read() offer {
	share := c.reader.Read()
	c.status.Service, c.nodeLocal = share.State, share.NodeLocal
	if share.State != Present {
		return nil
	}
	return share.Slices
}

// settle takes what a port's members now add up to, and publishes what that
// changes.
func (s *service) settle(p *port, d *Definition, merged []*Endpoint, c change) {
	st := stateOf(d, p.members)
	changed := st != p.state || !same(merged, p.merged)
	p.merged, p.state = merged, st
	s.byNode.Store(st.byNode)
	if changed {
		for client, v := range p.views {
			p.publish(s.table.opts.IPv6, client, v, c)
		}
	}
}

// publish gives a view its newest set, if that differs from the one it has.
func (p *port) publish(ipv6 bool, c Client, v *view, why change) {
	now := &Set{
		Version: 1, Exists: p.state.exists, Complete: p.state.complete, ByNode: p.state.byNode, Changed: why.at, Origin: why.cluster,
		Endpoints: choose(p.merged, ipv6, p.state.byNode, c),
	}
	if len(now.Endpoints) == 0 {
		now.Reason, now.Cluster = p.state.reason, p.state.cluster
	}
	if old, _ := v.latest.Get(); old != nil {
		if old.Exists == now.Exists && old.Complete == now.Complete && old.ByNode == now.ByNode &&
			old.Reason == now.Reason && old.Cluster == now.Cluster && same(old.Endpoints, now.Endpoints) {
			return
		}
		now.Version = old.Version + 1
	}
	v.latest.Set(now)
}

// same tells whether two lists hold the same pointers.
func same(a, b []*Endpoint) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0] || slices.Equal(a, b))
}

// stateOf says what the members add up to, short of their endpoints.
func stateOf(d *Definition, members []contribution) state {
	switch {
	case d == nil:
		return state{complete: true, reason: Undefined}
	case !d.Federated && len(members) == 0:
		return state{exists: true, complete: true, reason: NoRemoteService}
	}
	st := state{exists: true, complete: true}
	for _, c := range members {
		switch {
		case c.status.Link == Pending:
			st.complete, st.reason = false, Unknown
		case c.status.Link == Unreachable:
			st.reason = Unknown
		case c.member.Cluster == Local && c.status.Service == Present:
			st.byNode = c.nodeLocal
		}
	}
	if !d.Federated {
		switch s := members[0].status; {
		case s.Link == Unlinked:
			st.exists, st.reason, st.cluster = false, NotLinked, members[0].member.Cluster
		case s.Link == Ready && s.Service == Missing:
			st.exists = false
		case s.Link == Ready && s.Service == ExternalName:
			st.reason = External
		}
	}
	return st
}
