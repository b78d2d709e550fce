package federation

import (
	"net/netip"
	"slices"
	"time"
)

// contribution is a member's share as it was read last. It is remembered so that a
// change in one cluster reads one cluster only.
type contribution struct {
	member    Member
	src       Source // nil unless the cluster is ready
	reader    Reader
	status    MemberStatus
	nodeLocal bool

	undeclared bool     // see Share
	declared   []uint16 // see Share

	updates   uint64 // how often it has changed, or got another source
	screening        // what of it is refused
}

// rebuildPort reads the members of a port that are new or have another source, and
// keeps the contributions of the others. It writes to the port only once all have
// been read: a source may panic.
func (s *watchedService) rebuildPort(p *port, d *Definition, links []link, owner Owner) {
	members, offers := make([]contribution, 0, len(links)), make([]offer, 0, len(links))
	for i, l := range links {
		c, o := contribution{member: d.Members[i], src: l.Source}, offer(nil)
		at := slices.IndexFunc(p.members, func(o contribution) bool { return o.member == c.member })
		if at >= 0 {
			c.updates = p.members[at].updates
			if p.members[at].src != c.src {
				c.updates++
			}
		}
		switch {
		case l.Source == nil:
		case at >= 0 && p.members[at].src == c.src:
			c, o = p.members[at], p.offers[at]
		default:
			c.reader = l.Source.Reader(c.member.Service, p.number)
			c.raw = c.read()
			o = c.raw
		}
		c.status.Link = l.State
		members, offers = append(members, c), append(offers, o)
	}
	s.countOffered(p.members, members)
	for i, l := range links {
		if r := l.rules(members[i].member.Cluster, owner); members[i].rules != r {
			members[i].rules = r
			offers[i] = members[i].screen(members[i].raw, func(int, *Slice) (*Slice, bool) { return nil, true })
		}
	}
	for i := range members {
		s.reportRefused(p, &members[i], memberIn(p.members, members[i].member))
	}
	merged, contested := merge(offers)
	p.members, p.offers, p.contested = members, offers, contested
	s.update(p, d, keepPointers(p.merged, merged), origin{})
	s.table.report(s.id, d, p.members)
	s.reportConflict(p)
}

// readMember reads one member again, and publishes what has changed.
func (s *watchedService) readMember(m Member, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.ports {
		i := slices.IndexFunc(p.members, func(c contribution) bool { return c.member == m })
		if i < 0 || p.members[i].reader == nil {
			continue // no longer a member, or its cluster is not ready: rebuild takes care of that
		}
		now := p.members[i]
		raw := now.read()
		if m.Cluster != Local {
			s.table.offered.replace(now.raw, raw) // before it asks for owners: see OwnerChanged
		}
		o := now.replace(raw)
		s.setMember(p, i, now, o, origin{m.Cluster, at})
	}
}

// screenAddr screens again what linked clusters offer at an address, and publishes what
// has changed.
func (s *watchedService) screenAddr(a netip.Addr) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.ports {
		for i, c := range p.members {
			has := func(l *Slice) bool { return l.hasAddr(a) }
			if c.rules.owner != nil && slices.ContainsFunc(c.raw, has) {
				o := c.screen(c.raw, func(_ int, l *Slice) (*Slice, bool) { return nil, has(l) })
				s.setMember(p, i, c, o, origin{})
			}
		}
	}
}

// setMember stores a member's contribution and offer, and publishes what has changed.
func (s *watchedService) setMember(p *port, i int, now contribution, o offer, why origin) {
	before, old := p.members[i], p.offers[i]
	p.members[i], p.offers[i] = now, o
	merged, contested := remerge(p.merged, p.contested, p.offers, i, old)
	p.contested = contested
	changed := !same(merged, p.merged) || before.status != now.status || before.nodeLocal != now.nodeLocal
	if changed {
		p.members[i].updates++
	}
	if changed || before.undeclared != now.undeclared || !slices.Equal(before.declared, now.declared) {
		d, _, _ := s.table.inputs(s.id)
		s.update(p, d, merged, why)
		if before.status != now.status {
			s.table.report(s.id, d, p.members)
		}
	}
	s.reportRefused(p, &p.members[i], &before)
	s.reportConflict(p)
}

// memberIn returns a member's contribution in the list; nil: it is not there.
func memberIn(list []contribution, m Member) *contribution {
	if i := slices.IndexFunc(list, func(c contribution) bool { return c.member == m }); i >= 0 {
		return &list[i]
	}
	return nil
}

// read reads the member's source.
func (c *contribution) read() offer {
	share := c.reader.Read()
	c.status.Service, c.nodeLocal = share.State, share.NodeLocal
	c.undeclared, c.declared = share.Undeclared, share.Declared
	if share.State != Present {
		return nil
	}
	return share.Slices
}
