package cluster

import (
	"net/netip"
	"slices"
	"unique"

	corev1 "k8s.io/api/core/v1"

	"isthmus/federation"
)

// intern returns a copy of s that shares memory with all equal interned strings.
func intern(s string) string { return unique.Make(s).Value() }

// portNumber returns the port number in an API object, and reports whether the number is valid.
func portNumber(p *int32) (uint16, bool) {
	if p == nil || *p < 1 || *p > 65535 {
		return 0, false
	}
	return uint16(*p), true
}

// parseIP parses the address of an endpoint. An IPv4-mapped IPv6 address is converted to IPv4. An
// address with a zone is rejected, because a zone has no meaning on other hosts.
func parseIP(s string) (netip.Addr, bool) {
	ip, err := netip.ParseAddr(s)
	if err != nil || ip.Zone() != "" {
		return netip.Addr{}, false
	}
	return ip.Unmap(), true
}

// thisNetwork contains the addresses that a host uses before it knows its own address (RFC 1122).
var thisNetwork = netip.PrefixFrom(netip.IPv4Unspecified(), 8)

var limitedBroadcast = netip.AddrFrom4([4]byte{255, 255, 255, 255})

// Routable reports whether the address can belong to another host. The check prevents another
// cluster from making proxies send requests to themselves. Except for the broadcast address, the
// reserved range 240.0.0.0/4 is routable, because Linux connects to its addresses and some Pod
// networks use them.
func Routable(ip netip.Addr) bool {
	return !ip.IsUnspecified() && !ip.IsLoopback() && !ip.IsMulticast() && !ip.IsLinkLocalUnicast() &&
		!thisNetwork.Contains(ip) && ip != limitedBroadcast
}

// readIP parses the address of an endpoint. The verdict is Served, or the reason why endpoints must
// not use the address.
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

// maxIPs is the maximum number of IPs read from one object. API servers allow at most two IPs per
// object.
const maxIPs = 16

func addIP(list []netip.Addr, text string) []netip.Addr {
	if ip, why := readIP(text); why == federation.Served && len(list) < maxIPs && !slices.Contains(list, ip) {
		return append(slices.Clip(list), ip)
	}
	return list
}

func addPort(list []uint16, port int32) []uint16 {
	if n, ok := portNumber(&port); ok {
		return append(list, n)
	}
	return list
}

// portSet sorts a list of ports, removes duplicates, and frees unused capacity.
func portSet(list []uint16) []uint16 {
	slices.Sort(list)
	return slices.Clone(slices.Compact(list))
}

// tcp reports whether a protocol is TCP, which is the default. Proxies support only TCP, so Isthmus
// ignores ports with other protocols.
func tcp(protocol string) bool { return protocol == "" || protocol == string(corev1.ProtocolTCP) }
