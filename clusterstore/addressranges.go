package clusterstore

import (
	"fmt"
	"net/netip"
	"strings"

	"isthmus/federation"
)

// RangesAnnotation of a link Secret lists the addresses that its cluster may offer, as
// CIDRs divided by commas. Without it the cluster may offer all addresses.
const RangesAnnotation = "isthmus.io/address-ranges"

// maxRanges is how many CIDRs a link may have: far more than clusters have networks,
// and few enough that a Secret costs nothing.
const maxRanges = 256

// readRanges parses the annotation's value. Blanks around a CIDR do not matter. What
// could be misread is an error, and so is an empty list, since it would refuse all
// addresses, or none.
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
	if len(text) > mostQuoted { // no CIDR is longer
		return netip.Prefix{}, fmt.Errorf("%s is no CIDR", quote(text))
	}
	if text == "" {
		return netip.Prefix{}, fmt.Errorf("a CIDR is empty: write a list such as 10.1.0.0/16,fd00:1::/48, or remove the annotation to allow all addresses")
	}
	p, err := netip.ParsePrefix(text)
	switch {
	case err != nil && !strings.Contains(text, "/") && isAddr(text):
		return p, fmt.Errorf("%q is an address, no CIDR: add the length of its network, such as /32 or /128", text)
	case err != nil:
		return p, fmt.Errorf("%q is no CIDR", text)
	case p.Addr().Is4In6():
		return p, fmt.Errorf("%q is an IPv4 network in the form of IPv6: write it as IPv4", text)
	case p != p.Masked():
		return p, fmt.Errorf("%q has bits set beyond its length: write %v, or a longer prefix", text, p.Masked())
	}
	return p, nil
}

func isAddr(text string) bool {
	_, err := netip.ParseAddr(text)
	return err == nil
}
