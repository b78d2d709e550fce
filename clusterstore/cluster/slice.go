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

// slice is the cached form of an EndpointSlice or Endpoints object. The fields that are copied from
// the object are immutable.
type slice struct {
	service federation.ServiceID
	mirror  mirror
	subsets []subset // exactly one for an EndpointSlice
	managed string   // resource version, if LocalConfig.SliceManager manages the slice

	// The following fields are set only while the slice is cached.
	key string
	// stamp is the value of sliceIndex.clock after the last relevant change. A change is relevant
	// if it affects the slice, or a Pod, owner or Server on which the slice depends. Readers
	// process the slice again only if its stamp has changed.
	stamp   uint64
	changed int64 // when the slice itself was first read or last changed, in Unix nanoseconds
}

// mirror contains the data that Linkerd's service mirror writes about the gateway of another
// cluster.
type mirror struct{ cluster, identity, remoteName string }

// subset is a list of addresses with the same ports. Ready addresses come first.
type subset struct {
	ports     []slicePort
	addresses []address
	ready     int
}

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

// alike compares subsets. See slice.alike.
func (s subset) alike(o subset, visibleOnly bool) bool {
	return slices.Equal(s.ports, o.ports) &&
		slices.EqualFunc(s.addresses[:s.ready], o.addresses[:o.ready], address.same) &&
		slices.EqualFunc(s.notReady(visibleOnly), o.notReady(visibleOnly), address.same)
}

// notReady returns the addresses that are not ready. If visibleOnly is true, notReady omits
// addresses that are used only for explanations.
func (s subset) notReady(visibleOnly bool) []address {
	list := s.addresses[s.ready:]
	if !visibleOnly || len(list) == 0 {
		return list
	}
	unseen := func(a address) bool { return a.hostname == nil && a.facts.Value().leftOut }
	return slices.DeleteFunc(slices.Clone(list), unseen)
}

type slicePort struct {
	name   string
	number uint16 // zero if the number is invalid; the port is then not served
}

type portRef struct {
	name   string
	number uint16
	named  bool
}

type address struct {
	ip       netip.Addr                  // if invalid, facts.text contains the original text
	target   string                      // key of the Pod or ExternalWorkload at the address; empty for a bare address
	facts    unique.Handle[addressFacts] // shared, because most addresses in a zone have equal facts
	hostname *string                     // nil for addresses without a hostname
	pod      *pod                        // the target, while the slice is cached and the address is connected
}

// addressFacts contains the location of an address, as specified in the slice. If the content of
// the slice prevents the address from being sent to clients, addressFacts also contains the reason.
type addressFacts struct {
	zone  string
	zones string             // sorted zones in the hints, each followed by hintEnd
	nodes string             // nodes in the hints, encoded like zones; only set in the local cluster
	node  string             // only set for a Pod that is not ready; other addresses use the node of their Pod
	why   federation.Verdict // Served if the address is ready
	// If leftOut is true, the address is not an endpoint of any port, but still appears in
	// explanations and can be found by its hostname.
	leftOut bool
	other   string // target that is neither a Pod nor an ExternalWorkload
	text    string // original text that is not an IP address
}

const hintEnd = "\x00"

func endpointSliceKind(c *Cluster) follow.Kind[*discoveryv1.EndpointSlice, *slice] {
	compact := func(o *discoveryv1.EndpointSlice) (*slice, bool) {
		return compactSlice(o, c.cfg.local != nil, c.cfg.sliceManager())
	}
	k := sliceKind(c, "endpointslices", c.cfg.Client.Sources.EndpointSlices, compact)
	k.Together = func(a, b *slice) int { // an endpoint may move from one slice to another
		return compareServices(a.service, b.service)
	}
	return k
}

// The Endpoints kind of the core API group is the predecessor of the EndpointSlice kind.
type (
	//lint:ignore SA1019 Endpoints are read if --enable-endpoint-slices=false is set
	coreEndpoints = corev1.Endpoints
	//lint:ignore SA1019 EndpointSubset is part of the Endpoints API
	coreEndpointSubset  = corev1.EndpointSubset
	coreEndpointAddress = corev1.EndpointAddress
)

