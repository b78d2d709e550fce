package federation

import (
	"net/netip"
	"slices"
)

// facts are what a kind of client could get at an instant.
type facts struct {
	d       *Definition
	tiers   []Tier
	steered bool
	set     Set         // without endpoints
	ready   []*Endpoint // after the instance and the traffic policy
	unready []*Endpoint
	unknown bool
	tierOf  func(*Endpoint) int
	readyOf []int // by tier
	knownOf []int
	behind  []reached
	others  int  // ready, in a tier, of a cluster of which no part is of last resort
	hints   bool // apply
}

func (h *history) facts(x instant, k Key) *facts {
	m := h.moments[x.moment]
	f := &facts{d: m.defs[k.Service], tiers: []Tier{{{Kind: AnyCluster}}}, hints: true}
	if f.d == nil {
		f.set = Set{Complete: true, Reason: Undefined}
		return f
	}
	f.set = Set{Exists: true, Complete: true}
	if len(f.d.Members) == 0 && !f.d.Federated {
		f.set.Reason = NoRemoteService
		return f
	}
	preferring := f.d.Preference != nil && len(f.d.Preference.Tiers) > 0
	if preferring {
		f.tiers = f.d.Preference.Tiers
	}
	zoneTerm := slices.ContainsFunc(f.tiers, func(t Tier) bool { return slices.Contains(t, Term{Kind: ClientZone}) })
	f.hints = !zoneTerm
	f.steered = preferring && (f.d.Federated || zoneTerm)
	f.tierOf = func(e *Endpoint) int { return h.tierOf(x, k, f, e) }
	for _, mem := range f.d.Members {
		_, left := h.cordon(mem.Cluster, x)
		f.steered = f.steered || len(left) > 0 || h.standing(f.d, mem.Cluster, x) != uniform(InService)
	}
	ready, unready := f.offered(h, m, x, k.Port)
	h.summarize(f, m, x, k.Port)
	mine := func(all map[netip.AddrPort]*Endpoint, not map[netip.AddrPort]*Endpoint) (list []*Endpoint) {
		for _, e := range all {
			switch {
			case not[e.Addr] != nil || k.Client.Instance != "" && e.Hostname != k.Client.Instance:
			case e.Cluster == Local && f.set.ByNode && (e.Kind != Pod || k.Client.Node == "" || e.Node != k.Client.Node):
			default:
				list = append(list, e)
			}
		}
		slices.SortFunc(list, compareAddr)
		return list
	}
	f.ready, f.unready = mine(ready, nil), mine(unready, ready)
	count := func(list []*Endpoint) []int {
		n := make([]int, len(f.tiers)+1)
		for _, e := range h.oneFamily(list) {
			if i := f.tierOf(e); i < len(n) {
				n[i]++
			}
		}
		return n
	}
	for _, e := range h.oneFamily(f.ready) {
		by := h.standing(f.d, e.Cluster, x)
		if f.tierOf(e) < len(f.tiers) && !slices.Contains(by[:], LastResort) {
			f.others++
		}
	}
	f.readyOf, f.knownOf = count(f.ready), count(append(slices.Clone(f.ready), f.unready...))
	if k.Client.Instance == "" {
		f.countReached(h, x)
	}
	return f
}

// reached is what is behind gateways.
type reached struct {
	cluster  ClusterName
	gateways []*Endpoint // in some order
	Behind
}

// countReached counts what is behind gateways in place of them: all of it, if any of them is
// served, and otherwise none as ready.
func (f *facts) countReached(h *history, x instant) {
	served := h.oneFamily(f.ready)
	for _, b := range f.behind {
		by, tier, n := h.standing(f.d, b.cluster, x), f.tierOf(&Endpoint{Cluster: b.cluster}), 0
		for _, g := range b.gateways {
			tier = f.tierOf(g)
			if slices.ContainsFunc(served, g.Equal) {
				n++
			}
		}
		if tier > len(f.tiers) {
			continue
		}
		ready := 0
		if n > 0 {
			ready = b.Ready
		}
		f.readyOf[tier] += ready - n
		f.knownOf[tier] += b.Ready + b.Unready - n
		if tier < len(f.tiers) && !slices.Contains(by[:], LastResort) {
			f.others += ready - n
		}
	}
}

// reach notes what can be reached through a slice's gateways of one standing. A part of them
// stands for a part of it.
func (f *facts) reach(c ClusterName, s *Slice, within Ranges, by standings, pass Standing) {
	if s.Behind == nil {
		return
	}
	r, all := reached{cluster: c, Behind: *s.Behind}, 0
	for _, e := range s.Endpoints {
		if within.Contains(e.Addr.Addr()) {
			if all++; by[partOf(e)] == pass {
				r.gateways = append(r.gateways, e)
			}
		}
	}
	n := len(r.gateways)
	switch {
	case by == uniform(pass):
	case n == 0:
		return
	default:
		r.Ready, r.Unready = (r.Ready*n+all-1)/all, (r.Unready*n+all-1)/all
	}
	f.behind = append(f.behind, r)
}

// offered returns what wins each address, and what is not ready at the others.
func (f *facts) offered(h *history, m moment, x instant, port uint16) (ready, unready map[netip.AddrPort]*Endpoint) {
	ready, unready = make(map[netip.AddrPort]*Endpoint), make(map[netip.AddrPort]*Endpoint)
	for _, pass := range []Standing{InService, LastResort} {
		for _, mem := range f.d.Members {
			standing, share := h.standing(f.d, mem.Cluster, x), m.shares[memberPort{mem, port}]
			named := f.names(mem.Cluster, m) < len(f.tiers) || !f.hints
			if m.links[mem.Cluster].State != Ready || share.State != Present || !named {
				continue
			}
			within := m.links[mem.Cluster].Within
			if mem.Cluster == Local {
				within = nil
			}
			add := func(to map[netip.AddrPort]*Endpoint, list []*Endpoint) {
				for _, e := range list {
					if within.Contains(e.Addr.Addr()) && standing[partOf(e)] == pass && to[e.Addr] == nil {
						to[e.Addr] = e
					}
				}
			}
			for _, s := range share.Slices {
				add(ready, s.Endpoints)
				add(unready, s.Unready)
				f.reach(mem.Cluster, s, within, standing, pass)
			}
		}
	}
	return ready, unready
}

