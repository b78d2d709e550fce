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
	strict    bool // as Definition.Strict

	undeclared bool // see Share

	updates   uint64       // how often it has changed, or got another source
	total     *updateCount // the same, in all services together
	changed   time.Time    // when it did last; zero: not since it is watched
	screening              // what of it is refused
}

// rebuildPort reads the members of a port that are new, or have another source or another Strict,
// and keeps the contributions of the others. With scratch, it reads all members, counts all their
// addresses as offered, and publishes to all clients. It stores the parts of the port in one step,
// after everything that may panic, because functions that describe a port rely on that order.
func (s *watchedService) rebuildPort(p *port, in inputs, scratch bool) {
	members := make([]contribution, 0, len(in.links))
	for i, l := range in.links {
		c := contribution{member: in.definition.Members[i], src: l.Source, strict: in.definition.Strict}
		before := memberIn(p.members, c.member)
		if before != nil {
			c.updates, c.total, c.changed = before.updates, before.total, before.changed
			if scratch || before.src != c.src {
				c.noteChange(s.table.opts.Now())
			}
		}
		switch {
		case l.Source == nil:
		case !scratch && before != nil && before.src == c.src && before.strict == c.strict:
			c = *before
		default:
			c.reader = l.Source.Reader(c.member.Service, p.number)
			c.raw = c.read()
			c.kept = c.raw
		}
		c.status.Link = l.State
		members = append(members, c)
	}
	before := p.members
	if scratch {
		s.countOffered(nil, members)
	} else {
		s.countOffered(before, members)
	}
	kept := make([]offer, 0, len(in.links))
	for i, l := range in.links {
		c := &members[i]
		if b := l.bounds(c.member.Cluster, in.owner); c.bounds != b {
			c.bounds = b
			c.screen(c.raw, func(int, *Slice) bool { return true })
		}
		kept = append(kept, c.kept)
	}
	st := newSteering(in, s.table.opts.Now)
	offers := st.offers(kept)
	merged, contested := merge(offers)
	merged = keepPointers(p.merged, merged)
	whole := scratch || p.steering != nil || st != nil

	s.table.countUpdates(p.number, before, members)
	s.steered = s.steered || st != nil
	p.members, p.offers, p.contested = members, offers, contested
	p.setSteering(st)

	s.update(p, in.definition, merged, whole, origin{})
	for i := range members {
		s.reportRefused(p, &members[i], memberIn(before, members[i].member))
	}
	s.table.report(s.id, in.definition, p.members)
}

// readMember reads one member again, and publishes what has changed.
func (s *watchedService) readMember(m Member, at time.Time) {
	s.publishLocked(func() {
		for _, p := range s.ports {
			i := slices.IndexFunc(p.members, func(c contribution) bool { return c.member == m })
			if i < 0 || p.members[i].reader == nil {
				continue // no longer a member, or its cluster is not ready: rebuild publishes that
			}
			now := p.members[i]
			raw := now.read()
			if m.Cluster != Local {
				s.table.offered.replace(s.number, now.raw, raw) // before it asks for owners: see OwnerChanged
			}
			now.replace(raw)
			s.setMembers(p, []memberChange{{i, now}}, origin{m.Cluster, at})
		}
		s.settle()
	})
}

// screenAddr screens again what linked clusters offer at an address, and publishes what
// has changed: once for all members, since otherwise an address that two of them offer, and that
// has got an owner, would be taken from the second one for a moment.
func (s *watchedService) screenAddr(a netip.Addr) {
	s.publishLocked(func() {
		for _, p := range s.ports {
			var now []memberChange
			for i, c := range p.members {
				has := func(l *Slice) bool { return l.hasAddr(a) }
				if c.bounds.owner != nil && slices.ContainsFunc(c.raw, has) {
					c.screen(c.raw, func(_ int, l *Slice) bool { return has(l) })
					now = append(now, memberChange{i, c})
				}
			}
			s.setMembers(p, now, origin{})
		}
		s.settle()
	})
}

// memberChange is what a member contributes now.
type memberChange struct {
	place int // in port.members
	contribution
}

// setMembers stores members' contributions, and publishes what has changed, at once. It leaves
// in list those of before.
func (s *watchedService) setMembers(p *port, list []memberChange, why origin) {
	if len(list) == 0 {
		return
	}
	merged, publish, recount, report := p.merged, p.steering.countsUnready(), false, false
	for k := range list {
		before, now := &list[k].contribution, &p.members[list[k].place]
		*before, *now = *now, *before
		last := merged
		merged = p.replaceOffer(merged, list[k].place, now.kept)
		otherStatus := before.status != now.status
		if !same(merged, last) || otherStatus || before.nodeLocal != now.nodeLocal {
			now.noteChange(s.table.opts.Now())
			publish = true
		}
		publish = publish || before.undeclared != now.undeclared
		recount = recount || p.steering != nil && !sameBehind(before.kept, now.kept)
		report = report || otherStatus
	}
	if publish || recount {
		d := s.table.definition(s.id)
		s.update(p, d, merged, recount, why)
		if report {
			s.table.report(s.id, d, p.members)
		}
	}
	for k := range list {
		s.reportRefused(p, &p.members[list[k].place], &list[k].contribution)
	}
}

// replaceOffer stores what is kept of a member's offer, and returns the merged list that
// follows from it, given the one before.
func (p *port) replaceOffer(merged []*Endpoint, i int, kept offer) []*Endpoint {
	inService, lastResort := p.steering.divide(i, kept)
	for at := range p.offers {
		o := &p.offers[at]
		if o.member != i {
			continue
		}
		old := o.offer
		if o.offer = inService; at >= len(p.members) {
			o.offer = lastResort
		}
		merged, p.contested = remerge(merged, p.contested, p.offers, at, old)
	}
	return merged
}

// memberIn returns a member's contribution in the list; nil: it is not there.
func memberIn(list []contribution, m Member) *contribution {
	if i := slices.IndexFunc(list, func(c contribution) bool { return c.member == m }); i >= 0 {
		return &list[i]
	}
	return nil
}

// declares reports whether the member's Service is known to declare the port.
func (c contribution) declares() bool { return c.status.Serving() && !c.undeclared }

func (c *contribution) noteChange(now time.Time) {
	c.updates, c.changed = c.updates+1, now
	c.total.n.Add(1)
}

// read reads the member's source.
func (c *contribution) read() offer {
	share := c.reader.Read()
	c.status.Service, c.nodeLocal = share.State, share.NodeLocal
	c.undeclared = share.Undeclared
	if share.State != Present || c.strict && share.Undeclared {
		return nil
	}
	return share.Slices
}
