package cluster

import (
	"cmp"
	"iter"
	"net/netip"
	"slices"
	"strings"
	"unique"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"isthmus/clusterstore/decode"
	"isthmus/clusterstore/follow"
	"isthmus/federation"
)

// slice is what is kept of an EndpointSlice or Endpoints object. What is read of the object does not change.
type slice struct {
	service federation.ServiceID
	mirror  mirror
	subsets []subset // an EndpointSlice has one
	managed string   // its version, if it has the mark of LocalConfig.SliceManager

	// Only in the state:
	key string
	// stamp is sliceIndex.clock when the slice, or a Pod, owner or Server behind it, last changed. A reader joins the
	// slice again only if the stamp is another one.
	stamp   uint64
	changed int64 // when the slice itself last did or was first read, in Unix nanoseconds
}

// mirror is what Linkerd's service mirror writes about a gateway to another cluster.
type mirror struct{ cluster, identity, remoteName string }

// subset is a list of addresses with the same ports: first those that are ready, then the others.
type subset struct {
	ports     []slicePort
	addresses []address
	ready     int // how many are
}

// port returns the port's number in this subset.
func (s *subset) port(ref portRef) (uint16, bool) {
	if !ref.named {
		return ref.number, true
	}
	for _, p := range s.ports {
		if p.name == ref.name {
			return p.number, p.number != 0
		}
	}
	return 0, false
}

// alike compares subsets, as slice.alike does.
func (s subset) alike(o subset, shown bool) bool {
	return slices.Equal(s.ports, o.ports) &&
		slices.EqualFunc(s.addresses[:s.ready], o.addresses[:o.ready], address.same) &&
		slices.EqualFunc(s.others(shown), o.others(shown), address.same)
}

// others returns the addresses that are not ready. If shown is true, it leaves out those that only explanations have.
func (s subset) others(shown bool) []address {
	list := s.addresses[s.ready:]
	if !shown || len(list) == 0 {
		return list
	}
	unseen := func(a address) bool { return a.hostname == nil && a.facts.Value().leftOut }
	return slices.DeleteFunc(slices.Clone(list), unseen)
}

// slicePort is a TCP port of a slice.
type slicePort struct {
	name   string
	number uint16 // zero if the slice has no valid number: the port is not served
}

// portRef names a port of a slice: by the port's name, or just by number.
type portRef struct {
	name   string
	number uint16
	named  bool
}

// address is one address of a slice.
type address struct {
	ip       netip.Addr                  // not valid: facts.text has what is written there
	target   string                      // key of its Pod or ExternalWorkload; empty: a bare address
	facts    unique.Handle[addressFacts] // most addresses of a zone have the same
	hostname *string                     // nil: none, as most
	pod      *pod                        // the target, while the slice is in the state and the address is connected
}

// addressFacts is where an address is, as the slice has it, and why no client gets it.
type addressFacts struct {
	zone  string
	zones string             // of its hints, sorted, each followed by hintEnd
	nodes string             // likewise; in the local cluster only
	node  string             // only of a Pod that is not ready; others are where their Pod is
	why   federation.Verdict // Served if it is ready
	// leftOut says that no endpoint is made of it, whatever the port: only explanations have it, and profiles that ask
	// for its hostname.
	leftOut bool
	other   string // what it stands for, if that is neither a Pod nor an ExternalWorkload
	text    string // what is written in place of an IP
}

const hintEnd = "\x00"

// endpointSliceKind returns how the cluster follows EndpointSlices.
func endpointSliceKind(c *Cluster) follow.Kind[*discoveryv1.EndpointSlice, *slice] {
	compact := func(o *discoveryv1.EndpointSlice) (*slice, bool) {
		return compactSlice(o, c.cfg.local != nil, c.cfg.sliceManager())
	}
	k := sliceKind(c, "endpointslices", c.cfg.Client.Sources.EndpointSlices, compact)
	k.Together = func(a, b *slice) int { // an endpoint may move from slice to slice
		return compareServices(a.service, b.service)
	}
	return k
}

// Core Endpoints, the predecessor of EndpointSlices.
type (
	//lint:ignore SA1019 it is read with --enable-endpoint-slices=false
	coreEndpoints = corev1.Endpoints
	//lint:ignore SA1019 a part of coreEndpoints
	coreEndpointSubset  = corev1.EndpointSubset
	coreEndpointAddress = corev1.EndpointAddress
)

// endpointsKind returns how the cluster follows Endpoints, in place of EndpointSlices.
func endpointsKind(c *Cluster) follow.Kind[*coreEndpoints, *slice] {
	return sliceKind(c, "endpoints", c.cfg.Client.Sources.Endpoints, func(o *coreEndpoints) (*slice, bool) {
		return compactEndpoints(o, c.cfg.local != nil), true
	})
}

