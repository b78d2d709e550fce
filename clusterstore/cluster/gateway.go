package cluster

import (
	"cmp"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"isthmus/federation"
)

// These constants are annotations and port names that Linkerd's multicluster chart defines for
// gateways.
const (
	gatewayAnnotation  = "mirror.linkerd.io/multicluster-gateway" // the value is "true"
	identityAnnotation = "mirror.linkerd.io/gateway-identity"
	pathAnnotation     = "mirror.linkerd.io/probe-path"
	periodAnnotation   = "mirror.linkerd.io/probe-period" // a number of seconds, or a duration such as 3s

	gatewayPort = "mc-gateway"
	probePort   = "mc-probe"
)

const (
	maxGateways    = 16              // gateways per cluster, the first by namespace and name
	maxHosts       = 16              // addresses and hostnames per gateway
	maxPath        = 256             // length of a probe path in bytes
	minProbePeriod = time.Second     // minimum, which replaces shorter periods
	maxProbePeriod = 5 * time.Minute // maximum, which replaces longer periods
	probePeriod    = 3 * time.Second // default for an unreadable period, as in the chart
)

// Gateway describes a Linkerd gateway: a Service through which other clusters reach the Services of
// the gateway's own cluster. A Gateway is immutable.
type Gateway struct {
	Service  federation.ServiceID
	IPs      []netip.Addr // of the load balancer; if there is none, the external IPs
	Names    []string     // unresolved hostnames of the load balancer
	Port     uint16       // port for traffic; if zero, the gateway is unusable
	Identity string       // identity of the gateway's proxy; if empty, the gateway is unusable
	Probe    Probe
	More     int // number of addresses and hostnames that are omitted, because they are unusable or exceed the limit

	NodePort  uint16 // node port of mc-gateway, or zero if there is none
	NodeProbe Probe  // probe through a Node; the zero value if mc-probe has no node port or path
}

// Probe describes the HTTP GET request that checks whether a gateway is alive. The zero value means
// that the gateway cannot be probed.
type Probe struct {
	Port   uint16
	Path   string // begins with a slash
	Period time.Duration
}

// If the Service is not a Linkerd gateway, readGateway returns nil.
func readGateway(o *corev1.Service, r Rules) *Gateway {
	if o.Annotations[gatewayAnnotation] != "true" || !IsHostname(o.Namespace) || !IsHostname(o.Name) {
		return nil
	}
	g := &Gateway{Service: federation.ServiceID{Namespace: strings.Clone(o.Namespace), Name: strings.Clone(o.Name)}}
	if name := o.Annotations[identityAnnotation]; IsIdentity(name) {
		g.Identity = strings.Clone(name)
	}
	var probed, probedAtNode uint16
	for _, p := range o.Spec.Ports {
		number, ok := portNumber(&p.Port)
		nodePort, _ := portNumber(&p.NodePort)
		switch {
		case !ok || !tcp(string(p.Protocol)):
		case p.Name == gatewayPort && g.Port == 0:
			g.Port = number
			g.NodePort = nodePort
		case p.Name == probePort && probed == 0:
			probed = number
			probedAtNode = nodePort
		}
	}
	if path := o.Annotations[pathAnnotation]; probed != 0 && probePath(path) {
		g.Probe = Probe{Port: probed, Path: strings.Clone(path), Period: readPeriod(o.Annotations[periodAnnotation])}
		if probedAtNode != 0 {
			g.NodeProbe = g.Probe
			g.NodeProbe.Port = probedAtNode
		}
	}
	for _, i := range o.Status.LoadBalancer.Ingress {
		g.addHost(cmp.Or(i.IP, i.Hostname), r.GatewayRoutable)
	}
	if len(g.IPs)+len(g.Names) == 0 {
		for _, ip := range o.Spec.ExternalIPs {
			g.addHost(ip, r.GatewayRoutable)
		}
	}
	return g
}

// The expand method sets the annotations, node ports and load balancer addresses of a Service to
// those of the gateway. From the resulting Service, the readGateway function can reconstruct the
// gateway. The Service that is passed to expand must already contain its ports.
func (g *Gateway) expand(o *corev1.Service) {
	o.Annotations = nonEmpty(map[string]string{
		gatewayAnnotation:  "true",
		identityAnnotation: g.Identity,
		pathAnnotation:     g.Probe.Path,
		periodAnnotation:   g.Probe.Period.String(),
	})
	for i := range o.Spec.Ports {
		switch p := &o.Spec.Ports[i]; p.Name {
		case gatewayPort:
			p.NodePort = int32(g.NodePort)
		case probePort:
			p.NodePort = int32(g.NodeProbe.Port)
		}
	}
	ingress := make([]corev1.LoadBalancerIngress, g.More) // empty addresses are unusable
	for _, ip := range g.IPs {
		ingress = append(ingress, corev1.LoadBalancerIngress{IP: ip.String()})
	}
	for _, name := range g.Names {
		ingress = append(ingress, corev1.LoadBalancerIngress{Hostname: name})
	}
	o.Status.LoadBalancer.Ingress = ingress
}

