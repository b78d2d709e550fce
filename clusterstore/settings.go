package clusterstore

import (
	"cmp"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"

	"isthmus/clusterstore/cluster"
	"isthmus/clusterstore/gateway"
	"isthmus/federation"
)

// The following annotations on a link Secret configure the standing ([federation.Standing]), the
// region, the network and the gateways of the linked cluster. An invalid value is ignored and
// reported, except for NetworkAnnotation: if its value is invalid, Isthmus treats the cluster as
// being on another network.
const (
	CordonAnnotation     = "isthmus.io/cordon"      // false, last-resort or true
	CordonOverAnnotation = "isthmus.io/cordon-over" // duration of a gradual cordon or uncordon, up to MaxCordonOver
	whenLostAnnotation   = "isthmus.io/when-lost"   // keep, last-resort or withdraw
	lostAfterAnnotation  = "isthmus.io/lost-after"  // from MinLostAfter to MaxLostAfter
	regionAnnotation     = "isthmus.io/region"      // overrides the region label of the cluster's Nodes

	// NetworkAnnotation names the network of the cluster's Pods. If the cluster's Pods and Isthmus
	// are on different networks, Isthmus cannot reach the Pods directly.
	NetworkAnnotation = "isthmus.io/network"
	// gatewayAddressesAnnotation contains a list of HOST:PORT items, which override the addresses
	// of the cluster's gateways.
	gatewayAddressesAnnotation = "isthmus.io/gateway-addresses"
	gatewayIdentityAnnotation  = "isthmus.io/gateway-identity" // overrides the identities of the gateways
)

// RangesAnnotation lists the address ranges that endpoints of a cluster may use. The ranges are
// comma-separated CIDRs. Without this annotation, endpoints of the cluster may use any address.
const RangesAnnotation = "isthmus.io/address-ranges"

// Limits for durations. A broken watch is usually replaced within a second. If MinLostAfter were
// shorter, a cluster would count as lost after each restart of its API server.
const (
	MinLostAfter  = time.Second    // for Options.LostAfter and the annotation
	MaxLostAfter  = 24 * time.Hour // for Options.LostAfter and the annotation
	MaxCordonOver = time.Hour
)

// linkSettings contains the values of the annotations on a link Secret, with defaults for missing
// annotations. It is immutable.
type linkSettings struct {
	cordon     federation.Standing
	cordonBy   string // the setting that requests the cordon; if empty, the annotation on the Secret
	cordonOver time.Duration
	whenLost   federation.Standing // InService means that a lost cluster stays in service
	lostAfter  time.Duration
	region     string           // if empty, the region of the cluster's Nodes
	network    string           // network of the cluster's Pods
	gateways   []gateway.Target // without identities; if nil, the gateways found in the cluster
	identity   string           // identity of all gateways; if empty, each gateway uses its own identity
	unread     bool             // the annotation for gateway addresses or identities is invalid
	// readExports is ExportOptions.Settings. If the readExports field is nil, exports are not
	// cached.
	readExports func(annotations map[string]string) (settings any, warnings []string)
	exports     any
	warnings    []string // one for each invalid annotation
}

// readSettings parses the annotations on a link Secret. The result contains at most one warning per
// annotation.
func readSettings(annotations map[string]string, defaults linkSettings) linkSettings {
	r := settingsReader{annotations, defaults}
	readValue(&r, CordonAnnotation, &r.settings.cordon, standingValues{"false", "last-resort", "true"}.read)
	readValue(&r, CordonOverAnnotation, &r.settings.cordonOver, durationLimits{0, MaxCordonOver}.read)
	readValue(&r, whenLostAnnotation, &r.settings.whenLost, standingValues{"keep", "last-resort", "withdraw"}.read)
	readValue(&r, lostAfterAnnotation, &r.settings.lostAfter, durationLimits{MinLostAfter, MaxLostAfter}.read)
	readValue(&r, regionAnnotation, &r.settings.region, readRegion)
	r.readNetwork()
	addresses := readValue(&r, gatewayAddressesAnnotation, &r.settings.gateways, readGatewayAddresses)
	identity := readValue(&r, gatewayIdentityAnnotation, &r.settings.identity, readGatewayIdentity)
	r.settings.unread = !addresses || !identity
	if defaults.readExports != nil {
		exports, warnings := defaults.readExports(annotations)
		r.settings.exports = exports
		r.settings.warnings = append(r.settings.warnings, warnings...)
	}
	return r.settings
}

