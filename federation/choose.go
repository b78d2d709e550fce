package federation

import "slices"

// onNode keeps the endpoints of other clusters, and of the local one those Pods that run on
// the node.
func onNode(list []*Endpoint, node string) []*Endpoint {
	return keep(list, func(e *Endpoint) bool {
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
		byNode := hintedNodes(servable(list, ipv6))
		x.list, x.byNode = list, byNode
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

// servable leaves out IPv6 addresses if they are disabled.
func servable(list []*Endpoint, ipv6 bool) []*Endpoint {
	if ipv6 || len(list) == 0 || list[len(list)-1].Addr.Addr().Is4() {
		return list // sorted: IPv4 comes first, so there is no IPv6
	}
	return keep(list, func(e *Endpoint) bool { return e.Addr.Addr().Is4() })
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
	return keep(list, func(e *Endpoint) bool { return e.Cluster != Local || slices.Contains(e.Hints.Zones(), zone) })
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
	return keep(list, func(e *Endpoint) bool {
		if !e.Addr.Addr().Is4() {
			return true
		}
		_, ok := hasIPv6[peer{e.Cluster, e.Twin}]
		return !ok
	})
}

// keep returns the endpoints that satisfy f: list itself if all do.
func keep(list []*Endpoint, f func(*Endpoint) bool) []*Endpoint {
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
