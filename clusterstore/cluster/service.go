package cluster

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"isthmus/clusterstore/follow"
	"isthmus/federation"
)

// Service is the immutable cached form of a Kubernetes Service.
type Service struct {
	ExternalName bool          // the type is ExternalName
	NodeLocal    bool          // internalTrafficPolicy is Local
	Ports        []ServicePort // TCP ports only; the exported and selecting fields cover all protocols
	leads        *Gateway      // set in a linked cluster if the Service is a Linkerd gateway
	exported     any           // result of ExportHooks.Service

	// The following fields are set only in the local cluster.
	ClusterIPs  []netip.Addr
	External    []netip.Addr      // spec.externalIPs and the IPs of the load balancer
	OpaquePorts Ports             // ports for which proxies do not detect the protocol
	Labels      map[string]string // only keys with a prefix in cachedPrefixes
	Annotations map[string]string // only keys with a prefix in cachedPrefixes

	// This string encodes the fields of the Service that are required to create EndpointSlices for
	// ExternalWorkloads. The pointer is nil if encodeSelecting returned nil, or if
	// LocalConfig.SliceManager is empty.
	selecting *string
}

func (s *Service) gateway() *Gateway {
	if s == nil {
		return nil
	}
	return s.leads
}

func (s *Service) export() any {
	if s == nil {
		return nil
	}
	return s.exported
}

// ServicePort is one TCP port of a Service.
type ServicePort struct {
	Name   string // may be empty
	Number uint16
}

func serviceKind(c *Cluster) follow.Kind[*corev1.Service, *Service] {
	compact := func(o *corev1.Service) (*Service, bool) {
		s := compactService(o, c.cfg.Rules, c.cfg.local != nil)
		if c.cfg.local == nil { // the local cluster needs no gateway
			s.leads = readGateway(o, c.cfg.Rules)
		}
		if c.cfg.Exports != nil {
			s.exported = c.cfg.Exports.Service(o)
		}
		if c.cfg.sliceManager() != "" {
			s.selecting = encodeSelecting(o)
		}
		return s, true
	}
	k := follow.Kind[*corev1.Service, *Service]{
		Name:    "services",
		Needed:  true,
		Source:  c.cfg.Client.Sources.Services,
		Compact: compact,
		Size:    func(s *Service, _ string) int64 { return s.size() + c.cache.exports.size(s.exported) },
		Into:    c.cache.services.store(),
	}
	k.Applied = func() {
		c.updateLink(c.cache.gateways.takeChanged)
		c.cache.exports.applied(ofServices, c.resources[0].WantsList)
	}
	if local := c.cfg.local; local != nil {
		k.Changed = func(key string, _ *Service, _ bool) { local.ServiceChanged(serviceID(key)) }
	}
	return k
}

// The size of a Service does not include the result of ExportHooks.Service.
func (s *Service) size() int64 {
	n := serviceEntrySize() + allocation + sizeof[Service]() +
		listSize[ServicePort](cap(s.Ports)) + s.leads.size()
	for _, p := range s.Ports {
		n += textSize(p.Name)
	}
	return n
}

// serviceEntrySize returns the number of bytes that a serviceEntry uses, excluding the memory of
// the Service in the entry. The size includes one more allocation than necessary, as a safety
// margin. Even without this margin, the estimate for a large number of small Services would be
// within 1% of the actual heap size.
func serviceEntrySize() int64 {
	place := mapEntry(sizeof[federation.ServiceID]() + sizeof[*serviceEntry]())
	return 3*allocation + sizeof[serviceEntry]() + place + listedSize
}

// cachedPrefixes lists the prefixes of the labels and annotations that Isthmus reads from Services.
var cachedPrefixes = [...]string{
	"multicluster.linkerd.io/",
	"mirror.linkerd.io/",
	"isthmus.io/",
	"multicluster.kubernetes.io/service-name",
}

func compactService(o *corev1.Service, r Rules, full bool) *Service {
	s := &Service{
		ExternalName: o.Spec.Type == corev1.ServiceTypeExternalName,
		NodeLocal:    ptr.Deref(o.Spec.InternalTrafficPolicy, "") == corev1.ServiceInternalTrafficPolicyLocal,
	}
	for _, p := range o.Spec.Ports {
		if number, ok := portNumber(&p.Port); ok && tcp(string(p.Protocol)) {
			s.Ports = append(s.Ports, ServicePort{Name: intern(p.Name), Number: number})
		}
	}
	s.Ports = slices.Clip(s.Ports)
	if full {
		s.ClusterIPs = clusterIPs(o)
		s.External = externalIPs(o)
		s.OpaquePorts = r.DefaultOpaquePorts
		if list, ok := o.Annotations[opaqueAnnotation]; ok {
			s.OpaquePorts, _ = ParsePorts(list, s.numbers()) // invalid items are ignored, as for Pods
		}
		s.Labels = cachedMetadata(o.Labels)
		s.Annotations = cachedMetadata(o.Annotations)
	}
	return s
}

