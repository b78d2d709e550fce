package spec

import (
	"net/netip"
	"slices"
)

// Standing says whether endpoints are in service, are used only as a last resort, or are withdrawn.
// If two standings apply to an endpoint, the more restrictive standing wins.
type Standing int

const (
	InService Standing = iota
	LastResort
	Withdrawn
)

// Parts is the number of parts into which the endpoints of a cluster or tier are divided. When
// Isthmus drops endpoints gradually, it drops one part at a time.
const Parts = 10

type Standings [Parts]Standing

// All returns Standings in which every part has the given standing.
func All(s Standing) (list Standings) {
	for i := range list {
		list[i] = s
	}
	return list
}

// Endpoint contains the properties that determine whether a client receives an endpoint.
type Endpoint struct {
	Addr     netip.AddrPort
	Zone     string
	Node     string // only for Pods
	Hostname string
	Pod      string   // the same for all addresses of a Pod within its cluster; empty if the Pod has only this address
	Zones    []string // zones in the hints of the endpoint
	Nodes    []string // nodes in the hints of the endpoint
	Text     string   // everything else that clients receive about the endpoint
	Part     int      // index of the part of the cluster that contains the endpoint
	Of       any      // for use by the caller
	member   *Member
}

// Slice contains some of a member's endpoints. If Behind is set, the endpoints in the Slice are
// Linkerd gateways, each of which leads to all endpoints of the member.
type Slice struct {
	Ready, Unready []Endpoint
	Behind         *Behind
}

type Behind struct{ Ready, Unready int }

type Member struct {
	Cluster
	Unlinked  bool         // whether the cluster is not linked
	Unlisted  bool         // whether the cluster has not been listed yet, so that Service is unknown
	Service   ServiceState // state of the Service in the cluster
	Standings Standings
	Spreading bool    // whether any standing will change with time
	Slices    []Slice // the slices that the local cluster accepts from the member
}

// Accept adds slices to the member. If the member is in a linked cluster, Accept omits two kinds of
// addresses: addresses outside the ranges that the link Secret allows, and ready addresses that are
// assigned to objects of the local cluster.
func (m *Member) Accept(list []Slice, within, assigned func(netip.Addr) bool) {
	for _, l := range list {
		if m.Name != "" {
			l.Ready = only(l.Ready, func(e Endpoint) bool { return within(e.Addr.Addr()) && !assigned(e.Addr.Addr()) })
			l.Unready = only(l.Unready, func(e Endpoint) bool { return within(e.Addr.Addr()) })
		}
		m.Slices = append(m.Slices, l)
	}
}

type Service struct {
	Preference
	Federated bool
	Members   []Member // in order of precedence
	NodeLocal bool     // whether clients get only those local endpoints that are on their node
	IPv6      bool     // whether clients get IPv6 addresses

	Zone, Node, Instance string // properties of the clients; empty if unknown or not requested
}

type State struct {
	Service
	// Ready contains the ready endpoints, sorted by address. For each address, only the endpoint
	// that takes precedence is listed. Endpoints that match no tier are included.
	Ready   []Endpoint
	unready []Endpoint
	ready   []int // by tier; last resort follows the tiers
	known   []int // like ready, but counts unready endpoints too
	others  int   // ready endpoints before the last-resort tier, in clusters of which no part is a last resort
}

