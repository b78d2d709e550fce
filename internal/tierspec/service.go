package tierspec

import (
	"net/netip"
	"slices"
)

// Standing is how far endpoints are taken out; the greater of two wins.
type Standing int

// The standings.
const (
	InService Standing = iota
	LastResort
	Withdrawn
)

// Parts is into how many parts the endpoints of a cluster are divided, and those of a tier, that leave part by part.
const Parts = 10

// Standings are those of each part of a cluster's endpoints.
type Standings [Parts]Standing

// All are the standings of a cluster whose parts do not differ.
func All(s Standing) (list Standings) {
	for i := range list {
		list[i] = s
	}
	return list
}

// Endpoint is what decides whether a client gets an endpoint.
type Endpoint struct {
	Addr     netip.AddrPort
	Zone     string
	Node     string // of Pods
	Hostname string
	Pod      string   // the same for the addresses of one Pod in its cluster; empty: it has this one only
	Zones    []string // that it is hinted to
	Nodes    []string // that it is hinted to
	Text     string   // all else that clients are sent about it
	Part     int      // of its cluster that it is in
	Of       any      // the caller's
	member   *Member
}

// Slice is a part of what a member has. Of one with Behind the endpoints are gateways, each of which leads to all
// that is behind.
type Slice struct {
	Ready, Unready []Endpoint
	Behind         *Behind
}

// Behind is how many endpoints are behind gateways.
type Behind struct{ Ready, Unready int }

// Member is a cluster's Service of those that a service is made of.
type Member struct {
	Cluster
	Standings Standings
	Spreading bool    // some of the standings will change by themselves
	Slices    []Slice // what may be taken from it
}

// Service is what there is of a service for one kind of client.
type Service struct {
	Preference
	Federated bool
	Members   []Member // in order of precedence
	NodeLocal bool     // clients get endpoints of the own cluster only on their node
	IPv6      bool     // they get IPv6 addresses

	Zone, Node, Instance string // of the clients; empty: not known, or no instance
}

// State is a service with its endpoints by tier.
type State struct {
	Service
	// Ready has one endpoint for each address, sorted: of the member that wins it. Those that no tier names are there
	// too.
	Ready   []Endpoint
	unready []Endpoint
	ready   []int // by tier, and behind them that of last resort
	known   []int // likewise, ready or not
	others  int   // ready ones in tiers, of clusters of which no part is of last resort
}

// State returns the service's.
func (s *Service) State() *State {
	st := &State{Service: *s}
	st.Members = slices.Clone(s.Members)
	for i := range st.Members {
		for k, standing := range st.Members[i].Standings {
			if standing == LastResort && !st.Federated { // it has nothing else to offer
				st.Members[i].Standings[k] = InService
			}
		}
	}
	ready, unready := st.offered()
	for addr := range ready {
		delete(unready, addr)
	}
	st.Ready, st.unready = st.forClients(ready), st.forClients(unready)
	st.ready, st.known = st.count(st.Ready), st.count(append(slices.Clone(st.Ready), st.unready...))
	for _, e := range st.oneFamily(st.Ready) {
		if st.TierOf(e) < st.LastResort() && e.member.lastResorts() == 0 {
			st.others++
		}
	}
	if st.Instance == "" { // a gateway can't be asked for one
		st.countBehind()
	}
	return st
}

// LastResort is the place of the tier of last resort, behind all others.
func (st *State) LastResort() int { return len(st.tiers()) }

// TierOf returns the place of an endpoint's tier. Behind that of last resort: no tier names it.
func (st *State) TierOf(e Endpoint) int {
	tier := st.Tier(st.Federated, e.member.Cluster, e.Zone, st.Zone)
	switch {
	case tier < 0:
		return st.LastResort() + 1
	case e.member.Standings[e.Part] != InService:
		return st.LastResort()
	}
	return tier
}

// lastResorts is how many parts of a cluster are of last resort.
func (m *Member) lastResorts() (n int) {
	for _, s := range m.Standings {
		if s == LastResort {
			n++
		}
	}
	return n
}

