package federation

import "slices"

// pass is one time of publishing to the clients of a port. What they have in common is computed once.
//
// For each client, tally finds what it could get, port.decideTiers how much of that is in use, and get what it gets.
type pass struct {
	port       *port
	ipv6       bool
	byHostname map[string]hosted // of the instances that clients ask for
	// nodes are those that have endpoints, if clients see only their node's. It is nil if they do not, or if
	// there is one client.
	nodes    map[string]bool
	tallies  map[tallyKey]*tally
	gateways []gatewaySlice // that the port's members have on offer
	omitted  omitted        // of one client's explanation; nil: nothing is explained
}

// newPass returns one for these clients.
func newPass(p *port, ipv6 bool, clients ...*published) *pass {
	x := &pass{
		port:       p,
		ipv6:       ipv6,
		tallies:    make(map[tallyKey]*tally),
		byHostname: hostedBy(p, clients),
	}
	if p.summary.byNode && len(clients) > 1 {
		x.nodes = make(map[string]bool)
		for _, e := range slices.Concat(p.merged, p.unready) {
			x.nodes[e.Node] = true
		}
	}
	if p.steering != nil {
		x.gateways = p.gatewaySlices()
	}
	return x
}

// hosted is what an instance has.
type hosted struct{ ready, unready []*Endpoint }

// hostedBy returns what the instances have that clients ask for.
func hostedBy(p *port, clients []*published) map[string]hosted {
	all := make(map[string]hosted)
	for _, to := range clients {
		if to.client.Instance != "" {
			all[to.client.Instance] = hosted{}
		}
	}
	if len(all) == 0 {
		return nil
	}
	for _, e := range p.merged {
		if h, asked := all[e.Hostname]; asked {
			all[e.Hostname] = hosted{append(h.ready, e), h.unready}
		}
	}
	for _, e := range p.unready {
		if h, asked := all[e.Hostname]; asked {
			all[e.Hostname] = hosted{h.ready, append(h.unready, e)}
		}
	}
	return all
}

// gatewaySlice is a slice of the Linkerd gateways of a cluster.
type gatewaySlice struct {
	*Slice
	cluster ClusterName
}

// tally is what clients of one instance, node and zone could get of a port, and how much of
// it each tier has.
type tally struct {
	zone   string // of the clients, if it is a term of the preference
	counts tierCounts
	list   []*Endpoint                    // without those of other instances, and those that traffic policy leaves out
	tiers  []int                          // of the endpoints in list; nil unless the port is steered
	used   map[use][]*Endpoint            // what of list is in use
	hinted map[use]map[string][]*Endpoint // what of that is in use, by the nodes that node hints choose it for
	got    map[choice][]*Endpoint         // what clients get of that
}

// tallyKey is the part of a client that makes a difference to a tally.
type tallyKey struct{ instance, node, zone string }

// tally returns that of a client. Clients of all nodes without endpoints share one: there
// may be any number.
func (x *pass) tally(c Client) *tally {
	key := tallyKey{instance: c.Instance}
	if x.zoned() {
		key.zone = c.Zone
	}
	if x.port.summary.byNode && (x.nodes == nil || x.nodes[c.Node]) {
		key.node = c.Node
	}
	t := x.tallies[key]
	if t == nil {
		t = x.count(Client{Instance: key.instance, Node: key.node, Zone: key.zone})
		x.tallies[key] = t
	}
	return t
}

// count makes a tally. The instance and the node come first, and so limit what is counted.
// Zone hints do not: tiers are chosen from all zones, and hints apply to what is served then.
// Where clients are not steered nothing is counted.
func (x *pass) count(c Client) *tally {
	ready, unready := x.port.merged, x.port.unready
	if c.Instance != "" {
		h := x.byHostname[c.Instance]
		ready = x.omitted.note(OtherInstance, ready, h.ready)
		unready = h.unready
	}
	if x.port.summary.byNode {
		ready = x.omitted.note(OtherNode, ready, onNode(ready, c.Node))
		unready = onNode(unready, c.Node)
	}
	t := &tally{
		zone:   c.Zone,
		list:   ready,
		hinted: make(map[use]map[string][]*Endpoint),
		got:    make(map[choice][]*Endpoint),
	}
	if x.port.steering != nil {
		x.countTiers(t, unready, c)
	}
	return t
}

