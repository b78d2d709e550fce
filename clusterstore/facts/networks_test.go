package facts

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestJoin(t *testing.T) {
	for want, list := range map[string][]string{
		"[]":                             nil,
		"[10.0.0.0/23]":                  {"10.0.1.0/24", "10.0.0.0/24"},
		"[10.0.1.0/24 10.0.2.0/24]":      {"10.0.1.0/24", "10.0.2.0/24"}, // of no common range
		"[10.0.0.0/22]":                  {"10.0.0.0/24", "10.0.1.0/24", "10.0.2.0/24", "10.0.3.0/24"},
		"[10.0.0.0/16 fd00::/63]":        {"fd00::/64", "10.0.0.0/16", "10.0.7.0/24", "fd00:0:0:1::/64"},
		"[10.0.0.0/24 192.168.128.0/17]": {"192.168.128.0/17", "10.0.0.0/24"},
	} {
		ranges := make(map[netip.Prefix]bool)
		for _, x := range list {
			ranges[netip.MustParsePrefix(x)] = true
		}
		if got := fmt.Sprint(join(ranges)); got != want {
			t.Errorf("%q: %s, want %s", list, got, want)
		}
	}
}

// TestJoinOfAny: what is joined has just the addresses that were there, each in one range.
func TestJoinOfAny(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ranges := make(map[netip.Prefix]bool)
		for range rapid.IntRange(0, 12).Draw(t, "ranges") {
			a := netip.AddrFrom4([4]byte{10, 0, 0, rapid.Byte().Draw(t, "address")})
			ranges[netip.PrefixFrom(a, rapid.IntRange(26, 32).Draw(t, "bits")).Masked()] = true
		}
		joined := join(ranges)
		for last := range 256 {
			a := netip.AddrFrom4([4]byte{10, 0, 0, byte(last)})
			before := false
			for p := range ranges {
				before = before || p.Contains(a)
			}
			in := 0
			for _, p := range joined {
				if p.Contains(a) {
					in++
				}
			}
			if before && in != 1 || !before && in != 0 {
				t.Fatalf("%v is in %d of %v, of %v", a, in, joined, ranges)
			}
		}
		if !slices.IsSortedFunc(joined, netip.Prefix.Compare) {
			t.Fatalf("%v is not sorted", joined)
		}
	})
}