// summarize sets what a set has besides endpoints.
func (h *history) summarize(f *facts, m moment, x instant, port uint16) {
	for _, mem := range f.d.Members {
		l, share := m.links[mem.Cluster], m.shares[memberPort{mem, port}]
		taken := h.standing(f.d, mem.Cluster, x) == uniform(Withdrawn)
		named := f.names(mem.Cluster, m) < len(f.tiers) || !f.hints
		if taken || !named {
			if taken && !f.d.Federated {
				if l.State == Ready && share.State == ExternalName {
					f.set.Reason = External
				}
				return // it exists, and is empty
			}
			continue
		}
		switch {
		case l.State == Pending:
			f.unknown, f.set.Complete = true, false
		case l.State == Unreachable:
			f.unknown = true
		case l.State == Ready && mem.Cluster == Local && share.State == Present:
			f.set.ByNode = share.NodeLocal
		}
		if f.d.Federated {
			continue
		}
		switch {
		case l.State == Unlinked:
			f.set.Exists, f.set.Reason, f.set.Cluster = false, NotLinked, mem.Cluster
		case l.State == Ready && share.State == Missing:
			f.set.Exists = false
		case l.State == Ready && share.State == ExternalName:
			f.set.Reason = External
		}
	}
	if f.unknown {
		f.set.Reason = Unknown
	}
}

// names returns the first tier that has a term, other than zone, for the cluster; as many as
// there are: none has.
func (f *facts) names(c ClusterName, m moment) int {
	for i, tier := range f.tiers {
		for _, t := range tier {
			switch {
			case t.Kind == ClientZone:
			case !f.d.Federated,
				t.Kind == AnyCluster,
				t.Kind == LocalCluster && c == Local,
				t.Kind == Remote && c != Local,
				t.Kind == SameRegion && c == Local,
				t.Kind == SameRegion && m.links[c].Region != "" && m.links[c].Region == m.links[Local].Region,
				t.Kind == Named && c != Local && c == t.Cluster:
				return i
			}
		}
	}
	return len(f.tiers)
}

// tierOf returns the tier of an endpoint; as many as there are: last resort; more: none.
func (h *history) tierOf(x instant, k Key, f *facts, e *Endpoint) int {
	first := f.names(e.Cluster, h.moments[x.moment])
	if !slices.ContainsFunc(f.d.Members, func(m Member) bool { return m.Cluster == e.Cluster }) {
		return len(f.tiers) + 1 // it was sent while its cluster had a member
	}
	for i, tier := range f.tiers {
		if i < first && slices.Contains(tier, Term{Kind: ClientZone}) && k.Client.Zone != "" && e.Zone == k.Client.Zone {
			first = i
		}
	}
	switch {
	case first == len(f.tiers):
		return first + 1
	case h.standing(f.d, e.Cluster, x)[partOf(e)] != InService:
		return len(f.tiers)
	}
	return first
}

// oneFamily chooses the address family.
func (h *history) oneFamily(list []*Endpoint) (out []*Endpoint) {
	for _, e := range list {
		drop := e.Addr.Addr().Is6() && !h.ipv6
		if e.Addr.Addr().Is4() && h.ipv6 && e.Twin != "" {
			for _, o := range list {
				drop = drop || o.Addr.Addr().Is6() && o.Twin == e.Twin && o.Cluster == e.Cluster
			}
		}
		if !drop {
			out = append(out, e)
		}
	}
	return out
}

// hinted applies zone hints to the local endpoints.
func hinted(list []*Endpoint, zone string) (out []*Endpoint) {
	all, some := true, false
	for _, e := range list {
		if e.Cluster == Local {
			all = all && len(e.Hints) > 0
			some = some || slices.Contains(e.Hints, zone)
		}
	}
	for _, e := range list {
		if e.Cluster != Local || !all || !some || slices.Contains(e.Hints, zone) {
			out = append(out, e)
		}
	}
	return out
}

func (f *facts) preference() Preference {
	if f.d.Preference == nil {
		return Preference{}
	}
	return *f.d.Preference
}

// suffices reports whether the first n tiers do. Anything ready makes last resort unneeded.
func (f *facts) suffices(n int) bool {
	ready, known := 0, 0
	for i := range min(n, len(f.tiers)) {
		ready, known = ready+f.readyOf[i], known+f.knownOf[i]
	}
	p := f.preference().MinReady
	switch {
	case n > len(f.tiers):
		return f.others > 0
	case f.alone():
		return false
	case p.Percent > 0:
		return ready >= 1 && ready*100 >= p.Percent*known
	}
	return ready >= max(p.Count, 1)
}

// needed is the number of tiers that clients need.
func (f *facts) needed() int {
	if f.alone() {
		return len(f.tiers) + 1
	}
	for n := 1; n <= len(f.tiers); n++ {
		if f.suffices(n) {
			return n
		}
	}
	return len(f.tiers)
}

// alone reports whether there is nothing but clusters that are, or become, of last resort.
func (f *facts) alone() bool { return f.others == 0 && f.readyOf[len(f.tiers)] > 0 }
