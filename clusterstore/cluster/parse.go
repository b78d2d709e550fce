package cluster

import (
	"net/netip"
	"slices"
	"unique"

	corev1 "k8s.io/api/core/v1"

	"isthmus/federation"
)

// intern returns an equal string that shares its memory with other interned strings.
func intern(s string) string { return unique.Make(s).Value() }

// portNumber returns a port number from an API object. It returns false if the port is missing or
// invalid.
func portNumber(p *int32) (uint16, bool) {
	if p == nil || *p < 1 || *p > 65535 {
		return 0, false
	}
	return uint16(*p), true
}

// parseIP parses the address of an endpoint. It converts an IPv4-mapped IPv6 address into an IPv4
// address. It rejects an address with a zone, because zones have no meaning on other hosts.
func parseIP(s string) (netip.Addr, bool) {
	ip, err := netip.ParseAddr(s)
	if err != nil || ip.Zone() != "" {
		return netip.Addr{}, false
	}
	return ip.Unmap(), true
}

// thisNetwork contains the addresses that a host uses before it knows its own address (RFC 1122).
var thisNetwork = netip.PrefixFrom(netip.IPv4Unspecified(), 8)

// limitedBroadcast addresses all hosts of the sender's network.
var limitedBroadcast = netip.AddrFrom4([4]byte{255, 255, 255, 255})

// Routable reports whether another host can have the address. Without this check, another cluster
// could make proxies send requests to themselves. API servers reject most non-routable addresses in
// endpoints. The rest of 240.0.0.0/4 is reserved, but counts as routable: Linux connects to it, and
// some Pod networks use it.
func Routable(ip netip.Addr) bool {
	return !ip.IsUnspecified() && !ip.IsLoopback() && !ip.IsMulticast() && !ip.IsLinkLocalUnicast() &&
		!thisNetwork.Contains(ip) && ip != limitedBroadcast
}

// readIP returns an address that an endpoint may have and Served, or the reason why it may not.
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

// maxIPs is the maximum number of IPs read from one object. API servers allow two.
const maxIPs = 16

func addIP(list []netip.Addr, text string) []netip.Addr {
	if ip, why := readIP(text); why == federation.Served && len(list) < maxIPs && !slices.Contains(list, ip) {
		return append(slices.Clip(list), ip)
	}
	return list
}

// addPort appends a port to list if the port is valid.
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

// tcp reports whether a port's protocol is TCP, which is the default. Proxies speak only TCP. Ports
// of other protocols therefore are not served, and port lookups by number or name ignore them.
func tcp(protocol string) bool { return protocol == "" || protocol == string(corev1.ProtocolTCP) }