// countTiers counts what each tier has of a tally's list, and of these endpoints that are not ready.
// A Pod with addresses of two families counts once.
func (x *pass) countTiers(t *tally, unready []*Endpoint, c Client) {
	st := x.port.steering
	t.tiers = st.tiersOf(t.list, c.Zone)
	t.used = make(map[use][]*Endpoint)

	once := family(t.list, x.ipv6)
	tiers := t.tiers
	if !same(once, t.list) {
		tiers = st.tiersOf(once, c.Zone)
	}
	t.counts.ready = st.countByTier(tiers)
	for i, e := range once {
		if tiers[i] < st.tierCount && !st.byCluster[e.Cluster].partlyLastResort {
			t.counts.others++
		}
	}

	t.counts.known = t.counts.ready
	if len(unready) > 0 {
		known := family(mergeSorted(t.list, unready), x.ipv6)
		t.counts.known = st.countByTier(st.tiersOf(known, c.Zone))
	}
	x.countBehind(t, once, c)
}

// countBehind makes Linkerd gateways count with what is behind them, of which the addresses in the
// list have been counted. However many of a member's gateways are left, all of it can be
// reached. Clients of an instance have no gateways.
func (x *pass) countBehind(t *tally, counted []*Endpoint, c Client) {
	st := x.port.steering
	counts := &t.counts
	if len(x.gateways) == 0 || c.Instance != "" {
		return
	}
	counts.ready = slices.Clone(counts.ready)
	counts.known = slices.Clone(counts.known)
	for _, g := range x.gateways {
		n := 0
		some := &Endpoint{Cluster: g.cluster}
		for _, e := range g.Endpoints {
			some = e // all have the same standing, and are in no zone
			if i, ok := find(counted, e.Addr); ok && counted[i].Equal(e) {
				n++
			}
		}
		tier := st.tierOf(some, "")
		if tier == st.unnamed() {
			continue
		}
		ready := 0 // without an address of its own that is served, it can't be reached
		if n > 0 {
			ready = g.Behind.Ready
		}
		counts.ready[tier] += ready - n
		counts.known[tier] += ready - n
		if st.countsUnready() {
			counts.known[tier] += g.Behind.Ready - ready + g.Behind.Unready
		}
		if tier < st.tierCount && !st.byCluster[g.cluster].partlyLastResort {
			counts.others += ready - n
		}
	}
}

// choice is what makes a difference to what clients get of a tally.
type choice struct {
	use
	zone string // empty if node is not
	node string // empty unless endpoints are hinted to it
}

// get returns the endpoints that clients get if so much of each tier is in use: the whole list if that is all.
// Hints apply to what of it clients can get: they are for the local cluster's endpoints, unless those stay on
// their nodes or zones are a term of the preference. Then the address family applies.
func (x *pass) get(t *tally, u use, c Client) []*Endpoint {
	by := choice{use: u, zone: c.Zone}
	onNode := x.byHintedNode(t, u)[c.Node]
	if c.Node != "" && onNode != nil {
		by = choice{use: u, node: c.Node}
	}
	if list, ok := t.got[by]; ok {
		return list
	}

	list := x.omitted.note(TierNotUsed, t.list, t.inUse(u))
	// The slices of the two families change one after the other. So an IPv6 address that clients can't get
	// must not be the only one that is hinted to them.
	list = x.omitted.note(IPv6Off, list, servable(list, x.ipv6))
	switch {
	case x.ignoresHints():
	case by.node != "":
		list = x.omitted.note(HintedToOtherNodes, list, onNode)
	default:
		list = x.omitted.note(OtherZones, list, inZone(list, c.Zone))
	}
	list = x.omitted.note(OtherFamily, list, family(list, x.ipv6))
	t.got[by] = list
	return list
}

// inUse returns the endpoints in use, of all zones and families.
func (t *tally) inUse(u use) []*Endpoint {
	if u == everything {
		return t.list
	}
	if list, ok := t.used[u]; ok {
		return list
	}
	list := make([]*Endpoint, 0, len(t.list))
	for i, e := range t.list {
		if u.has(t.tiers[i], e) {
			list = append(list, e)
		}
	}
	if len(list) == len(t.list) {
		list = t.list
	}
	t.used[u] = list
	return list
}

// byHintedNode returns the endpoints in use by the nodes that node hints choose them for. If node hints do
// not count, byHintedNode returns nil.
func (x *pass) byHintedNode(t *tally, u use) map[string][]*Endpoint {
	if x.ignoresHints() {
		return nil
	}
	byNode, ok := t.hinted[u]
	if !ok {
		byNode = x.port.hinted.of(t.inUse(u), x.ipv6)
		t.hinted[u] = byNode
	}
	return byNode
}

// ignoresHints reports whether clients get endpoints whatever their hints are.
func (x *pass) ignoresHints() bool { return x.port.summary.byNode || x.zoned() }

