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
	port    *port // with what decides, and without clients
	cut     cut   // what the clients get of tiers
	won     []*Endpoint
	offered map[*Endpoint]struct{} // where clients are steered: what is not withdrawn, and may be in a tier
	omitted omitted
	result  *Explanation
	served  []int // the places of those in result.Addresses that are served
}

// inquire copies what the key's set is made of; not ok: the key is not watched.
func (s *watchedService) inquire(q Question) (x *inquiry, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.ports[q.Key.Port]
	if p == nil {
		return nil, false
	}
	at := slices.IndexFunc(p.audience(q.Key.Client.Instance)[q.Key.Client.Node], func(to *published) bool { return to.client == q.Key.Client })
	if at < 0 {
		return nil, false
	}
	to := p.audience(q.Key.Client.Instance)[q.Key.Client.Node][at]
	x = &inquiry{Question: q, ipv6: s.table.opts.IPv6, omitted: make(omitted), result: &Explanation{Verdicts: make(map[Verdict]int)}}
	x.port = &port{
		number: p.number, members: slices.Clone(p.members), steering: p.steering, offers: slices.Clone(p.offers),
		merged: p.merged, unready: p.unready, summary: p.summary,
	}
	x.result.Definition = s.table.inputs(s.id).definition
	x.result.Set, _ = to.latest.Get()
	if p.steering != nil {
		x.cut = to.tiers.chosen
		view := p.steering.view(p.number, to)
		x.result.Steered = &view
	}
	return x, true
}

// choose lets what decides do so again, and say why.
func (x *inquiry) choose() {
	p := x.port
	x.won, _ = merge(p.offers)
	if p.steering == nil {
		x.omitted.choose(p.merged, x.ipv6, p.summary.byNode, x.Key.Client)
		return
	}
	x.offered = make(map[*Endpoint]struct{}, len(x.won))
	for _, o := range p.offers {
		for _, l := range o {
			for _, e := range l.Endpoints {
				x.offered[e] = struct{}{}
			}
		}
	}
	pass := newPass(p, x.ipv6)
	pass.omitted = x.omitted
	pass.pick(pass.tally(x.Key.Client), x.cut, x.Key.Client.Zone)
}

// makeRoom makes room for the endpoints that will be listed.
func (x *inquiry) makeRoom() {
	n := 0
	for _, m := range x.port.members {
		for _, l := range m.raw {
			n += len(l.Endpoints) + len(l.Unready)
		}
	}
	if !x.Addr.IsValid() {
		x.result.Addresses = make([]ExplainedAddress, 0, min(n, x.Most))
	}
}

// member explains a member's addresses.
func (x *inquiry) member(ctx context.Context, i int) {
	c := &x.port.members[i]
	m := ExplainedMember{Member: c.member, Status: c.status, NodeLocal: c.nodeLocal, Changed: c.changed, Updates: c.updates}
	if st := x.port.steering; st != nil {
		m.Standing, m.Spreading, m.Lost = st.members[i].standing, st.members[i].spread != nil, st.members[i].lost
	}
	x.result.Members = append(x.result.Members, m)
	known := make(map[string]*Slice, len(c.raw))
	for k, l := range c.raw {
		known[l.Name] = l
		for _, e := range l.Endpoints {
			x.add(x.endpoint(i, k, e))
		}
		for _, e := range l.Unready {
			if _, ready := find(l.Endpoints, e.Addr); ready {
				continue
			}
			x.add(ExplainedAddress{Considered: Considered{Slice: l.Name, Addr: e.Addr, Target: e.Twin, Verdict: NotReady}, Member: i, Endpoint: e})
		}
	}
	if source, ok := c.src.(Explainer); ok {
		changed := x.leftOut(ctx, i, known, source)
		for k := range x.result.Addresses {
			if a := &x.result.Addresses[k]; a.Member == i {
				a.Changed = changed[a.Slice]
			}
		}
	}
	slices.Sort(x.result.Members[i].Ports)
}