// Problem describes why the gateway or some of its addresses cannot be used. If there is no
// problem, Problem returns "".
func (g *Gateway) Problem() string {
	switch {
	case g.Port == 0:
		return "it has no TCP port named " + gatewayPort
	case g.Identity == "":
		return "its annotation " + identityAnnotation + " is missing or is not a valid identity"
	case len(g.IPs)+len(g.Names) == 0 && g.More == 0:
		return "it has no address: the Service has neither a load balancer address nor an external IP " +
			"(status.loadBalancer.ingress, spec.externalIPs)"
	case g.More > 0:
		return fmt.Sprintf(
			"addresses that are not used because they are invalid, loopback, link-local, multicast or reserved, "+
				"or exceed the limit of %d addresses: %d",
			maxHosts, g.More)
	}
	return ""
}

// addHost adds an address or a hostname to the gateway. If the host is unusable, or if the gateway
// already has maxHosts hosts, addHost increments the More field instead.
func (g *Gateway) addHost(text string, routable func(netip.Addr) bool) {
	ip, isIP := parseIP(text)
	switch {
	case len(g.IPs)+len(g.Names) == maxHosts:
		g.More++
	case isIP && routable(ip):
		if !slices.Contains(g.IPs, ip) {
			g.IPs = append(g.IPs, ip)
		}
	case !isIP && IsHostname(text):
		if !slices.Contains(g.Names, text) {
			g.Names = append(g.Names, strings.Clone(text))
		}
	default:
		g.More++
	}
}

// IsIdentity reports whether a string is a valid proxy identity.
func IsIdentity(text string) bool { return IsHostname(text) && !strings.HasSuffix(text, ".") }

// IsHostname reports whether a string is a valid hostname. The labels of a hostname may contain
// underscores and uppercase letters, unlike DNS labels in Kubernetes.
func IsHostname(text string) bool {
	if text == "" || len(text) > 253 {
		return false
	}
	for label := range strings.SplitSeq(strings.TrimSuffix(text, "."), ".") {
		if label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' {
			return false
		}
		for _, c := range []byte(label) {
			if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-' || c == '_') {
				return false
			}
		}
	}
	return true
}

func probePath(text string) bool {
	if len(text) > maxPath || !strings.HasPrefix(text, "/") || strings.HasPrefix(text, "//") {
		return false
	}
	for _, c := range []byte(text) {
		if c <= ' ' || c >= 0x7f || strings.IndexByte(`"#<>\^`+"`{|}", c) >= 0 {
			return false
		}
	}
	_, err := url.ParseRequestURI(text) // checks the percent-encoding
	return err == nil
}

func readPeriod(text string) time.Duration {
	d := probePeriod
	if n, err := strconv.Atoi(text); err == nil {
		d = time.Duration(min(max(n, 0), int(maxProbePeriod/time.Second))) * time.Second
	} else if parsed, err := time.ParseDuration(text); err == nil {
		d = parsed
	}
	return min(max(d, minProbePeriod), maxProbePeriod)
}

// The receiver may be nil.
func (g *Gateway) size() int64 {
	if g == nil {
		return 0
	}
	n := sizeof[Gateway]() + indexEntry[*Gateway]() + textSize(g.Service.Namespace) + textSize(g.Service.Name) +
		listSize[netip.Addr](cap(g.IPs)) + textsSize(g.Names) + textSize(g.Identity) + textSize(g.Probe.Path)
	return n
}

func (g *Gateway) equal(o *Gateway) bool {
	if g == nil || o == nil {
		return g == o
	}
	return g.Service == o.Service && g.Port == o.Port && g.Identity == o.Identity && g.Probe == o.Probe &&
		g.NodePort == o.NodePort && g.NodeProbe == o.NodeProbe && g.More == o.More &&
		slices.Equal(g.IPs, o.IPs) && slices.Equal(g.Names, o.Names)
}

type gatewayIndex struct {
	byService map[federation.ServiceID]*Gateway
	changed   bool
}

func newGatewayIndex() gatewayIndex {
	return gatewayIndex{byService: make(map[federation.ServiceID]*Gateway)}
}

func (x *gatewayIndex) set(id federation.ServiceID, from, to *Gateway) {
	if from.equal(to) {
		return
	}
	x.changed = true
	if to == nil {
		delete(x.byService, id)
	} else {
		x.byService[id] = to
	}
}

func (x *gatewayIndex) takeChanged() bool {
	changed := x.changed
	x.changed = false
	return changed
}
