package federation

import "slices"

// A pass chooses the endpoints for some of a port's clients. Results that several clients share are
// computed only once.
//
// For each client, pass.tally finds the available endpoints. Next, port.decideTiers determines how
// much of each tier is in use. Finally, pass.get chooses the client's endpoints.
type pass struct {
	port       *port
	ipv6       bool
	byHostname map[string]hosted // endpoints of the requested instances
	// nodes contains the names of the nodes that have endpoints. The map is nil unless traffic must
	// stay on the client's node and endpoints are chosen for more than one client.
	nodes    map[string]bool
	tallies  map[tallyKey]*tally
	gateways []gatewaySlice // gateway slices that the port's members offer
	omitted  omitted        // for the explanation of one client; nil if nothing is explained
}

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

type hosted struct{ ready, unready []*Endpoint }

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

type gatewaySlice struct {
	*Slice
	cluster ClusterName
}

// tally holds the endpoints that are available to a group of similar clients, and the number of
// endpoints in each tier. Clients share a tally if they run on the same node, are in the same zone,
// and request the same instance.
type tally struct {
	zone   string // the clients' zone, if zone is a term of the preference
	counts tierCounts
	list   []*Endpoint                    // endpoints that match the requested instance and the traffic policy
	tiers  []int                          // the tier of each endpoint in list; nil unless the port is steered
	used   map[use][]*Endpoint            // the part of list that is in use
	hinted map[use]map[string][]*Endpoint // the part in use, grouped by the nodes in its hints
	got    map[choice][]*Endpoint         // the endpoints that clients get
}

type tallyKey struct{ instance, node, zone string }

// The tally method returns the tally for a client. All clients on nodes without endpoints share one
// tally, so that clients cannot create more tallies by sending names of nodes that do not exist.
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

// The count method computes a new tally. Zone hints do not affect the counts, because tiers are
// chosen before hints are used.
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

// countTiers counts the ready and unready endpoints in each tier. A Pod with both an IPv4 and an
// IPv6 address counts once.
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

// countBehind replaces the counts of Linkerd gateways with the counts of the endpoints behind them.
// All endpoints behind a slice's gateways are reachable as long as at least one of the gateways is
// available. Clients that request a single instance cannot use gateways, because a gateway cannot
// address an instance.
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
			some = e // all have the same standing and no zone
			if i, ok := find(counted, e.Addr); ok && counted[i].Equal(e) {
				n++
			}
		}
		tier := st.tierOf(some, "")
		if tier == st.unnamed() {
			continue
		}
		ready := 0 // without a served gateway, the endpoints behind the gateways are unreachable
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

// choice holds the properties that determine which of a tally's endpoints a client receives.
type choice struct {
	use
	zone string // empty if node is set
	node string // empty unless endpoints are hinted to the node
}

// The get method returns the endpoints that the client receives. The argument u says how much of
// each tier is in use. Hints affect only local endpoints that are in use. Hints are ignored if
// traffic must stay on the client's node, or if the preference contains the term ClientZone.
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
	// The EndpointSlices for IPv4 and IPv6 are not updated at the same time. If IPv6 is disabled,
	// IPv6 addresses must be removed before hints are applied. Otherwise, the hints could select
	// only an IPv6 address, which clients must not receive.
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

// byHintedNode maps each node to the endpoints whose hints name the node. Endpoints that are not in
// use are omitted. If node hints are ignored, the result is nil.
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

// ignoresHints reports whether clients receive the same endpoints with and without topology hints.
func (x *pass) ignoresHints() bool { return x.port.summary.byNode || x.zoned() }

func (x *pass) zoned() bool {
	st := x.port.steering
	return st != nil && st.zone != st.unnamed()
}

// onNode removes the endpoints of the local cluster, except those of Pods on the given node. The
// endpoints of linked clusters are kept.
func onNode(list []*Endpoint, node string) []*Endpoint {
	return filter(list, func(e *Endpoint) bool {
		return e.Cluster != Local || e.Kind == Pod && e.Node == node && node != ""
	})
}

// hintIndex caches the result of hintedNodes for one list, because computing this result takes most
// of the time needed to start a stream.
type hintIndex struct {
	list   []*Endpoint
	byNode map[string][]*Endpoint // nil if node hints are ignored
}

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

// hintedNodes groups endpoints by the nodes in their hints. If node hints are ignored, the result
// is nil.
//
// As in kube-proxy, node hints are ignored unless every endpoint has one. If any endpoint is
// remote, node hints are ignored. If node hints were applied to a list with remote endpoints, a
// client would receive all remote endpoints, but only the local endpoints that have a hint for its
// node.
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

// inZone removes the local endpoints that have no hint for the given zone. As in kube-proxy, zone
// hints are ignored unless every local endpoint has one. If no endpoint has a hint for the given
// zone, zone hints are ignored. The result always includes the endpoints of linked clusters.
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

func servable(list []*Endpoint, ipv6 bool) []*Endpoint {
	if ipv6 || len(list) == 0 || list[len(list)-1].Addr.Addr().Is4() {
		return list // IPv4 sorts first, so there is no IPv6 address
	}
	return filter(list, func(e *Endpoint) bool { return e.Addr.Addr().Is4() })
}

// The family function keeps one address family for each Pod or Workload. If IPv6 is enabled, IPv6
// addresses are preferred. If IPv6 is disabled, only IPv4 addresses are kept.
func family(list []*Endpoint, ipv6 bool) []*Endpoint {
	if len(list) == 0 || list[len(list)-1].Addr.Addr().Is4() {
		return list // IPv4 sorts first, so there is no IPv6 address
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

// filter returns the endpoints for which f returns true. If f returns true for all endpoints, the
// result is the given list itself.
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
