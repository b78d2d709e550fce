package federation

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"time"
)

// inquiry is a copy of what a key's set is made of, while it is explained.
type inquiry struct {
	Question
	ipv6    bool
	port    *port // a copy, without clients
	use     use   // how much of each tier the clients get
	won     []*Endpoint
	omitted omitted
	result  *Explanation

	added            int               // addresses
	served, unserved []numberedAddress // the first of these, up to Limit each
}

// numberedAddress is an address in the order of their explanations.
type numberedAddress struct {
	number int
	ExplainedAddress
}

// inquire copies what the key's set is made of; not ok: the key is not watched.
func (s *watchedService) inquire(q Question) (x *inquiry, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.ports[q.Key.Port]
	if p == nil {
		return nil, false
	}
	to := p.audiences[q.Key.Client.Instance].find(q.Key.Client)
	if to == nil {
		return nil, false
	}
	x = &inquiry{Question: q, ipv6: s.table.opts.IPv6, port: new(port), omitted: make(omitted), result: &Explanation{Verdicts: make(map[Verdict]int)}}
	x.result.Definition = s.table.inputs(s.id).definition
	x.result.Set, _ = to.latest.Get()
	if x.result.Broken = s.broken; x.result.Broken {
		return x, x.result.Set != nil
	}
	p.copyTo(x.port)
	if p.steering != nil {
		x.use = to.tiers.use
		x.result.Steered = p.describeClient(to)
	}
	return x, true
}

// choose lets what decides do so again, and say why.
func (x *inquiry) choose() {
	p := x.port
	x.result.Members = p.describe(nil)
	x.won, _ = merge(p.offers)
	pass := newPass(p, x.ipv6, &published{client: x.Key.Client})
	pass.omitted = x.omitted
	pass.get(pass.tally(x.Key.Client), x.use, x.Key.Client)
}

// member explains a member's addresses.
func (x *inquiry) member(ctx context.Context, i int) {
	c := &x.port.members[i]
	byName := make(map[string]*Slice, len(c.raw))
	for k, l := range c.raw {
		byName[l.Name] = l
		for _, e := range l.Endpoints {
			a := ExplainedAddress{Considered: Considered{Slice: l.Name, Addr: e.Addr, Target: e.Twin}, Member: i, Endpoint: e}
			a.Verdict = x.judge(c.kept[k], &a)
			x.add(a)
		}
		for _, e := range l.Unready {
			if _, ready := find(l.Endpoints, e.Addr); !ready {
				x.add(ExplainedAddress{Considered: Considered{Slice: l.Name, Addr: e.Addr, Target: e.Twin, Verdict: NotReady}, Member: i, Endpoint: e})
			}
		}
	}
	if source, ok := c.src.(Explainer); ok {
		changed := x.leftOut(ctx, i, byName, source)
		for _, list := range [...][]numberedAddress{x.served, x.unserved} {
			for k := range list {
				if a := &list[k]; a.Member == i {
					a.Changed = changed[a.Slice]
				}
			}
		}
	}
	slices.Sort(x.result.Members[i].Ports)
}

// leftOut adds the addresses that are not in the member's share as it was read last, and
// returns when the slices changed.
func (x *inquiry) leftOut(ctx context.Context, i int, byName map[string]*Slice, source Explainer) (changed map[string]time.Time) {
	changed = make(map[string]time.Time)
	in := func(list []*Endpoint, a netip.AddrPort) bool {
		at, ok := find(list, a)
		return ok || a.Port() == 0 && at < len(list) && list[at].Addr.Addr() == a.Addr()
	}
	slice, added := "", make(map[netip.AddrPort]bool) // of that slice
	for a := range source.Explain(x.port.members[i].member.Service, x.Key.Port) {
		if ctx.Err() != nil {
			return nil
		}
		if a.Slice != slice {
			slice, changed[a.Slice] = a.Slice, a.Changed
			clear(added)
		}
		l := byName[a.Slice]
		if added[a.Addr] || l != nil && (in(l.Endpoints, a.Addr) || in(l.Unready, a.Addr)) {
			continue
		}
		if a.Addr.IsValid() {
			added[a.Addr], added[netip.AddrPortFrom(a.Addr.Addr(), 0)] = true, true
		}
		switch c := &x.port.members[i]; {
		case c.strict && c.undeclared:
			a.Verdict, a.Detail = PortUndeclared, ""
		case a.Verdict == Served:
			a.Verdict = Unread
		}
		x.add(ExplainedAddress{Considered: a, Member: i})
	}
	return changed
}