func (s *Service) State() *State {
	st := &State{Service: *s}
	st.Members = slices.Clone(s.Members)
	for i := range st.Members {
		for k, standing := range st.Members[i].Standings {
			st.Members[i].Standings[k] = s.Applied(standing)
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
	if st.Instance == "" { // a gateway cannot address an instance
		st.countBehind()
	}
	return st
}

// Applied returns the standing that applies to endpoints in the service, given the standing of
// their cluster. A service that is not federated has endpoints in only one cluster, so LastResort
// has no effect.
func (s *Service) Applied(standing Standing) Standing {
	if standing == LastResort && !s.Federated {
		return InService
	}
	return standing
}

// LastResort returns the index of the last-resort tier, which follows all other tiers.
func (st *State) LastResort() int { return len(st.tiers()) }

// TierOf returns the index of an endpoint's tier, or LastResort() + 1 if no tier matches the
// endpoint.
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

// tierOfFormer returns the current tier of an endpoint that clients already have. If no preferred
// tier matches the endpoint, or if the endpoint's cluster is no longer a member, the result is 0.
func (st *State) tierOfFormer(e Endpoint) int {
	i := slices.IndexFunc(st.Members, func(m Member) bool { return m.Name == e.member.Name })
	if i < 0 {
		return 0
	}
	e.member = &st.Members[i]
	if tier := st.TierOf(e); tier < st.LastResort() {
		return tier
	}
	return 0
}

func (m *Member) lastResorts() (n int) {
	for _, s := range m.Standings {
		if s == LastResort {
			n++
		}
	}
	return n
}

// Unused is true if clients can never receive an endpoint of the member, because the member is
// withdrawn or no tier can match it.
func (s *Service) Unused(m *Member) bool {
	return m.Standings == All(Withdrawn) || !s.Zoned() && s.Tier(s.Federated, m.Cluster, "", "") < 0
}

// Exists reports whether Isthmus tells clients that a service exists. A federated service always
// exists. A service that is not federated counts as nonexistent if the service's only cluster is
// not linked, or if Isthmus has listed the cluster's Services and the Service is missing. If
// clients can never receive endpoints from that cluster, the service exists but is empty.
func (s *Service) Exists() bool {
	if s.Federated || len(s.Members) == 0 || s.Unused(&s.Members[0]) {
		return true
	}
	return !s.NotLinked() && (s.Members[0].Unlisted || s.Members[0].Service != Missing)
}

// NotLinked reports whether new clients of a service are rejected because the service's only
// cluster is not linked.
func (s *Service) NotLinked() bool {
	return !s.Federated && len(s.Members) == 1 && s.Members[0].Unlinked && !s.Unused(&s.Members[0])
}

// Each result contains only one endpoint per address. If several endpoints have the same address,
// those with the standing InService take precedence over those with the standing LastResort. Among
// endpoints with the same standing, the endpoint of the first member takes precedence. The results
// do not contain endpoints that are withdrawn or that cannot match any tier.
func (st *State) offered() (ready, unready map[netip.AddrPort]Endpoint) {
	ready = make(map[netip.AddrPort]Endpoint)
	unready = make(map[netip.AddrPort]Endpoint)
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

// forClients filters the endpoints by the requested instance and by internalTrafficPolicy, and
// sorts the remaining endpoints by address.
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

// count returns the number of endpoints in each tier. A Pod with an IPv4 and an IPv6 address counts
// once.
func (st *State) count(list []Endpoint) []int {
	n := make([]int, st.LastResort()+2)
	for _, e := range st.oneFamily(list) {
		n[st.TierOf(e)]++
	}
	return n
}

// oneFamily removes duplicate endpoints of dual-stack Pods. If clients receive IPv6 addresses,
// oneFamily removes the IPv4 address of each Pod that also has an IPv6 address. If clients do not
// receive IPv6 addresses, oneFamily removes all IPv6 addresses.
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

// countBehind replaces the number of Linkerd gateways in each tier with the number of endpoints
// behind these gateways. If clients receive none of the gateways' addresses, no endpoint behind the
// gateways counts as ready.
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

// countGateways counts the endpoints behind the gateways that have the given standing. If only some
// of the member's gateways have this standing, countGateways counts a proportional share of the
// endpoints.
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
	tier := st.Tier(st.Federated, m.Cluster, "", st.Zone)
	n := 0
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

// suffices reports whether the best n tiers have enough endpoints for clients. If the best n tiers
// include the last-resort tier, the result instead says whether clients can stop using the
// last-resort tier. Clients can stop using the last-resort tier if another tier has a ready
// endpoint in a cluster that does not have the standing LastResort for any part of its endpoints.
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

// Needed returns the number of tiers that clients need. The result is at least 1.
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

// The alone method reports whether clients need the last-resort tier. If the last-resort tier has
// no ready endpoint, clients do not need it. If another tier has a ready endpoint, and no part of
// that endpoint's cluster is a last resort, clients do not need the last-resort tier either.
func (st *State) alone() bool { return st.others == 0 && st.ready[st.LastResort()] > 0 }

// finish filters the endpoints in the chosen tiers by hints and by address family. Hints are
// ignored if the preference contains the term "zone".
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

// HintedTo reports whether node hints apply to the clients on a given node. Node hints apply if all
// endpoints in use are local and have node hints, and at least one endpoint has a hint for the
// given node.
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

// hinted applies zone hints to the local endpoints. Zone hints apply only if every local endpoint
// has a zone hint, and at least one endpoint has a hint for the given zone.
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

// steered reports whether a preference or a cordon determines which endpoints are sent to clients.
func (st *State) steered() bool {
	prefers := len(st.Tiers) > 0 && (st.Federated || st.Zoned())
	return prefers ||
		slices.ContainsFunc(st.Members, func(m Member) bool { return m.Spreading || m.Standings != All(InService) })
}

func sameTiers(a, b *State) bool {
	return slices.EqualFunc(a.tiers(), b.tiers(), slices.Equal)
}
