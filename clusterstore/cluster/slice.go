package cluster

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"
	"unique"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"isthmus/clusterstore/follow"
	"isthmus/federation"
)

// sliceData is what is kept of an EndpointSlice or Endpoints object: one entry for each
// address.
type sliceData struct {
	service   federation.ServiceID
	mirror    mirror
	subsets   []subset   // an EndpointSlice has one
	notServed *notServed // nil: all addresses are served
}

// mirror is what Linkerd's service mirror writes about a gateway to another cluster.
type mirror struct{ cluster, identity, remoteName string }

// subset is a list of addresses with the same ports.
type subset struct {
	ports     []slicePort
	addresses []address
}

type slicePort struct {
	name   string
	number uint16
}

// address is one address that is to be served.
type address struct {
	ip       netip.Addr
	target   string               // key of its Pod or ExternalWorkload; empty: a bare address
	place    unique.Handle[place] // most addresses of a zone have the same
	hostname *string              // nil or empty: none, as most
	pod      *pod                 // the target, while the slice is in the state
}

// place is where an address is, as the slice has it.
type place struct {
	zone  string
	hints string // zones, sorted, each followed by hintEnd
}

const hintEnd = "\x00"

// slices follows EndpointSlices.
func (c *Cluster) slices() follow.Kind[*discoveryv1.EndpointSlice, *sliceData] {
	return follow.Kind[*discoveryv1.EndpointSlice, *sliceData]{
		Name: "endpointslices", Needed: true,
		Source: c.cfg.Client.Sources.EndpointSlices,
		Compact: func(o *discoveryv1.EndpointSlice) (*sliceData, bool) {
			d, ok := compactSlice(o, c.state.own != nil)
			return d, d != nil && d.setMarked(o, c.cfg.sliceManager()) || ok
		},
		Into:     lockedStore[*sliceData]{c.state, c.state.sliceStore()},
		Refers:   (*sliceData).refers,
		Shared:   (*sliceData).shared,
		Same:     (*sliceData).same,
		Together: func(a, b *sliceData) int { return compareServices(a.service, b.service) }, // an endpoint may move from slice to slice
	}
}

func compareServices(a, b federation.ServiceID) int {
	return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
}

// What Linkerd's service mirror writes on the endpoints of a gateway.
const (
	mirrorClusterLabel        = "mirror.linkerd.io/cluster-name"
	gatewayIdentityAnnotation = "mirror.linkerd.io/remote-gateway-identity"
	remoteNameAnnotation      = "mirror.linkerd.io/remote-svc-fq-name"
)

// compactSlice keeps the addresses of an EndpointSlice; hosts: also for profiles that ask
// for a hostname. Slices of DNS names (FQDN) or without service have no endpoints and are
// left out; of those without ports only what explanations need is kept. (To API servers, an
// empty list of ports is the same as a missing one.)
func compactSlice(o *discoveryv1.EndpointSlice, hosts bool) (*sliceData, bool) {
	service := sliceService(o)
	if service == "" || o.AddressType == discoveryv1.AddressTypeFQDN {
		return nil, false
	}
	d := &sliceData{service: federation.ServiceID{Namespace: shared(o.Namespace), Name: strings.Clone(service)}, mirror: readMirror(&o.ObjectMeta)}
	var named []address
	if hosts {
		named = hostsOf(o)
	}
	var left leftOuts
	if len(o.Ports) == 0 {
		for i := range o.Endpoints {
			left.add(o.Endpoints[i].TargetRef, federation.NoSuchPort, o.Endpoints[i].Addresses...)
		}
		d.setNotServed(named, left)
		return d, d.notServed != nil
	}
	sub := subset{addresses: make([]address, 0, len(o.Endpoints))}
	for _, p := range o.Ports {
		number, _ := portNumber(p.Port) // a port without number (0) is not served
		sub.ports = append(sub.ports, slicePort{name: shared(value(p.Name)), number: number})
	}
	var waiting []unready
	for i := range o.Endpoints {
		if e := &o.Endpoints[i]; ready(e) {
			sub.addEndpoint(e, o.Namespace, &left)
		} else {
			waiting = addUnready(waiting, e, o.Namespace, &left)
		}
	}
	sub.ports, sub.addresses = slices.Clip(sub.ports), trim(sub.addresses)
	d.subsets = []subset{sub}
	d.setNotServed(named, left, waiting)
	return d, true
}

// addEndpoint adds all addresses of an endpoint. Kubernetes writes one, and gives
// further ones no meaning; in a slice that has several, all are served. left gets what
// can't be; it may be nil.
func (s *subset) addEndpoint(e *discoveryv1.Endpoint, namespace string, left *leftOuts) {
	target, ok := endpointTarget(e.TargetRef, namespace)
	if !ok {
		left.add(e.TargetRef, federation.OtherTarget, e.Addresses...)
		return
	}
	a := address{
		target: target,
		place:  unique.Make(place{zone: value(e.Zone), hints: zoneHints(e.Hints)}),
	}
	if e.Hostname != nil {
		a.hostname = new(strings.Clone(*e.Hostname))
	}
	s.add(a, e.TargetRef, left, e.Addresses...)
}