// If Rules.EndpointSlices is false, Endpoints objects are read instead of EndpointSlices.
func endpointsKind(c *Cluster) follow.Kind[*coreEndpoints, *slice] {
	return sliceKind(c, "endpoints", c.cfg.Client.Sources.Endpoints, func(o *coreEndpoints) (*slice, bool) {
		return compactEndpoints(o, c.cfg.local != nil), true
	})
}

func sliceKind[O decode.Object](
	c *Cluster, name string, from decode.Source[O], compact func(O) (*slice, bool),
) follow.Kind[O, *slice] {
	return follow.Kind[O, *slice]{
		Name: name, Needed: true,
		Source:  from,
		Compact: compact,
		Into:    mapStore(c.cache, c.cache.slices.byKey, (*slice).same, c.cache.slices.set),
		Size:    (*slice).size,
		Shared:  (*slice).shared,
	}
}

// compactSlice returns the cached form of an EndpointSlice. Slices that contain DNS names (FQDN) or
// belong to no Service are not cached, because Isthmus cannot serve them. A slice that has neither
// ports nor addresses is cached only if the given manager manages the slice. API servers treat an
// empty list of ports like a missing list.
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

// sliceService returns the name of the Service to which an EndpointSlice belongs. The name is the
// value of the kubernetes.io/service-name label. If a handwritten EndpointSlice lacks the label,
// sliceService returns the name of the first owner that is a Service.
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

// compactEndpoints returns the cached form of an Endpoints object. Addresses in an Endpoints object
// have no zones and never refer to ExternalWorkloads.
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

func expandSlice(l *slice) *discoveryv1.EndpointSlice {
	o := &discoveryv1.EndpointSlice{ObjectMeta: l.mirror.expand()}
	o.Labels[discoveryv1.LabelServiceName] = l.service.Name
	sub := &l.subsets[0]
	for _, p := range sub.ports {
		o.Ports = append(o.Ports, discoveryv1.EndpointPort{Name: &p.name, Port: new(int32(p.number))})
	}
	noPort := len(sub.addresses) > 0 && sub.addresses[0].facts.Value().why == federation.NoSuchPort
	if len(sub.ports) == 0 && !noPort { // all ports of the slice use other protocols
		o.Ports = []discoveryv1.EndpointPort{{Protocol: new(corev1.ProtocolUDP)}}
	}
	for i := range sub.addresses {
		e := sub.addresses[i].expand()
		if n := len(o.Endpoints); i > 0 && sub.addresses[i].sharesEndpoint(&sub.addresses[i-1]) &&
			len(o.Endpoints[n-1].Addresses) < maxEndpointAddresses {
			o.Endpoints[n-1].Addresses = append(o.Endpoints[n-1].Addresses, e.Addresses...)
			continue
		}
		o.Endpoints = append(o.Endpoints, e)
	}
	return o
}

// API servers accept at most maxEndpointAddresses addresses per endpoint.
const maxEndpointAddresses = 100

func expandEndpoints(l *slice) *coreEndpoints {
	o := &coreEndpoints{ObjectMeta: l.mirror.expand()}
	for _, sub := range l.subsets {
		var to coreEndpointSubset
		for _, p := range sub.ports {
			to.Ports = append(to.Ports, corev1.EndpointPort{Name: p.name, Port: int32(p.number)})
		}
		for i := range sub.addresses {
			e := sub.addresses[i].expand()
			a := coreEndpointAddress{
				IP: e.Addresses[0], Hostname: value(e.Hostname), NodeName: e.NodeName, TargetRef: e.TargetRef,
			}
			if ptr.Deref(e.Conditions.Ready, true) {
				to.Addresses = append(to.Addresses, a)
			} else {
				to.NotReadyAddresses = append(to.NotReadyAddresses, a)
			}
		}
		o.Subsets = append(o.Subsets, to)
	}
	return o
}

// If the protocol of a port is TCP, appendSlicePort appends the port to the list. An object may
// contain several ports that have the same name and different protocols.
func appendSlicePort(list []slicePort, name string, protocol corev1.Protocol, port *int32) []slicePort {
	if !tcp(string(protocol)) {
		return list
	}
	number, _ := portNumber(port)
	return append(list, slicePort{name: intern(name), number: number})
}

// These constants are the keys of labels and annotations that Linkerd's service mirror sets on the
// endpoints of mirrored Services.
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