// The targets method returns the gateway targets for a cluster with the given gateways, and
// messages about problems with the gateways.
func (r *linkSettings) targets(
	found []*cluster.Gateway, more int, routable func(netip.Addr) bool,
) (list []gateway.Target, problem []string) {
	switch {
	case r.gateways != nil:
		return r.namedTargets(found, routable)
	case len(found) == 0:
		return nil, []string{
			"the cluster is on another network, and has no Linkerd gateway: " +
				"none of its Services has the annotation mirror.linkerd.io/multicluster-gateway: \"true\"",
		}
	}
	for _, g := range found {
		g := *g
		g.Identity = cmp.Or(r.identity, g.Identity)
		list = append(list, gateway.Targets([]*cluster.Gateway{&g})...)
		if why := g.Problem(); why != "" {
			problem = append(problem, fmt.Sprintf("Linkerd gateway %v: %s", g.Service, why))
		}
	}
	if more > 0 {
		problem = append(
			problem,
			fmt.Sprintf("the cluster has too many gateway Services: %d of them are not used", more),
		)
	}
	return list, problem
}

func (r *linkSettings) namedTargets(
	found []*cluster.Gateway, routable func(netip.Addr) bool,
) (list []gateway.Target, problem []string) {
	identity := r.identity
	for _, g := range found {
		identity = cmp.Or(identity, g.Identity)
	}
	if identity == "" {
		return nil, []string{
			"annotation " + gatewayAddressesAnnotation + " requires " + gatewayIdentityAnnotation +
				": no Service in the cluster specifies the identity of the gateways",
		}
	}
	for _, x := range r.gateways {
		if x.IP.IsValid() && !routable(x.IP) {
			problem = append(problem, fmt.Sprintf(
				"annotation %s: %v is not used, because it cannot be the address of another host",
				gatewayAddressesAnnotation,
				x.IP,
			))
			continue
		}
		x.Identity = identity
		x.Probe = probeFor(found, x.Port)
		list = append(list, x)
	}
	return list, problem
}

// probeFor returns the probe for a gateway address with the given port. The probe belongs to the
// gateway Service whose port or node port is the given port. If no gateway Service has the port, or
// if several gateway Services specify different probes for the port, probeFor returns the zero
// Probe. A zero Probe means that the correct probe is unknown. If the correct probe of an address
// is unknown, Isthmus does not probe the address, because a wrong probe could mark a healthy
// gateway as dead.
func probeFor(found []*cluster.Gateway, port uint16) cluster.Probe {
	for _, g := range found {
		if g.NodePort == port { // node ports are unique within a cluster
			return g.NodeProbe
		}
	}
	var first *cluster.Gateway
	for _, g := range found {
		switch {
		case g.Port != port:
		case first == nil:
			first = g
		case first.Probe.Port != g.Probe.Port || first.Probe.Path != g.Probe.Path:
			return cluster.Probe{}
		}
	}
	if first == nil {
		return cluster.Probe{}
	}
	return first.Probe
}

type settingsReader struct {
	annotations map[string]string
	settings    linkSettings
}

// readValue parses an annotation and stores the value in *into, ignoring surrounding white space.
// If the annotation is missing or invalid, *into does not change. If the annotation is invalid,
// readValue returns false.
func readValue[T any](r *settingsReader, annotation string, into *T, read func(string) (T, error)) bool {
	text, ok := r.annotations[annotation]
	if !ok {
		return true
	}
	value, err := read(strings.TrimSpace(text))
	if err != nil {
		r.settings.warnings = append(r.settings.warnings, fmt.Sprintf(
			"annotation %s: %v; the annotation is ignored", annotation, err,
		))
		return false
	}
	*into = value
	return true
}

// standingValues contains the annotation value for each [federation.Standing].
type standingValues [3]string

func (w standingValues) read(text string) (federation.Standing, error) {
	if i := slices.Index(w[:], text); i >= 0 {
		return federation.Standing(i), nil
	}
	return 0, fmt.Errorf("%s is none of %s", quote(text), strings.Join(w[:], ", "))
}

// durationLimits contains the shortest and the longest accepted duration.
type durationLimits [2]time.Duration

func (w durationLimits) read(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	switch {
	case err != nil:
		return 0, fmt.Errorf("%s is not a duration such as 90s or 5m", quote(text))
	case d < w[0] || d > w[1]:
		return 0, fmt.Errorf("%s is not between %v and %v", quote(text), w[0], w[1])
	}
	return d, nil
}

// readRegion accepts every valid value of a region label, because regions are compared with the
// region labels of Nodes.
func readRegion(text string) (string, error) {
	if text == "" || len(validation.IsValidLabelValue(text)) > 0 {
		return "", fmt.Errorf("%s is not a valid region name: use 1 to %d letters, digits, '-', '_' and '.', "+
			"and begin and end the name with a letter or digit",
			quote(text), validation.LabelValueMaxLength)
	}
	return text, nil
}

// CheckNetwork returns an error if a string is not a valid network name.
func CheckNetwork(text string) error {
	if text != "" && len(validation.IsValidLabelValue(text)) > 0 {
		return fmt.Errorf("%s is not a valid network name: use at most %d letters, digits, '-', '_' and '.', "+
			"and begin and end the name with a letter or digit",
			quote(text), validation.LabelValueMaxLength)
	}
	return nil
}