// zoned reports whether the client's zone is a term of the preference.
func (x *pass) zoned() bool {
	st := x.port.steering
	return st != nil && st.zone != st.unnamed()
}

// onNode keeps the endpoints of other clusters, and of the local one those Pods that run on
// the node.
func onNode(list []*Endpoint, node string) []*Endpoint {
	return filter(list, func(e *Endpoint) bool {
		return e.Cluster != Local || e.Kind == Pod && e.Node == node && node != ""
	})
}

// hintIndex has the endpoints of a list by the nodes that they are hinted to. It is made anew only for
// another list: making it takes longer than a stream needs otherwise to begin.
type hintIndex struct {
	list   []*Endpoint
	byNode map[string][]*Endpoint // nil: node hints do not count
}

// of returns the endpoints of a list by the nodes that they are hinted to: see hintedNodes.
func (x *hintIndex) of(list []*Endpoint, ipv6 bool) map[string][]*Endpoint {
	if len(list) == 0 {
		return nil
	}
	if len(x.list) != len(list) || &x.list[0] != &list[0] {
		x.byNode = hintedNodes(servable(list, ipv6))
		x.list = list
	}
	return x.byNode
}

// hintedNodes returns endpoints by the nodes that they are hinted to. As in kube-proxy, node hints count only
// if every endpoint has one. They also count only if all endpoints are local: one endpoint on the client's
// node would otherwise compete with all those of other clusters. If they do not count, hintedNodes returns nil.
func hintedNodes(list []*Endpoint) map[string][]*Endpoint {
	ignored := func(e *Endpoint) bool { return e.Cluster != Local || len(e.Hints.Nodes()) == 0 }
	if len(list) == 0 || slices.ContainsFunc(list, ignored) {
		return nil
	}
	byNode := make(map[string][]*Endpoint, len(list))
	for _, e := range list {
		for _, node := range e.Hints.Nodes() {
			byNode[node] = append(byNode[node], e)
		}
	}
	return byNode
}

// inZone keeps those local endpoints that are hinted to the zone. As in
// kube-proxy, hints count only if every local endpoint has one and at least one is
// for the zone. Endpoints of other clusters are all kept.
func inZone(list []*Endpoint, zone string) []*Endpoint {
	hinted := false
	for _, e := range list {
		if e.Cluster != Local {
			continue
		}
		if len(e.Hints.Zones()) == 0 {
			return list
		}
		hinted = hinted || slices.Contains(e.Hints.Zones(), zone)
	}
	if !hinted {
		return list
	}
	return filter(list, func(e *Endpoint) bool {
		return e.Cluster != Local || slices.Contains(e.Hints.Zones(), zone)
	})
}

// servable leaves out IPv6 addresses if they are disabled.
func servable(list []*Endpoint, ipv6 bool) []*Endpoint {
	if ipv6 || len(list) == 0 || list[len(list)-1].Addr.Addr().Is4() {
		return list // sorted: IPv4 comes first, so there is no IPv6
	}
	return filter(list, func(e *Endpoint) bool { return e.Addr.Addr().Is4() })
}

// family leaves out IPv6 addresses when they are disabled, and otherwise the
// IPv4 addresses whose Pod or Workload has an IPv6 address in the list.
func family(list []*Endpoint, ipv6 bool) []*Endpoint {
	if len(list) == 0 || list[len(list)-1].Addr.Addr().Is4() {
		return list // sorted: IPv4 comes first, so there is no IPv6
	}
	if !ipv6 {
		return servable(list, false)
	}
	type peer struct {
		cluster ClusterName
		name    string
	}
	hasIPv6 := make(map[peer]struct{})
	for _, e := range slices.Backward(list) {
		if e.Addr.Addr().Is4() {
			break
		}
		if e.Twin != "" {
			hasIPv6[peer{e.Cluster, e.Twin}] = struct{}{}
		}
	}
	return filter(list, func(e *Endpoint) bool {
		if !e.Addr.Addr().Is4() {
			return true
		}
		_, ok := hasIPv6[peer{e.Cluster, e.Twin}]
		return !ok
	})
}

// filter returns the endpoints that satisfy f: list itself if all do.
func filter(list []*Endpoint, f func(*Endpoint) bool) []*Endpoint {
	n := 0
	for _, e := range list {
		if f(e) {
			n++
		}
	}
	if n == len(list) {
		return list
	}
	kept := make([]*Endpoint, 0, n)
	for _, e := range list {
		if f(e) {
			kept = append(kept, e)
		}
	}
	return kept
}