// The expand method is the inverse of the readMirror function. The method returns the label and the
// annotations from which readMirror can restore the mirror.
func (m *mirror) expand() metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Labels: nonEmpty(map[string]string{mirrorClusterLabel: m.cluster}),
		Annotations: nonEmpty(map[string]string{
			gatewayIdentityAnnotation: m.identity, remoteNameAnnotation: m.remoteName,
		}),
	}
}

type endpointReader struct {
	namespace string
	target    func(ref *corev1.ObjectReference, namespace string) (key string, ok bool)
	noPort    bool // the slice has no ports, so its addresses are never served
	local     bool // the slice is in the local cluster, where clients look up hostnames and node hints are used
}

// The result contains the given ports and the addresses of the endpoints. If an endpoint has
// several addresses, all of the addresses are served. Kubernetes itself writes only one address per
// endpoint, and does not define the meaning of additional addresses.
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
		at.other = strings.Trim(beginning(strings.Trim(e.TargetRef.Kind+" "+name, " ")), " ")
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

// hints reads the zone hints and node hints of an endpoint. Node hints in linked clusters are
// ignored, because a client's node may have the same name as a node in a linked cluster.
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

// withIP returns a copy of the address with the given IP and facts. If the IP is unusable, withIP
// removes the hostname and excludes the address from the endpoints of every port.
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

// The expand method converts an address back into an endpoint of an EndpointSlice. From that
// endpoint, the methods readEndpoint and withIP together recover the original address.
func (a *address) expand() discoveryv1.Endpoint {
	at := a.facts.Value()
	e := discoveryv1.Endpoint{Addresses: []string{at.text}, Hostname: a.hostname, TargetRef: expandTarget(a.target)}
	if a.ip.IsValid() {
		e.Addresses[0] = a.ip.String()
	}
	if at.why == federation.NotReady || at.why == federation.Terminating {
		e.Conditions.Ready = new(false)
		e.Conditions.Terminating = new(at.why == federation.Terminating)
	}
	if at.zone != "" {
		e.Zone = &at.zone
	}
	if at.node != "" {
		e.NodeName = &at.node
	}
	if at.zones != "" {
		e.Hints = &discoveryv1.EndpointHints{}
		for zone := range strings.SplitSeq(strings.TrimSuffix(at.zones, hintEnd), hintEnd) {
			e.Hints.ForZones = append(e.Hints.ForZones, discoveryv1.ForZone{Name: zone})
		}
	}
	isOther := at.other != "" || at.why == federation.OtherTarget || at.why == federation.NotReady && at.leftOut
	if a.target == "" && isOther { // neither a Pod nor an ExternalWorkload
		e.TargetRef = &corev1.ObjectReference{Kind: at.other}
	}
	return e
}

// sharesEndpoint reports whether two addresses differ only in their IP, so that one endpoint can
// contain both.
func (a *address) sharesEndpoint(b *address) bool {
	return a.target == b.target && a.facts == b.facts && value(a.hostname) == value(b.hostname)
}

func (a address) same(b address) bool {
	return a.ip == b.ip && a.target == b.target && a.facts == b.facts && value(a.hostname) == value(b.hostname)
}

func (a *address) size() int64 {
	n := textSize(a.target)
	if a.hostname != nil {
		n += allocation + sizeof[string]() + textSize(*a.hostname)
	}
	return n
}

func (p addressFacts) size() int64 {
	return uniqueSize + sizeof[addressFacts]() +
		textSize(p.zone) + textSize(p.zones) + textSize(p.nodes) + textSize(p.node) + textSize(string(p.why)) +
		textSize(p.other) + textSize(p.text)
}

// endpointTarget is like podTarget, but accepts ExternalWorkloads as well.
func endpointTarget(ref *corev1.ObjectReference, namespace string) (string, bool) {
	if target, ok := workloadTarget(ref, namespace); ok {
		return target, true
	}
	return podTarget(ref, namespace)
}

// podTarget returns the key of the Pod to which an address refers. If the address has no object
// reference, podTarget returns an empty key and true. If the object reference does not identify a
// Pod, the address cannot be served, and podTarget returns false.
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

// expandTarget is the inverse of endpointTarget. expandTarget converts the key of a Pod or
// ExternalWorkload into a reference to that object, and an empty key into nil.
func expandTarget(target string) *corev1.ObjectReference {
	kind := targetKind(target)
	if kind == federation.Address {
		return nil
	}
	ref := &corev1.ObjectReference{Kind: "Pod"}
	if kind == federation.Workload {
		ref.Kind = "ExternalWorkload"
		target = strings.TrimPrefix(target, workloadPrefix)
	}
	ref.Namespace, ref.Name = follow.SplitKey(target)
	return ref
}