// leftOut adds the addresses that are not in the member's share as it was read last, and
// returns when the slices changed.
func (x *inquiry) leftOut(ctx context.Context, i int, known map[string]*Slice, source Explainer) (changed map[string]time.Time) {
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
		l := known[a.Slice]
		if added[a.Addr] || l != nil && (in(l.Endpoints, a.Addr) || in(l.Unready, a.Addr)) {
			continue
		}
		if a.Addr.IsValid() {
			added[a.Addr], added[netip.AddrPortFrom(a.Addr.Addr(), 0)] = true, true
		}
		if a.Verdict == Served {
			a.Verdict = Unread
		}
		x.add(ExplainedAddress{Considered: a, Member: i})
	}
	return changed
}

// add counts an address, and lists it while there is room.
func (x *inquiry) add(a ExplainedAddress) {
	r := x.result
	if m := &r.Members[a.Member]; a.Addr.Port() != 0 && !slices.Contains(m.Ports, a.Addr.Port()) && len(m.Ports) < maxExamples {
		m.Ports = append(m.Ports, a.Addr.Port())
	}
	if x.Addr.IsValid() && a.Addr.Addr() != x.Addr {
		return
	}
	r.Verdicts[a.Verdict]++
	if len(r.Addresses) < x.Most {
		x.describe(&a)
		if a.Verdict == Served {
			x.served = append(x.served, len(r.Addresses))
		}
		r.Addresses = append(r.Addresses, a)
		return
	}
	r.More++
	if last := len(x.served) - 1; a.Verdict != Served && last >= 0 {
		x.describe(&a)
		r.Addresses = append(slices.Delete(r.Addresses, x.served[last], x.served[last]+1), a)
		x.served = x.served[:last] // before it
	}
}

// unservedFirst moves the addresses that are served to the end if there are more than are listed.
func (x *inquiry) unservedFirst() {
	if x.result.More > 0 {
		slices.SortStableFunc(x.result.Addresses, func(a, b ExplainedAddress) int { return cmp.Compare(min(b.Verdict, 1), min(a.Verdict, 1)) })
	}
}

// endpoint explains an endpoint of a slice of a member's share.
func (x *inquiry) endpoint(i, slice int, e *Endpoint) ExplainedAddress {
	c := &x.port.members[i]
	a := ExplainedAddress{Considered: Considered{Slice: c.raw[slice].Name, Addr: e.Addr, Target: e.Twin}, Member: i, Endpoint: e}
	a.Verdict = x.judge(i, c.kept[slice], &a)
	return a
}

// judge returns the verdict on an endpoint of a share, of which kept is what the rules leave
// of its slice. Each step of the way to the clients left it out, or did not.
func (x *inquiry) judge(i int, kept *Slice, a *ExplainedAddress) Verdict {
	c, st := &x.port.members[i], x.port.steering
	if at, ok := find(kept.Endpoints, a.Addr); !ok || kept.Endpoints[at] != a.Endpoint {
		why, _ := c.rules.refuses(a.Addr)
		a.Detail = why.Owner // empty also if the owner has just gone
		if c.rules.within != nil && !c.rules.within.Contains(a.Addr.Addr()) {
			return OutsideRanges
		}
		return Owned
	}
	if _, ok := x.offered[a.Endpoint]; st != nil && !ok {
		switch {
		case st.members[i].standingOf(a.Endpoint) != Withdrawn:
			return Unpreferred
		case st.members[i].lost:
			return ClusterLost
		}
		return ClusterCordoned
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
	if a.Verdict == OtherInstance && a.Endpoint != nil && x.gateway(a) {
		a.Detail = "an instance can't be addressed through a gateway"
	}
	if a.Verdict != Taken {
		return
	}
	for i, o := range x.port.offers {
		for _, l := range o {
			if _, ok := find(l.Endpoints, a.Addr); ok {
				a.Detail = fmt.Sprintf("clients get it from %v, slice %s", x.port.members[i%len(x.port.members)].member, l.Name)
				return
			}
		}
	}
}

// gateway reports whether an address is a gateway's.
func (x *inquiry) gateway(a *ExplainedAddress) bool {
	return slices.ContainsFunc(x.port.members[a.Member].raw, func(l *Slice) bool { return l.Behind != nil && l.Name == a.Slice })
}
