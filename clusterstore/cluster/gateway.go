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

// What makes a Service one of Linkerd's gateways, by Linkerd's multicluster chart.
const (
	gatewayAnnotation  = "mirror.linkerd.io/multicluster-gateway" // true
	identityAnnotation = "mirror.linkerd.io/gateway-identity"
	pathAnnotation     = "mirror.linkerd.io/probe-path"
	periodAnnotation   = "mirror.linkerd.io/probe-period" // seconds, or a duration such as 3s

	gatewayPort = "mc-gateway"
	probePort   = "mc-probe"
)

// Bounds of what a cluster has of gateways.
const (
	maxGateways    = 16              // Services, the first by namespace and name
	maxHosts       = 16              // addresses and names of each
	maxPath        = 256             // bytes of a probe's path
	minProbePeriod = time.Second     // shorter ones count as this
	maxProbePeriod = 5 * time.Minute // longer ones count as this
	probePeriod    = 3 * time.Second // if it can't be read; the chart's
)

// Gateway is one of Linkerd's gateways: a Service through which other clusters reach the cluster's
// Services. It is immutable.
type Gateway struct {
	Service  federation.ServiceID
	IPs      []netip.Addr // that it is reached at: its load balancer's or, without one, its external IPs
	Names    []string     // likewise, names to be resolved
	Port     uint16       // for traffic; 0: it has none, and can't be used
	Identity string       // of its proxy; empty: it has none, and can't be used
	Probe    Probe
	More     int // addresses and names that are left out: there are too many, or they can't be used

	NodePort  uint16 // node port of mc-gateway. Zero means that mc-gateway has none.
	NodeProbe Probe  // probe at a Node. The zero Probe means that mc-probe has no node port, or there is no path.
}

// Probe is how to find out whether a gateway is alive: GET PATH at the same address. The
// zero value: there is no way.
type Probe struct {
	Port   uint16
	Path   string // begins with a slash
	Period time.Duration
}

// readGateway reads a Service; nil: it is no gateway.
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

// Problem describes, for people, why the gateway can't be used, or not with all its addresses;
// empty: it can.
func (g *Gateway) Problem() string {
	switch {
	case g.Port == 0:
		return "it has no TCP port named " + gatewayPort
	case g.Identity == "":
		return "its annotation " + identityAnnotation + " is missing, or no name of an identity"
	case len(g.IPs)+len(g.Names) == 0 && g.More == 0:
		return "it has no address: its load balancer has none yet, or there is none " +
			"(status.loadBalancer.ingress, spec.externalIPs)"
	case g.More > 0:
		return fmt.Sprintf(
			"addresses that are not used, since they could not be another host's or are more than %d: %d",
			maxHosts, g.More)
	}
	return ""
}

// addHost adds an address or a name. Those that could not be another host's are left out.
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

// IsIdentity reports whether a text can be the name of a proxy's identity.
func IsIdentity(text string) bool { return IsHostname(text) && !strings.HasSuffix(text, ".") }

// IsHostname reports whether a text can be the name of a host: labels of letters, digits,
// hyphens and underscores, which dots separate.
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

// probePath reports whether a text can be sent as the path of a request.
func probePath(text string) bool {
	if len(text) > maxPath || !strings.HasPrefix(text, "/") || strings.HasPrefix(text, "//") {
		return false
	}
	for _, c := range []byte(text) {
		if c <= ' ' || c >= 0x7f || strings.IndexByte(`"#<>\^`+"`{|}", c) >= 0 {
			return false
		}
	}
	_, err := url.ParseRequestURI(text) // escapes
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

// size is what a gateway takes. A nil Gateway takes nothing.
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

// gatewayIndex has the Services of a cluster that are gateways. state.mu guards it.
type gatewayIndex struct {
	byService map[federation.ServiceID]*Gateway
	changed   bool // since takeChanged
}

func newGatewayIndex() gatewayIndex {
	return gatewayIndex{byService: make(map[federation.ServiceID]*Gateway)}
}

// set follows a change of a Service that is, or was, a gateway; nil: it is none.
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

// takeChanged reports whether a gateway has changed since the last call.
func (x *gatewayIndex) takeChanged() bool {
	changed := x.changed
	x.changed = false
	return changed
}
