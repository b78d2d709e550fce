package cluster

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"
	"unique"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"isthmus/federation"
)

// notServed is what is kept of a slice's addresses that are not served.
type notServed struct {
	// hosts are addresses with a hostname that are not ready, or in a slice without
	// ports: profiles can ask for them by hostname. Of linked clusters there
	// are none.
	hosts []address
	// unready has, for each of the subsets, the addresses that are not ready and not
	// terminating. They are only counted.
	unready [][]unready
	// left are the addresses that are in no other list. They are kept for explanations
	// only: a change of them is none to readers.
	left []leftOut
	// marked is the slice's version if it has the mark of OwnConfig.SliceManager.
	marked string
}

// unready is an address that is not ready. It is not connected with its Pod, so that the
// Pod's changes cost nothing: which node it is on comes from the slice.
type unready struct {
	ip       netip.Addr
	hostname string
	target   string // as address.target
	zone     unique.Handle[string]
	node     unique.Handle[string] // the Pod's; of other addresses: none
}

// setNotServed keeps these lists, unless they are empty.
func (d *sliceData) setNotServed(hosts []address, left []leftOut, lists ...[]unready) {
	some := false
	for i := range lists {
		lists[i] = trim(lists[i])
		some = some || len(lists[i]) > 0
	}
	if !some {
		lists = nil
	}
	if some || len(hosts)+len(left) > 0 {
		d.notServed = &notServed{hosts: trim(hosts), unready: lists, left: trim(left)}
	}
}

func (d *sliceData) hosts() []address {
	if d.notServed == nil {
		return nil
	}
	return d.notServed.hosts
}

// unready returns the addresses of a subset that are not ready.
func (d *sliceData) unready(subset int) []unready {
	if d.notServed == nil || len(d.notServed.unready) == 0 {
		return nil
	}
	return d.notServed.unready[subset]
}

var nothing = &notServed{}

// equal compares what readers and profiles are made of, and whoever writes slices goes by.
func (n *notServed) equal(o *notServed) bool {
	n, o = cmp.Or(n, nothing), cmp.Or(o, nothing)
	return n.marked == o.marked && slices.EqualFunc(n.hosts, o.hosts, address.same) &&
		slices.EqualFunc(n.unready, o.unready, func(a, b []unready) bool { return slices.Equal(a, b) })
}

// addUnready adds the addresses of an endpoint that is not ready: to the list, unless it is
// terminating, or else to what is left out.
func addUnready(list []unready, e *discoveryv1.Endpoint, namespace string, left *leftOuts) []unready {
	if e.Conditions.Terminating != nil && *e.Conditions.Terminating {
		left.add(e.TargetRef, federation.Terminating, e.Addresses...)
		return list
	}
	target, ok := endpointTarget(e.TargetRef, namespace)
	if !ok {
		left.add(e.TargetRef, federation.NotReady, e.Addresses...)
		return list
	}
	return newUnready(target, value(e.Hostname), value(e.Zone), value(e.NodeName)).addTo(list, e.TargetRef, left, e.Addresses...)
}

func newUnready(target, hostname, zone, node string) unready {
	if targetKind(target) != federation.Pod {
		node = ""
	}
	return unready{hostname: strings.Clone(hostname), target: target, zone: unique.Make(zone), node: unique.Make(node)}
}

// addTo adds an address that is not ready, with each of the IPs.
func (u unready) addTo(list []unready, ref *corev1.ObjectReference, left *leftOuts, ips ...string) []unready {
	for _, text := range ips {
		if ip, why := readIP(text); why == federation.Served {
			u.ip = ip
			list = append(list, u)
		} else {
			left.add(ref, federation.NotReady, text)
		}
	}
	return list
}

// targetKind returns what an address's target is.
func targetKind(target string) federation.Kind {
	switch {
	case target == "":
		return federation.Address
	case strings.HasPrefix(target, workloadPrefix) && strings.Count(target, "/") > 1:
		return federation.Workload
	}
	return federation.Pod
}

// unready returns what is counted of an address, or an equal one from before; nil: were
// it ready, it could not be sent.
func (j *joiner) unready(u *unready, port uint16, before []*federation.Endpoint) *federation.Endpoint {
	j.made = federation.Endpoint{
		Addr:     netip.AddrPortFrom(u.ip, port),
		Kind:     targetKind(u.target),
		Cluster:  j.state.cluster,
		Zone:     u.zone.Value(),
		Node:     u.node.Value(),
		Hostname: u.hostname,
		Twin:     u.target,
	}
	e, _ := j.take(before)
	return e
}

// sortByAddr sorts a list, and keeps the first endpoint of each address.
func sortByAddr(list []*federation.Endpoint) []*federation.Endpoint {
	slices.SortStableFunc(list, func(a, b *federation.Endpoint) int { return a.Addr.Compare(b.Addr) })
	return slices.CompactFunc(list, func(a, b *federation.Endpoint) bool { return a.Addr == b.Addr })
}

// findAddr returns where an address is in a sorted list.
func findAddr(list []*federation.Endpoint, at netip.AddrPort) (int, bool) {
	return slices.BinarySearchFunc(list, at, func(e *federation.Endpoint, at netip.AddrPort) int { return e.Addr.Compare(at) })
}
