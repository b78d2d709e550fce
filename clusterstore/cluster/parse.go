package cluster

import (
	"net/netip"
	"slices"
	"unique"

	corev1 "k8s.io/api/core/v1"
)

// shared returns an equal string that is, mostly, the same one for equal strings.
func shared(s string) string { return unique.Make(s).Value() }

// portNumber reads a port as the API has it; absent and impossible ones are none.
func portNumber(p *int32) (uint16, bool) {
	if p == nil || *p < 1 || *p > 65535 {
		return 0, false
	}
	return uint16(*p), true
}

// parseIP reads an address as endpoints may have it: IPv6 addresses that stand
// for IPv4 ones become those, and addresses with a zone are no use to others.
func parseIP(s string) (netip.Addr, bool) {
	ip, err := netip.ParseAddr(s)
	if err != nil || ip.Zone() != "" {
		return netip.Addr{}, false
	}
	return ip.Unmap(), true
}

// routable tells whether an address can be another host's, as API servers demand
// of endpoints: another cluster must not send our proxies to themselves.
func routable(ip netip.Addr) bool {
	return !ip.IsUnspecified() && !ip.IsLoopback() && !ip.IsMulticast() && !ip.IsLinkLocalUnicast()
}

func value(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// maxIPs is how many IPs anything has at most: API servers allow two.
const maxIPs = 16

func addIP(list []netip.Addr, text string) []netip.Addr {
	if ip, ok := parseIP(text); ok && routable(ip) && len(list) < maxIPs && !slices.Contains(list, ip) {
		return append(slices.Clip(list), ip)
	}
	return list
}

// addPort adds a port, unless there is none.
func addPort(list []uint16, port int32) []uint16 {
	if n, ok := portNumber(&port); ok {
		return append(list, n)
	}
	return list
}

// portSet sorts ports, drops what is there twice, and gives back what that took.
func portSet(list []uint16) []uint16 {
	slices.Sort(list)
	return slices.Clone(slices.Compact(list))
}

// tcp tells whether a port is one that proxies can be asked about.
func tcp(protocol string) bool { return protocol == "" || protocol == string(corev1.ProtocolTCP) }