// Unused reports whether no client can get anything of a member: it is withdrawn, or no tier can name it.
func (s *Service) Unused(m *Member) bool {
	return m.Standings == All(Withdrawn) || !s.Zoned() && s.Tier(s.Federated, m.Cluster, "", "") < 0
}

// offered returns what wins each address: those in service first, and then in order of precedence; and likewise what
// is not ready. What is withdrawn, or never named, has no part in it.
func (st *State) offered() (ready, unready map[netip.AddrPort]Endpoint) {
	ready, unready = make(map[netip.AddrPort]Endpoint), make(map[netip.AddrPort]Endpoint)
	for _, now := range []Standing{InService, LastResort} {
		for i := range st.Members {
			m := &st.Members[i]
			if st.Unused(m) {
				continue
			}
			add := func(to map[netip.AddrPort]Endpoint, list []Endpoint) {
				for _, e := range list {
					if _, taken := to[e.Addr]; !taken && m.Standings[e.Part] == now {
						e.member = m
						to[e.Addr] = e
					}
				}
			}
			for _, l := range m.Slices {
				add(ready, l.Ready)
				add(unready, l.Unready)
			}
		}
	}
	return ready, unready
}

// forClients returns what the instance and internalTrafficPolicy leave, sorted by address.
func (st *State) forClients(all map[netip.AddrPort]Endpoint) (list []Endpoint) {
	for _, e := range all {
		elsewhere := st.NodeLocal && e.member.Name == "" && (st.Node == "" || e.Node != st.Node)
		if !elsewhere && (st.Instance == "" || e.Hostname == st.Instance) {
			list = append(list, e)
		}
	}
	slices.SortFunc(list, func(a, b Endpoint) int { return a.Addr.Compare(b.Addr) })
	return list
}

// count counts endpoints by tier. A Pod with addresses of two families counts once.
func (st *State) count(list []Endpoint) []int {
	n := make([]int, st.LastResort()+2)
	for _, e := range st.oneFamily(list) {
		n[st.TierOf(e)]++
	}
	return n
}

// oneFamily leaves out IPv6 addresses if clients get none, and otherwise the IPv4 addresses of Pods that have an IPv6
// address.
func (st *State) oneFamily(list []Endpoint) (out []Endpoint) {
	for _, e := range list {
		drop := e.Addr.Addr().Is6() && !st.IPv6
		if e.Addr.Addr().Is4() && st.IPv6 && e.Pod != "" {
			drop = slices.ContainsFunc(list, func(o Endpoint) bool {
				return o.Addr.Addr().Is6() && o.Pod == e.Pod && o.member.Name == e.member.Name
			})
		}
		if !drop {
			out = append(out, e)
		}
	}
	return out
}

// countBehind counts what is behind gateways in place of them: all of it, if clients get any of them, and otherwise
// none as ready.
func (st *State) countBehind() {
	got := st.oneFamily(st.Ready)
	for i := range st.Members {
		m := &st.Members[i]
		for _, l := range m.Slices {
			if l.Behind != nil && !st.Unused(m) {
				st.countGateways(m, l, InService, got)
				st.countGateways(m, l, LastResort, got)
			}
		}
	}
}

// countGateways counts what is behind those of the gateways that have this standing. A part of them stands for a part
// of it.
func (st *State) countGateways(m *Member, l Slice, now Standing, got []Endpoint) {
	var these []Endpoint
	for _, g := range l.Ready {
		if m.Standings[g.Part] == now {
			these = append(these, g)
		}
	}
	behind := *l.Behind
	switch {
	case m.Standings == All(now):
	case len(these) == 0:
		return
	default:
		share := func(n int) int { return (n*len(these) + len(l.Ready) - 1) / len(l.Ready) }
		behind = Behind{share(behind.Ready), share(behind.Unready)}
	}
	tier, n := st.Tier(st.Federated, m.Cluster, "", st.Zone), 0
	if tier < 0 {
		return
	}
	if now == LastResort {
		tier = st.LastResort()
	}
	for _, g := range these {
		if slices.ContainsFunc(got, func(e Endpoint) bool {
			return e.Addr == g.Addr && e.member.Name == m.Name && e.Text == g.Text
		}) {
			n++
		}
	}
	ready := 0
	if n > 0 {
		ready = behind.Ready
	}
	st.ready[tier] += ready - n
	st.known[tier] += behind.Ready + behind.Unready - n
	if tier < st.LastResort() && m.lastResorts() == 0 {
		st.others += ready - n
	}
}