// nameable reports whether an object can have the given name. A name with a slash could be mistaken
// for the key of another kind of object (see workloadPrefix).
func nameable(name string) bool { return name != "" && !strings.Contains(name, "/") }

func targetKind(target string) federation.Kind {
	switch {
	case target == "":
		return federation.Address
	case strings.HasPrefix(target, workloadPrefix) && strings.Count(target, "/") > 1:
		return federation.Workload
	}
	return federation.Pod
}

// trim frees unused capacity, which may be large if many endpoints are not ready.
func trim[T any](list []T) []T {
	if cap(list)-len(list) > 4 {
		return slices.Clone(list)
	}
	return list
}

// connected iterates over the addresses that need a pointer to their Pod. Every ready address needs
// a pointer to its Pod. In the local cluster, addresses with a hostname also need a pointer to
// their Pod, because proxies can look up these addresses by hostname. If an address has no pointer
// to its Pod, changes to the Pod do not affect the address.
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

// The size of a slice includes memory for the Service and Pods to which the slice refers, even if
// they do not exist.
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

// The slice.shared method yields the handle and the size, in bytes, of each addressFacts value in
// the slice. If consecutive addresses have the same handle, the method yields the handle only once.
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

func (l *slice) same(o *slice) bool { return l.alike(o, false) }

// alike reports whether two cached slices have equal contents. If visibleOnly is true, fields that
// are used only for explanations are ignored.
func (l *slice) alike(o *slice, visibleOnly bool) bool {
	return l.service == o.service && l.mirror == o.mirror && l.managed == o.managed &&
		slices.EqualFunc(l.subsets, o.subsets, func(a, b subset) bool { return a.alike(b, visibleOnly) })
}

type sliceIndex struct {
	cache *cache
	byKey map[string]*slice
	clock uint64 // the newest stamp; stamps are never reused
}

func newSliceIndex(c *cache) sliceIndex { return sliceIndex{cache: c, byKey: make(map[string]*slice)} }

func (x *sliceIndex) set(key string, before, now *slice) {
	x.cache.local.countManaged(before, -1)
	x.cache.local.countManaged(now, 1)
	if now != nil {
		now.key = key
		x.attachPods(now)
	}
	if before != nil {
		x.detachPods(before)
		e := x.cache.services.byID[before.service]
		if i, ok := slices.BinarySearchFunc(e.slices, key, compareKey); ok {
			e.slices = slices.Delete(e.slices, i, i+1)
		}
	}
	if now != nil {
		e := x.cache.services.entry(now.service)
		i, _ := slices.BinarySearchFunc(e.slices, key, compareKey)
		e.slices = slices.Insert(e.slices, i, now)
	}
	if before != nil {
		if now != nil && before.alike(now, true) {
			now.stamp = before.stamp
			now.changed = before.changed
			return
		}
		if x.cache.services.sweep(before.service); now == nil || now.service != before.service {
			x.cache.mark(before.service)
		}
	}
	if now != nil {
		now.changed = x.cache.now.UnixNano()
		x.invalidate(now)
	}
}

// invalidate marks the Service of a slice as changed, and assigns a new stamp to the slice, so that
// readers process the slice again.
func (x *sliceIndex) invalidate(l *slice) {
	x.clock++
	l.stamp = x.clock
	x.cache.mark(l.service)
}

func compareKey(l *slice, key string) int { return cmp.Compare(l.key, key) }

func (x *sliceIndex) attachPods(l *slice) {
	for a := range l.connected(x.cache.local != nil) {
		if a.target == "" {
			continue
		}
		p := x.cache.pods.entry(a.target)
		a.pod = p
		a.target = p.key // share the string
		if !slices.Contains(p.slices, l) {
			p.slices = append(p.slices, l)
		}
	}
}

func (x *sliceIndex) detachPods(l *slice) {
	for a := range l.connected(x.cache.local != nil) {
		if a.pod != nil {
			a.pod.slices = removeFrom(a.pod.slices, l)
			x.cache.pods.sweep(a.pod)
		}
	}
}