// sliceKind returns how the cluster follows EndpointSlices or Endpoints.
func sliceKind[O decode.Object](
	c *Cluster, name string, from decode.Source[O], compact func(O) (*slice, bool),
) follow.Kind[O, *slice] {
	return follow.Kind[O, *slice]{
		Name: name, Needed: true,
		Source:  from,
		Compact: compact,
		Into:    mapStore(c.state, c.state.slices.byKey, (*slice).same, c.state.slices.set),
		Size:    (*slice).size,
		Shared:  (*slice).shared,
	}
}

// compactSlice keeps the addresses of an EndpointSlice. Slices of DNS names (FQDN) or without service have no
// endpoints and are left out, and so are those with neither ports nor addresses, unless the manager manages them. (To
// API servers, an empty list of ports is the same as a missing one.)
func compactSlice(o *discoveryv1.EndpointSlice, local bool, manager string) (*slice, bool) {
	service := sliceService(o)
	if service == "" || o.AddressType == discoveryv1.AddressTypeFQDN {
		return nil, false
	}
	l := &slice{
		service: federation.ServiceID{Namespace: intern(o.Namespace), Name: strings.Clone(service)},
		mirror:  readMirror(&o.ObjectMeta),
	}
	if manager != "" && o.Labels[discoveryv1.LabelManagedBy] == manager {
		l.managed = strings.Clone(o.ResourceVersion)
	}
	ports := make([]slicePort, 0, len(o.Ports))
	for _, p := range o.Ports {
		ports = appendSlicePort(ports, value(p.Name), ptr.Deref(p.Protocol, ""), p.Port)
	}
	ports = trim(ports)
	r := endpointReader{namespace: o.Namespace, target: endpointTarget, noPort: len(o.Ports) == 0, local: local}
	l.subsets = []subset{r.read(ports, o.Endpoints)}
	return l, len(o.Ports) > 0 || len(l.subsets[0].addresses) > 0 || l.managed != ""
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

// compactEndpoints keeps the addresses of an Endpoints object. They have no zones, and stand for no ExternalWorkloads.
func compactEndpoints(o *coreEndpoints, local bool) *slice {
	l := &slice{
		service: federation.ServiceID{Namespace: intern(o.Namespace), Name: strings.Clone(o.Name)},
		mirror:  readMirror(&o.ObjectMeta),
		subsets: make([]subset, 0, len(o.Subsets)),
	}
	r := endpointReader{namespace: o.Namespace, target: podTarget, local: local}
	for i := range o.Subsets {
		from := &o.Subsets[i]
		ports := make([]slicePort, 0, len(from.Ports))
		for _, p := range from.Ports {
			ports = appendSlicePort(ports, p.Name, p.Protocol, &p.Port)
		}
		list := make([]discoveryv1.Endpoint, 0, len(from.Addresses)+len(from.NotReadyAddresses))
		for n, addresses := range [...][]coreEndpointAddress{from.Addresses, from.NotReadyAddresses} {
			for k := range addresses {
				a := &addresses[k]
				list = append(list, discoveryv1.Endpoint{
					Addresses: []string{a.IP}, Hostname: &a.Hostname, NodeName: a.NodeName, TargetRef: a.TargetRef,
					Conditions: discoveryv1.EndpointConditions{Ready: new(n == 0)},
				})
			}
		}
		l.subsets = append(l.subsets, r.read(trim(ports), list))
	}
	return l
}

// appendSlicePort appends a port to a list, unless it is of another protocol than TCP. An EndpointSlice
// or Endpoints object may have another port with the same name and another protocol.
func appendSlicePort(list []slicePort, name string, protocol corev1.Protocol, port *int32) []slicePort {
	if !tcp(string(protocol)) {
		return list
	}
	number, _ := portNumber(port)
	return append(list, slicePort{name: intern(name), number: number})
}

// What Linkerd's service mirror writes on the endpoints of a gateway.
const (
	mirrorClusterLabel        = "mirror.linkerd.io/cluster-name"
	gatewayIdentityAnnotation = "mirror.linkerd.io/remote-gateway-identity"
	remoteNameAnnotation      = "mirror.linkerd.io/remote-svc-fq-name"
)

func readMirror(o *metav1.ObjectMeta) mirror {
	return mirror{
		cluster:    strings.Clone(o.Labels[mirrorClusterLabel]),
		identity:   strings.Clone(o.Annotations[gatewayIdentityAnnotation]),
		remoteName: strings.Clone(o.Annotations[remoteNameAnnotation]),
	}
}

// endpointReader reads the endpoints of an object.
type endpointReader struct {
	namespace string
	target    func(ref *corev1.ObjectReference, namespace string) (key string, ok bool)
	noPort    bool // the slice has none: its addresses are in no share
	local     bool // profiles may ask for hostnames of whatever has one, and node hints count
}

// read reads a subset. Kubernetes writes one address for an endpoint, and gives further ones no
// meaning; in a slice that has several, all are served.
func (r *endpointReader) read(ports []slicePort, endpoints []discoveryv1.Endpoint) subset {
	ready := make([]address, 0, len(endpoints))
	var others []address
	for i := range endpoints {
		a, at := r.readEndpoint(&endpoints[i])
		for _, text := range endpoints[i].Addresses {
			if a := a.withIP(text, at); a.facts.Value().why == federation.Served {
				ready = append(ready, a)
			} else {
				others = append(others, a)
			}
		}
	}
	return subset{ports: ports, ready: len(ready), addresses: trim(append(ready, others...))}
}

// readEndpoint reads what the addresses of an endpoint have in common.
func (r *endpointReader) readEndpoint(e *discoveryv1.Endpoint) (a address, at addressFacts) {
	target, known := r.target(e.TargetRef, r.namespace)
	a.target = target
	switch ready := e.Conditions.Ready == nil || *e.Conditions.Ready; {
	case r.noPort:
		at.why = federation.NoSuchPort
		at.leftOut = true
	case !ready && e.Conditions.Terminating != nil && *e.Conditions.Terminating:
		at.why = federation.Terminating
		at.leftOut = true
	case !ready:
		at.why = federation.NotReady
		at.leftOut = !known
	case !known:
		at.why = federation.OtherTarget
		at.leftOut = true
	}
	switch {
	case !known:
		name := strings.Trim(e.TargetRef.Namespace+"/"+e.TargetRef.Name, "/")
		at.other = beginning(strings.Trim(e.TargetRef.Kind+" "+name, " "))
	case at.leftOut:
	case at.why == federation.Served:
		at.zone = value(e.Zone)
		at.zones, at.nodes = r.hints(e.Hints)
	default:
		if at.zone = value(e.Zone); targetKind(target) == federation.Pod {
			at.node = value(e.NodeName)
		}
	}
	if name := value(e.Hostname); name != "" && known && (r.local || !at.leftOut) {
		a.hostname = new(strings.Clone(name))
	}
	return a, at
}

// hints returns the zones and nodes that an endpoint is hinted to. The nodes of linked clusters are not those
// of clients, even if their names are the same.
func (r *endpointReader) hints(h *discoveryv1.EndpointHints) (zones, nodes string) {
	if h == nil {
		return "", ""
	}
	zones = joinHints(h.ForZones, func(z discoveryv1.ForZone) string { return z.Name })
	if r.local {
		nodes = joinHints(h.ForNodes, func(n discoveryv1.ForNode) string { return n.Name })
	}
	return zones, nodes
}

// joinHints returns the names, sorted, each followed by hintEnd.
func joinHints[T any](list []T, name func(T) string) string {
	if len(list) == 0 {
		return ""
	}
	names := make([]string, 0, len(list))
	for _, h := range list {
		names = append(names, name(h)+hintEnd)
	}
	slices.Sort(names)
	return strings.Join(slices.Compact(names), "")
}

// withIP returns one of the addresses of an endpoint, with what the slice says of it. One that can't be used has no
// hostname, and is left out.
func (a address) withIP(text string, at addressFacts) address {
	ip, why := readIP(text)
	if a.ip = ip; why != federation.Served {
		a.hostname = nil
		at = addressFacts{why: cmp.Or(at.why, why), leftOut: true, other: at.other}
		if !ip.IsValid() {
			at.text = beginning(text)
		}
	}
	a.facts = unique.Make(at)
	return a
}

func (a address) same(b address) bool {
	return a.ip == b.ip && a.target == b.target && a.facts == b.facts && value(a.hostname) == value(b.hostname)
}

// size is what an address takes besides its place in the list.
func (a *address) size() int64 {
	n := textSize(a.target)
	if a.hostname != nil {
		n += allocation + sizeof[string]() + textSize(*a.hostname)
	}
	return n
}

// size is what a place takes that addresses share.
func (p addressFacts) size() int64 {
	return uniqueSize + sizeof[addressFacts]() +
		textSize(p.zone) + textSize(p.zones) + textSize(p.nodes) + textSize(p.node) + textSize(string(p.why)) +
		textSize(p.other) + textSize(p.text)
}

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

// trim frees unused capacity: many endpoints may be not ready.
func trim[T any](list []T) []T {
	if cap(list)-len(list) > 4 {
		return slices.Clone(list)
	}
	return list
}

// connected iterates over the addresses that are connected with their Pods: those that are ready, and in the local
// cluster, where profiles ask for them, those with a hostname. Changes of the Pods of others cost nothing.
func (l *slice) connected(local bool) iter.Seq[*address] {
	return func(yield func(*address) bool) {
		for _, sub := range l.subsets {
			for i := range sub.addresses {
				if a := &sub.addresses[i]; (i < sub.ready || local && a.hostname != nil) && !yield(a) {
					return
				}
			}
		}
	}
}

// size is what the state takes for a slice of a linked cluster. Its Service and the Pods that it names count whether
// they exist or not.
func (l *slice) size(string) int64 {
	n := sizeof[slice]() + indexEntry[*slice]() + serviceEntrySize() + textSize(l.service.Namespace) +
		textSize(l.service.Name) + textSize(l.mirror.cluster) + textSize(l.mirror.identity) +
		textSize(l.mirror.remoteName) + textSize(l.managed) + listSize[subset](cap(l.subsets))
	for _, sub := range l.subsets {
		n += listSize[slicePort](cap(sub.ports)) + listSize[address](cap(sub.addresses))
		for _, p := range sub.ports {
			n += textSize(p.name)
		}
		for i := range sub.addresses {
			n += sub.addresses[i].size()
		}
	}
	for a := range l.connected(true) {
		if a.target != "" {
			n += sizeof[pod]() + indexEntry[*pod]() + listedSize
		}
	}
	return n
}

// shared yields the places of the addresses, each run of equal ones once.
func (l *slice) shared(yield func(any, int64) bool) {
	var last unique.Handle[addressFacts]
	for _, sub := range l.subsets {
		for i := range sub.addresses {
			if at := sub.addresses[i].facts; at != last {
				if last = at; !yield(at, at.Value().size()) {
					return
				}
			}
		}
	}
}

// same compares all that comes from the object.
func (l *slice) same(o *slice) bool { return l.alike(o, false) }

// alike compares slices. If shown is true, it ignores what only explanations have, and compares what readers and
// profiles are made of and whoever writes slices goes by.
func (l *slice) alike(o *slice, shown bool) bool {
	return l.service == o.service && l.mirror == o.mirror && l.managed == o.managed &&
		slices.EqualFunc(l.subsets, o.subsets, func(a, b subset) bool { return a.alike(b, shown) })
}

// sliceIndex has the EndpointSlices or Endpoints objects of a cluster. state.mu guards it.
type sliceIndex struct {
	state *state // fixed
	byKey map[string]*slice
	clock uint64 // the newest stamp; never used twice
}

func newSliceIndex(s *state) sliceIndex { return sliceIndex{state: s, byKey: make(map[string]*slice)} }

// set follows a change of the slice with that key; nil: there was, or is, none.
func (x *sliceIndex) set(key string, before, now *slice) {
	x.state.local.countManaged(before, -1)
	x.state.local.countManaged(now, 1)
	if now != nil {
		now.key = key
		x.attachPods(now)
	}
	if before != nil {
		x.detachPods(before)
		e := x.state.services.byID[before.service]
		if i, ok := slices.BinarySearchFunc(e.slices, key, compareKey); ok {
			e.slices = slices.Delete(e.slices, i, i+1)
		}
	}
	if now != nil {
		e := x.state.services.entry(now.service)
		i, _ := slices.BinarySearchFunc(e.slices, key, compareKey)
		e.slices = slices.Insert(e.slices, i, now)
	}
	if before != nil {
		if now != nil && before.alike(now, true) {
			now.stamp = before.stamp
			now.changed = before.changed
			return
		}
		if x.state.services.sweep(before.service); now == nil || now.service != before.service {
			x.state.mark(before.service)
		}
	}
	if now != nil {
		now.changed = x.state.now.UnixNano()
		x.touch(now)
	}
}

// touch gives a slice a new stamp, so that readers join it again, and marks its
// service.
func (x *sliceIndex) touch(l *slice) {
	x.clock++
	l.stamp = x.clock
	x.state.mark(l.service)
}

func compareKey(l *slice, key string) int { return cmp.Compare(l.key, key) }

// attachPods connects a slice's addresses with their Pods and ExternalWorkloads, or
// placeholders.
func (x *sliceIndex) attachPods(l *slice) {
	for a := range l.connected(x.state.local != nil) {
		if a.target == "" {
			continue
		}
		p := x.state.pods.entry(a.target)
		a.pod = p
		a.target = p.key // share the memory
		if !slices.Contains(p.slices, l) {
			p.slices = append(p.slices, l)
		}
	}
}

func (x *sliceIndex) detachPods(l *slice) {
	for a := range l.connected(x.state.local != nil) {
		if a.pod != nil {
			a.pod.slices = without(a.pod.slices, l)
			x.state.pods.sweep(a.pod)
		}
	}
}