// suffices reports whether the first n tiers do. Anything ready, of a cluster that is not of last resort,
// makes the tier of last resort unneeded, which is the one behind so many.
func (st *State) suffices(n int) bool {
	ready, known := 0, 0
	for i := range min(n, st.LastResort()) {
		ready, known = ready+st.ready[i], known+st.known[i]
	}
	switch {
	case n > st.LastResort():
		return st.others > 0
	case st.alone():
		return false
	}
	return st.enough(ready, known)
}

// Needed is how many tiers clients need, from the first.
func (st *State) Needed() int {
	if st.alone() {
		return st.LastResort() + 1
	}
	for n := 1; n < st.LastResort(); n++ {
		if st.suffices(n) {
			return n
		}
	}
	return st.LastResort()
}

// alone reports whether there is nothing but clusters that are, or become, of last resort.
func (st *State) alone() bool { return st.others == 0 && st.ready[st.LastResort()] > 0 }

// finish applies the rules that come after the tiers: hints, unless zones are a term, and the address family.
func (st *State) finish(list []Endpoint) []Endpoint {
	list = st.servable(list)
	switch {
	case st.NodeLocal || st.Zoned():
	case st.HintedTo(list, st.Node):
		list = only(list, func(e Endpoint) bool { return slices.Contains(e.Nodes, st.Node) })
	default:
		list = hinted(list, st.Zone)
	}
	return st.oneFamily(list)
}

// HintedTo reports whether clients on a node get only those of the endpoints in use that are hinted to it: if all
// of them are of the own cluster and are hinted to nodes, and one is for that node.
func (st *State) HintedTo(list []Endpoint, node string) bool {
	if st.NodeLocal || st.Zoned() || node == "" {
		return false
	}
	some := false
	for _, e := range st.servable(list) {
		if e.member.Name != "" || len(e.Nodes) == 0 {
			return false
		}
		some = some || slices.Contains(e.Nodes, node)
	}
	return some
}

// hinted applies zone hints to the own cluster's endpoints: if all have some, and one is for the zone.
func hinted(list []Endpoint, zone string) []Endpoint {
	all, some := true, false
	for _, e := range list {
		if e.member.Name == "" {
			all, some = all && len(e.Zones) > 0, some || slices.Contains(e.Zones, zone)
		}
	}
	if !all || !some {
		return list
	}
	return only(list, func(e Endpoint) bool { return e.member.Name != "" || slices.Contains(e.Zones, zone) })
}

// servable leaves out IPv6 addresses if clients get none.
func (st *State) servable(list []Endpoint) []Endpoint {
	return only(list, func(e Endpoint) bool { return st.IPv6 || e.Addr.Addr().Is4() })
}

func only(list []Endpoint, has func(Endpoint) bool) (out []Endpoint) {
	for _, e := range list {
		if has(e) {
			out = append(out, e)
		}
	}
	return out
}

// steered reports whether clients do not simply get everything.
func (st *State) steered() bool {
	prefers := len(st.Tiers) > 0 && (st.Federated || st.Zoned())
	return prefers ||
		slices.ContainsFunc(st.Members, func(m Member) bool { return m.Spreading || m.Standings != All(InService) })
}

func sameTiers(a, b *State) bool {
	return slices.EqualFunc(a.tiers(), b.tiers(), slices.Equal)
}
