package cluster

import (
	"maps"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"isthmus/clusterstore/follow"
	"isthmus/federation"
)

// Service is what is kept of a Kubernetes Service. It is immutable.
type Service struct {
	ExternalName bool          // of type ExternalName
	NodeLocal    bool          // internalTrafficPolicy is Local
	Ports        []ServicePort // TCP ports; exported and selecting have those of other protocols too
	leads        *Gateway      // of a linked cluster; nil: it is no gateway
	exported     any           // the value of ExportHooks.Service

	// Only of the local cluster:
	ClusterIPs  []netip.Addr
	External    []netip.Addr      // spec.externalIPs and those of its load balancer
	OpaquePorts Ports             // ports whose protocol is not detected
	Labels      map[string]string // those with a prefix of keptMetadata
	Annotations map[string]string // likewise
	selecting   *string           // with LocalConfig.SliceManager: what slices are made of, encoded; nil: it selects nothing
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

// serviceKind returns how the cluster follows Services.
func serviceKind(c *Cluster) follow.Kind[*corev1.Service, *Service] {
	k := follow.Kind[*corev1.Service, *Service]{
		Name: "services", Needed: true,
		Source: c.cfg.Client.Sources.Services,
		Compact: func(o *corev1.Service) (*Service, bool) {
			s := compactService(o, c.cfg.Rules, c.cfg.local != nil)
			if c.cfg.local == nil { // which is reached without
				s.leads = readGateway(o, c.cfg.Rules)
			}
			if c.cfg.Exports != nil {
				s.exported = c.cfg.Exports.Service(o)
			}
			if c.cfg.sliceManager() != "" {
				s.selecting = encodeSelecting(o)
			}
			return s, true
		},
		Size: func(s *Service, _ string) int64 { return s.size() + c.exportSize(s.exported) },
		Into: c.state.services.store(),
	}
	k.Applied = func() {
		c.updateLink(c.state.gateways.takeChanged)
		c.exportsApplied(ofServices)
	}
	if own := c.cfg.local; own != nil {
		k.Changed = func(key string, _ *Service, _ bool) { own.ServiceChanged(serviceID(key)) }
	}
	return k
}

// size is what the state takes for a Service of a linked cluster, without the value for exports.
func (s *Service) size() int64 {
	n := serviceEntrySize() + allocation + sizeof[Service]() +
		listSize[ServicePort](cap(s.Ports)) + s.leads.size()
	for _, p := range s.Ports {
		n += textSize(p.Name)
	}
	return n
}

// serviceEntrySize is what the state takes for a Service, or for the placeholder of one that slices name.
func serviceEntrySize() int64 {
	place := mapEntry(sizeof[federation.ServiceID]() + sizeof[*serviceEntry]())
	return 2*allocation + sizeof[serviceEntry]() + place + listedSize
}

// keptMetadata has the prefixes of those labels and annotations of Services that the
// gateway reads.
var keptMetadata = [...]string{"multicluster.linkerd.io/", "mirror.linkerd.io/", "isthmus.io/", "multicluster.kubernetes.io/service-name"}

func compactService(o *corev1.Service, r Rules, full bool) *Service {
	s := &Service{
		ExternalName: o.Spec.Type == corev1.ServiceTypeExternalName,
		NodeLocal:    o.Spec.InternalTrafficPolicy != nil && *o.Spec.InternalTrafficPolicy == corev1.ServiceInternalTrafficPolicyLocal,
	}
	for _, p := range o.Spec.Ports {
		if number, ok := portNumber(&p.Port); ok && tcp(string(p.Protocol)) {
			s.Ports = append(s.Ports, ServicePort{Name: intern(p.Name), Number: number})
		}
	}
	s.Ports = slices.Clip(s.Ports)
	if full {
		s.ClusterIPs, s.External = clusterIPs(o), externalIPs(o)
		s.OpaquePorts = r.DefaultOpaquePorts
		if list, ok := o.Annotations[opaqueAnnotation]; ok {
			s.OpaquePorts, _ = ParsePorts(list, s.numbers()) // as for Pods, items that can't be read are left out
		}
		s.Labels, s.Annotations = keepMetadata(o.Labels), keepMetadata(o.Annotations)
	}
	return s
}

// HasPort reports whether the Service has a TCP port with that number.
func (s *Service) HasPort(port uint16) bool {
	return slices.ContainsFunc(s.Ports, func(p ServicePort) bool { return p.Number == port })
}

// numbers returns the numbers of the TCP ports by name. If several ports have one name, it returns the first.
func (s *Service) numbers() map[string]uint16 {
	numbers := make(map[string]uint16)
	for _, p := range s.Ports {
		if _, ok := numbers[p.Name]; !ok && p.Name != "" {
			numbers[p.Name] = p.Number
		}
	}
	return numbers
}

// clusterIPs reads the Service's addresses. Headless ones ("None") and those of
// type ExternalName have none.
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

// externalIPs returns the addresses by which the Service is reached from outside, sorted. Services may have more of
// them than maxIPs.
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

func keepMetadata(from map[string]string) map[string]string {
	var kept map[string]string
	for k, v := range from {
		for _, domain := range keptMetadata {
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

// servedAs reports whether two Services differ in nothing except what they are exported as.
func (s *Service) servedAs(o *Service) bool {
	return s.ExternalName == o.ExternalName && s.NodeLocal == o.NodeLocal &&
		slices.Equal(s.Ports, o.Ports) && slices.Equal(s.ClusterIPs, o.ClusterIPs) && slices.Equal(s.External, o.External) && s.OpaquePorts == o.OpaquePorts && s.gateway().equal(o.gateway()) &&
		maps.Equal(s.Labels, o.Labels) && maps.Equal(s.Annotations, o.Annotations) && ptr.Equal(s.selecting, o.selecting)
}
