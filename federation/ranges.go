package federation

import (
	"net/netip"
	"slices"
)

// Ranges are the addresses that a linked cluster may offer: prefixes, sorted and
// without those that are part of another. nil: all addresses.
type Ranges []netip.Prefix

// NewRanges returns the ranges that the prefixes, in any order, cover. They must be
// valid and not IPv4-mapped. Without prefixes it returns nil: all addresses.
func NewRanges(prefixes ...netip.Prefix) Ranges {
	var r Ranges
	for _, p := range prefixes {
		r = append(r, p.Masked())
	}
	slices.SortFunc(r, netip.Prefix.Compare) // a prefix comes before those that are part of it
	n := 0
	for _, p := range r {
		if n > 0 && r[n-1].Contains(p.Addr()) {
			continue
		}
		r[n] = p
		n++
	}
	return r[:n:n]
}

// Contains reports whether the ranges have the address, in time logarithmic in their
// number.
func (r Ranges) Contains(a netip.Addr) bool {
	if r == nil {
		return true
	}
	i, found := slices.BinarySearchFunc(r, a, func(p netip.Prefix, a netip.Addr) int { return p.Addr().Compare(a) })
	return found || i > 0 && r[i-1].Contains(a)
}