func (r *settingsReader) readNetwork() {
	text := strings.TrimSpace(r.annotations[NetworkAnnotation])
	r.settings.network = text
	if err := CheckNetwork(text); err != nil {
		r.settings.network = unreadableNetwork
		r.settings.warnings = append(r.settings.warnings, fmt.Sprintf(
			"annotation %s: %v; Isthmus treats the cluster as being on another network", NetworkAnnotation, err,
		))
	}
}

// unreadableNetwork is the network of a cluster with an invalid NetworkAnnotation. The value is not
// a valid network name, and therefore never equals the network of Isthmus. While the network of a
// cluster is unknown, Isthmus must not send traffic to Pods that may be unreachable.
const unreadableNetwork = "(can't be read)"

// namelessNetwork is the network name that web pages show for a cluster without a
// NetworkAnnotation.
const namelessNetwork = "(without a name)"

// readGatewayAddresses parses a comma-separated list of HOST:PORT items, in which each HOST is an
// IP address or a hostname.
func readGatewayAddresses(text string) (list []gateway.Target, err error) {
	for item := range strings.SplitSeq(text, ",") {
		host, port, err := net.SplitHostPort(strings.TrimSpace(item))
		if err != nil {
			return nil, fmt.Errorf("%s is not in the form HOST:PORT", quote(item))
		}
		number, err := strconv.ParseUint(port, 10, 16)
		if err != nil || number == 0 {
			return nil, fmt.Errorf("%s has no port from 1 to 65535", quote(item))
		}
		x := gateway.Target{Port: uint16(number)}
		if ip, err := netip.ParseAddr(host); err == nil && ip.Zone() == "" {
			x.IP = ip.Unmap()
		} else if x.Name = strings.Clone(host); !cluster.IsHostname(host) {
			return nil, fmt.Errorf("%s does not begin with an IP address or a host name", quote(item))
		}
		if list = append(list, x); len(list) > gateway.MaxAddresses {
			return nil, fmt.Errorf("more than %d addresses", gateway.MaxAddresses)
		}
	}
	return list, nil
}

func readGatewayIdentity(text string) (string, error) {
	if !cluster.IsIdentity(text) {
		return "", fmt.Errorf(
			"%s is not an identity such as "+
				"linkerd-gateway.linkerd-multicluster.serviceaccount.identity.linkerd.cluster.local",
			quote(text),
		)
	}
	return text, nil
}

// maxRanges is the maximum number of CIDRs in an annotation. The limit is far above the number of
// address ranges in a real cluster, and bounds the memory that a Secret can use.
const maxRanges = 256

// readRanges parses the value of RangesAnnotation, ignoring white space around CIDRs. Ambiguous
// CIDRs are rejected. An empty list is rejected, because it could mean all addresses or none.
func readRanges(value string) (federation.Ranges, error) {
	items := strings.SplitN(value, ",", maxRanges+1)
	if len(items) > maxRanges {
		return nil, fmt.Errorf("more than %d CIDRs", maxRanges)
	}
	prefixes := make([]netip.Prefix, 0, len(items))
	for _, item := range items {
		p, err := readCIDR(strings.TrimSpace(item))
		if err != nil {
			return nil, err
		}
		prefixes = append(prefixes, p)
	}
	return federation.NewRanges(prefixes...), nil
}

func readCIDR(text string) (netip.Prefix, error) {
	if len(text) > maxQuoted { // longer than any CIDR
		return netip.Prefix{}, fmt.Errorf("%s is not a CIDR", quote(text))
	}
	if text == "" {
		return netip.Prefix{}, fmt.Errorf(
			"a CIDR is empty: specify a list such as 10.1.0.0/16,fd00:1::/48, " +
				"or remove the annotation to allow all addresses",
		)
	}
	p, err := netip.ParsePrefix(text)
	switch {
	case err != nil && !strings.Contains(text, "/") && isAddr(text):
		return p, fmt.Errorf("%q is an address, not a CIDR: add a prefix length, such as /32 or /128", text)
	case err != nil:
		return p, fmt.Errorf("%q is not a CIDR", text)
	case p.Addr().Is4In6():
		return p, fmt.Errorf("%q is an IPv4-mapped IPv6 network: specify it as an IPv4 network", text)
	case p != p.Masked():
		return p, fmt.Errorf(
			"%q has bits set beyond its prefix: specify %v, or use a longer prefix",
			text,
			p.Masked(),
		)
	}
	return p, nil
}

func isAddr(text string) bool {
	_, err := netip.ParseAddr(text)
	return err == nil
}

const maxQuoted = 64

// The quote function returns an untrusted string in quotes, truncated to maxQuoted bytes.
func quote(text string) string {
	if len(text) > maxQuoted {
		return fmt.Sprintf("%q…", text[:maxQuoted])
	}
	return fmt.Sprintf("%q", text)
}
