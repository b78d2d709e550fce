package cluster

import (
	"net/netip"
	"slices"
	"unique"

	corev1 "k8s.io/api/core/v1"

	"isthmus/federation"
)

// intern returns an equal string. Equal strings that are in use at the same time share
// their memory.
func intern(s string) string { return unique.Make(s).Value() }

// portNumber reads a port as the API has it. Not ok: it is missing or invalid.
func portNumber(p *int32) (uint16, bool) {
	if p == nil || *p < 1 || *p > 65535 {
		return 0, false
	}
	return uint16(*p), true
}

// parseIP reads the address of an endpoint. An IPv4-mapped IPv6 address becomes the
// IPv4 address. One with a zone is not accepted: it means nothing to other hosts.
func parseIP(s string) (netip.Addr, bool) {
	ip, err := netip.ParseAddr(s)
	if err != nil || ip.Zone() != "" {
		return netip.Addr{}, false
	}
	return ip.Unmap(), true
}

// thisNetwork are addresses by which hosts that do not know theirs yet mean themselves (RFC 1122).
var thisNetwork = netip.PrefixFrom(netip.IPv4Unspecified(), 8)

// limitedBroadcast is all hosts of the sender's network.
var limitedBroadcast = netip.AddrFrom4([4]byte{255, 255, 255, 255})

// Routable reports whether an address can be another host's. Without that check another
// cluster could send proxies to themselves. API servers refuse most of these addresses in
// endpoints. The rest of 240.0.0.0/4 is reserved, but Linux connects to it, and there are Pod
// networks in it.
func Routable(ip netip.Addr) bool {
	return !ip.IsUnspecified() && !ip.IsLoopback() && !ip.IsMulticast() && !ip.IsLinkLocalUnicast() &&
		!thisNetwork.Contains(ip) && ip != limitedBroadcast
}

// readIP reads an address that an endpoint may have: Served, or why it may not.
func readIP(text string) (netip.Addr, federation.Verdict) {
	ip, ok := parseIP(text)
	switch {
	case !ok:
		return ip, federation.UnusableText
	case !Routable(ip):
		return ip, federation.NotRoutable
	}
	return ip, federation.Served
}

func value(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// maxIPs is how many IPs of one object are read at most: API servers allow two.
const maxIPs = 16

func addIP(list []netip.Addr, text string) []netip.Addr {
	if ip, why := readIP(text); why == federation.Served && len(list) < maxIPs && !slices.Contains(list, ip) {
		return append(slices.Clip(list), ip)
	}
	return list
}

// addPort adds a port, unless it is invalid.
func addPort(list []uint16, port int32) []uint16 {
	if n, ok := portNumber(&port); ok {
		return append(list, n)
	}
	return list
}

// portSet sorts ports, removes duplicates, and frees unused capacity.
func portSet(list []uint16) []uint16 {
	slices.Sort(list)
	return slices.Clone(slices.Compact(list))
}

// tcp reports whether a port's protocol is TCP, which is the default. Proxies speak TCP only, so ports of
// other protocols are not served, and looking up a port by its number or name ignores them.
func tcp(protocol string) bool { return protocol == "" || protocol == string(corev1.ProtocolTCP) }