// The expanded Service does not contain the result of ExportHooks.Service.
func expandService(s *Service) *corev1.Service {
	o := &corev1.Service{}
	if s.ExternalName {
		o.Spec.Type = corev1.ServiceTypeExternalName
	}
	if s.NodeLocal {
		o.Spec.InternalTrafficPolicy = new(corev1.ServiceInternalTrafficPolicyLocal)
	}
	for _, p := range s.Ports {
		o.Spec.Ports = append(o.Spec.Ports, corev1.ServicePort{Name: p.Name, Port: int32(p.Number)})
	}
	if s.leads != nil {
		s.leads.expand(o)
	}
	return o
}

// HasPort reports whether the Service has a TCP port with the given number.
func (s *Service) HasPort(port uint16) bool {
	return slices.ContainsFunc(s.Ports, func(p ServicePort) bool { return p.Number == port })
}

// If several ports have the same name, the result contains only the first of them.
func (s *Service) numbers() map[string]uint16 {
	numbers := make(map[string]uint16)
	for _, p := range s.Ports {
		if _, ok := numbers[p.Name]; !ok && p.Name != "" {
			numbers[p.Name] = p.Number
		}
	}
	return numbers
}

// Headless Services and Services of type ExternalName have no cluster IPs.
func clusterIPs(o *corev1.Service) (ips []netip.Addr) {
	if o.Spec.Type == corev1.ServiceTypeExternalName {
		return nil
	}
	list := o.Spec.ClusterIPs
	if len(list) == 0 {
		list = []string{o.Spec.ClusterIP}
	}
	for _, s := range list {
		ips = addIP(ips, s)
	}
	return ips
}

// The number of external IPs may exceed maxIPs.
func externalIPs(o *corev1.Service) (ips []netip.Addr) {
	add := func(text string) {
		if ip, ok := parseIP(text); ok {
			ips = append(ips, ip)
		}
	}
	for _, text := range o.Spec.ExternalIPs {
		add(text)
	}
	for i := range o.Status.LoadBalancer.Ingress {
		add(o.Status.LoadBalancer.Ingress[i].IP)
	}
	slices.SortFunc(ips, netip.Addr.Compare)
	return slices.Clip(slices.Compact(ips))
}

func cachedMetadata(from map[string]string) map[string]string {
	var kept map[string]string
	for k, v := range from {
		for _, domain := range cachedPrefixes {
			if strings.HasPrefix(k, domain) {
				if kept == nil {
					kept = make(map[string]string)
				}
				kept[strings.Clone(k)] = strings.Clone(v)
			}
		}
	}
	return kept
}

func (s *Service) equal(o *Service) bool { return s.servedAs(o) && sameExport(s.export(), o.export()) }

// servedAs reports whether two Services are equal, except for the results of ExportHooks.Service.
func (s *Service) servedAs(o *Service) bool {
	return s.ExternalName == o.ExternalName && s.NodeLocal == o.NodeLocal &&
		s.OpaquePorts == o.OpaquePorts && s.gateway().equal(o.gateway()) && ptr.Equal(s.selecting, o.selecting) &&
		slices.Equal(s.Ports, o.Ports) && slices.Equal(s.ClusterIPs, o.ClusterIPs) &&
		slices.Equal(s.External, o.External) &&
		maps.Equal(s.Labels, o.Labels) && maps.Equal(s.Annotations, o.Annotations)
}

// portRef returns a reference to the slice port that corresponds to a port of the Service. Slices
// use the port names of their Service, so targetPort is irrelevant. If the Service does not declare
// the TCP port, the reference contains the port number.
func (s *Service) portRef(port uint16) portRef {
	for _, p := range s.Ports {
		if p.Number == port {
			return portRef{name: p.Name, named: true}
		}
	}
	return portRef{number: port}
}

// encodeSelecting encodes the fields of a Service that are required to create EndpointSlices for
// ExternalWorkloads. If the Service has no selector or has the type ExternalName, encodeSelecting
// returns nil. The encoded form uses about 400 bytes and contains no pointers for the garbage
// collector to follow.
func encodeSelecting(o *corev1.Service) *string {
	if o.Spec.Type == corev1.ServiceTypeExternalName || len(o.Spec.Selector) == 0 {
		return nil
	}
	kept := corev1.Service{
		ObjectMeta: metav1.ObjectMeta{UID: o.UID, Labels: o.Labels, DeletionTimestamp: o.DeletionTimestamp},
		Spec: corev1.ServiceSpec{
			ClusterIP:  o.Spec.ClusterIP,
			Selector:   o.Spec.Selector,
			IPFamilies: o.Spec.IPFamilies,
		},
	}
	for _, p := range o.Spec.Ports {
		kept.Spec.Ports = append(kept.Spec.Ports, corev1.ServicePort{
			Name:       p.Name,
			Protocol:   p.Protocol,
			Port:       p.Port,
			TargetPort: p.TargetPort,
		})
	}
	data, _ := kept.Marshal() // Marshal never fails for this type
	return new(string(data))
}

