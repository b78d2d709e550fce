package federation

import "slices"

// onNode keeps the endpoints of other clusters, and of the local one those Pods that run on
// the node.
func onNode(list []*Endpoint, node string) []*Endpoint {
	return keep(list, func(e *Endpoint) bool {
		return e.Cluster != Local || e.Kind == Pod && e.Node == node && node != ""
	})
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
		return keep(list, func(e *Endpoint) bool { return e.Addr.Addr().Is4() })
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