// add counts an address, and keeps it while there is room.
func (x *inquiry) add(a ExplainedAddress) {
	if m := &x.result.Members[a.Member]; a.Addr.Port() != 0 && !slices.Contains(m.Ports, a.Addr.Port()) && len(m.Ports) < maxExamples {
		m.Ports = append(m.Ports, a.Addr.Port())
	}
	if x.Addr.IsValid() && a.Addr.Addr() != x.Addr {
		return
	}
	x.result.Verdicts[a.Verdict]++
	x.added++
	list := &x.unserved
	if a.Verdict == Served {
		list = &x.served
	}
	if len(*list) < x.Limit {
		x.describe(&a)
		*list = append(*list, numberedAddress{x.added, a})
	}
}

// list lists the addresses in order or, if there is no room for all, those that are not served
// before all others.
func (x *inquiry) list() {
	all := append(x.unserved, x.served...)
	if x.added <= x.Limit {
		slices.SortFunc(all, func(a, b numberedAddress) int { return cmp.Compare(a.number, b.number) })
	}
	x.result.Addresses = make([]ExplainedAddress, 0, min(len(all), x.Limit))
	for _, a := range all[:min(len(all), x.Limit)] {
		x.result.Addresses = append(x.result.Addresses, a.ExplainedAddress)
	}
	x.result.More = x.added - len(x.result.Addresses)
}

// judge returns the verdict on an endpoint of a share, of which kept is what the bounds leave
// of its slice. Each step of the way to the clients left it out, or did not.
func (x *inquiry) judge(kept *Slice, a *ExplainedAddress) Verdict {
	c, st := &x.port.members[a.Member], x.port.steering
	if at, ok := find(kept.Endpoints, a.Addr); !ok || kept.Endpoints[at] != a.Endpoint {
		why, _ := c.bounds.refuses(a.Addr)
		a.Detail = why.Owner // empty also if the owner has just gone
		if c.bounds.within != nil && !c.bounds.within.Contains(a.Addr.Addr()) {
			return OutsideRanges
		}
		return Owned
	}
	if st != nil { // see divide
		switch p := &st.members[a.Member]; {
		case p.standingOf(a.Endpoint) == Withdrawn && p.lost:
			return ClusterLost
		case p.standingOf(a.Endpoint) == Withdrawn:
			return ClusterCordoned
		case p.unused:
			return Unpreferred
		}
	}
	if at, _ := find(x.won, a.Addr); x.won[at] != a.Endpoint {
		return Taken
	}
	at, _ := find(x.port.merged, a.Addr)
	e := x.port.merged[at]
	why := x.omitted[e]
	if why == TierNotUsed && st.tierOf(e, x.Key.Client.Zone) == st.unnamed() {
		return Unpreferred
	}
	return why
}

// describe adds to the verdict on an address what takes longer to find out.
func (x *inquiry) describe(a *ExplainedAddress) {
	if st := x.port.steering; st != nil && a.Endpoint != nil && st.members[a.Member].standingOf(a.Endpoint) != Withdrawn {
		if i := st.tierOf(a.Endpoint, x.Key.Client.Zone); i < st.unnamed() {
			a.Tier = st.preference.tierName(i)
		}
	}
	switch a.Verdict {
	case OtherInstance:
		if slices.ContainsFunc(x.port.members[a.Member].raw, func(l *Slice) bool { return l.Behind != nil && l.Name == a.Slice }) {
			a.Detail = "an instance can't be addressed through a gateway"
		}
	case Taken:
		for i, l := range x.port.offers.at(a.Addr) {
			a.Detail = fmt.Sprintf("clients get it from %v, slice %s", x.port.members[i].member, l.Name)
			break
		}
	}
}