func (s *Service) decodeSelecting(id federation.ServiceID) *corev1.Service {
	o := &corev1.Service{}
	if s.selecting != nil {
		_ = o.Unmarshal([]byte(*s.selecting)) // never fails, because encodeSelecting wrote the data
	}
	o.Namespace = id.Namespace
	o.Name = id.Name
	return o
}

type serviceIndex struct {
	cache *cache
	byID  map[federation.ServiceID]*serviceEntry
}

func newServiceIndex(c *cache) serviceIndex {
	return serviceIndex{cache: c, byID: make(map[federation.ServiceID]*serviceEntry)}
}

// serviceEntry contains a Service together with its slices. Slices may exist without a Service, and
// a Service may exist without slices.
type serviceEntry struct {
	spec   *Service // nil if the Service does not exist
	slices []*slice // sorted by key
}

func (x *serviceIndex) stateOf(id federation.ServiceID) federation.ServiceState {
	x.cache.mu.RLock()
	defer x.cache.mu.RUnlock()
	return x.byID[id].state()
}

func (e *serviceEntry) state() federation.ServiceState {
	switch {
	case e == nil || e.spec == nil:
		return federation.Missing
	case e.spec.ExternalName:
		return federation.ExternalName
	}
	return federation.Present
}

func (x *serviceIndex) declares(id federation.ServiceID, port uint16) bool {
	x.cache.mu.RLock()
	defer x.cache.mu.RUnlock()
	e := x.byID[id]
	return e.state() == federation.Present && e.spec.HasPort(port)
}

func (x *serviceIndex) slicesOf(svc federation.ServiceID) []*slice {
	x.cache.mu.RLock()
	defer x.cache.mu.RUnlock()
	if e := x.byID[svc]; e != nil {
		return slices.Clone(e.slices)
	}
	return nil
}

func (x *serviceIndex) entry(id federation.ServiceID) *serviceEntry {
	e := x.byID[id]
	if e == nil {
		e = &serviceEntry{}
		x.byID[id] = e
	}
	return e
}

// sweep removes an entry that contains neither a Service nor slices.
func (x *serviceIndex) sweep(id federation.ServiceID) {
	if e := x.byID[id]; e != nil && e.spec == nil && len(e.slices) == 0 {
		delete(x.byID, id)
	}
}

func compareServices(a, b federation.ServiceID) int {
	return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
}

func serviceID(key string) federation.ServiceID {
	namespace, name := follow.SplitKey(key)
	return federation.ServiceID{Namespace: namespace, Name: name}
}

func (x *serviceIndex) store() store[*Service] {
	get := func(key string) (*Service, bool) {
		if e := x.byID[serviceID(key)]; e != nil {
			return e.spec, e.spec != nil
		}
		return nil, false
	}
	keys := func(yield func(string) bool) {
		for id, e := range x.byID {
			if e.spec != nil && !yield(follow.JoinKey(id.Namespace, id.Name)) {
				return
			}
		}
	}
	release := func(key string) {
		id := serviceID(key)
		x.cache.local.setServiceAddresses(id, x.byID[id].spec, nil)
	}
	return store[*Service]{
		cache:   x.cache,
		same:    (*Service).equal,
		get:     get,
		set:     x.set,
		keys:    keys,
		release: release,
	}
}

func (x *serviceIndex) set(key string, to *Service, _ bool) {
	id := serviceID(key)
	e := x.entry(id)
	from := e.spec
	x.cache.local.setSelecting(id, to)
	x.cache.exports.setService(key, from, to)
	e.spec = to
	if from != nil && to != nil && from.servedAs(to) {
		return
	}
	x.cache.local.setServiceAddresses(id, from, to)
	x.cache.gateways.set(id, from.gateway(), to.gateway())
	x.sweep(id)
	x.cache.mark(id)
}

// byHostname returns the first address with the given hostname. Served addresses take precedence
// over addresses that are not ready or that belong to a slice without ports. Unready addresses are
// included, because the Pods of a StatefulSet look each other up before they are ready.
func (e *serviceEntry) byHostname(hostname string) (*slice, *address) {
	for _, ready := range []bool{true, false} {
		for _, l := range e.slices {
			for _, sub := range l.subsets {
				list := sub.addresses[:sub.ready]
				if !ready {
					list = sub.addresses[sub.ready:]
				}
				if i := slices.IndexFunc(list, func(a address) bool { return value(a.hostname) == hostname }); i >= 0 {
					return l, &list[i]
				}
			}
		}
	}
	return nil, nil
}