func (s *subset) add(a address, ref *corev1.ObjectReference, left *leftOuts, ips ...string) {
	for _, text := range ips {
		if ip, why := readIP(text); why == federation.Served {
			a.ip = ip
			s.addresses = append(s.addresses, a)
		} else {
			left.add(ref, why, text)
		}
	}
}

// hostsOf returns the addresses with a hostname that are not ready, or all of those with
// a hostname if the slice has no ports.
func hostsOf(o *discoveryv1.EndpointSlice) []address {
	var kept subset
	for i := range o.Endpoints {
		if e := &o.Endpoints[i]; value(e.Hostname) != "" && (len(o.Ports) == 0 || !ready(e)) {
			kept.addEndpoint(e, o.Namespace, nil)
		}
	}
	return kept.addresses
}

// sliceService returns the name of the slice's Service: from the label or, for slices
// without it that were written by hand, from the first owner that is a Service.
func sliceService(o *discoveryv1.EndpointSlice) string {
	if name := o.Labels[discoveryv1.LabelServiceName]; name != "" {
		return name
	}
	for _, owner := range o.OwnerReferences {
		if owner.Kind == "Service" {
			return owner.Name
		}
	}
	return ""
}

func ready(e *discoveryv1.Endpoint) bool { return e.Conditions.Ready == nil || *e.Conditions.Ready }

// endpointTarget returns the key of an address's ExternalWorkload or Pod, as podTarget
// does.
func endpointTarget(ref *corev1.ObjectReference, namespace string) (string, bool) {
	if target, ok := workloadTarget(ref, namespace); ok {
		return target, true
	}
	return podTarget(ref, namespace)
}

// podTarget returns the key of an address's Pod; empty: it is a bare address. Not ok:
// it has a target of another kind, which can't be served.
func podTarget(ref *corev1.ObjectReference, namespace string) (string, bool) {
	switch {
	case ref == nil:
		return "", true
	case ref.Kind != "Pod" || !nameable(ref.Name) || strings.Contains(ref.Namespace, "/"):
		return "", false
	case ref.Namespace != "":
		namespace = ref.Namespace
	}
	return follow.JoinKey(namespace, ref.Name), true
}

// nameable reports whether an object can have that name. A name with a slash could make
// a key of another kind (workloadPrefix).
func nameable(name string) bool { return name != "" && !strings.Contains(name, "/") }

func zoneHints(h *discoveryv1.EndpointHints) string {
	if h == nil || len(h.ForZones) == 0 {
		return ""
	}
	zones := make([]string, 0, len(h.ForZones))
	for _, z := range h.ForZones {
		zones = append(zones, z.Name+hintEnd)
	}
	slices.Sort(zones)
	return strings.Join(slices.Compact(zones), "")
}

func readMirror(o *metav1.ObjectMeta) mirror {
	return mirror{
		cluster:    strings.Clone(o.Labels[mirrorClusterLabel]),
		identity:   strings.Clone(o.Annotations[gatewayIdentityAnnotation]),
		remoteName: strings.Clone(o.Annotations[remoteNameAnnotation]),
	}
}

// trim frees unused capacity: many endpoints may be not ready.
func trim[T any](list []T) []T {
	if cap(list)-len(list) > 4 {
		return slices.Clone(list)
	}
	return list
}

// all iterates over all addresses that are connected with their Pods.
func (d *sliceData) all(yield func(*address) bool) {
	for _, sub := range d.subsets {
		if !each(sub.addresses, yield) {
			return
		}
	}
	each(d.hosts(), yield)
}

// each reports whether yield has always returned true.
func each(list []address, yield func(*address) bool) bool {
	for i := range list {
		if !yield(&list[i]) {
			return false
		}
	}
	return true
}

// equal compares what comes from the objects, not the pods in the state, and not what only
// explanations need.
func (d *sliceData) equal(o *sliceData) bool {
	return d.service == o.service && d.mirror == o.mirror && d.notServed.equal(o.notServed) &&
		slices.EqualFunc(d.subsets, o.subsets, func(a, b subset) bool {
			return slices.Equal(a.ports, b.ports) && slices.EqualFunc(a.addresses, b.addresses, address.same)
		})
}

func (a address) same(b address) bool {
	if value(a.hostname) != value(b.hostname) {
		return false
	}
	a.pod, b.pod, a.hostname, b.hostname = nil, nil, nil, nil
	return a == b
}
