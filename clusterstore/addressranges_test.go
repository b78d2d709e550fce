package clusterstore

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
)

func TestReadRanges(t *testing.T) {
	for _, tc := range []struct{ value, want string }{
		{"10.1.0.0/16", "[10.1.0.0/16]"},
		{" fd00:1::/48 ,10.1.0.0/16,\t10.0.0.0/8 ", "[10.0.0.0/8 fd00:1::/48]"},
		{"0.0.0.0/0,::/0,10.0.0.0/8", "[0.0.0.0/0 ::/0]"},
		{"10.1.2.3/32,10.1.2.3/32", "[10.1.2.3/32]"},
		{strings.Repeat("10.0.0.0/8,", maxRanges-1) + "11.0.0.0/8", "[10.0.0.0/8 11.0.0.0/8]"},

		{"", "a CIDR is empty: write a list such as 10.1.0.0/16,fd00:1::/48, or remove the annotation to allow all addresses"},
		{"10.1.0.0/16,", "a CIDR is empty: write a list such as 10.1.0.0/16,fd00:1::/48, or remove the annotation to allow all addresses"},
		{"10.1.0.0/16;10.2.0.0/16", `"10.1.0.0/16;10.2.0.0/16" is no CIDR`},
		{"10.1.2.3", `"10.1.2.3" is an address, no CIDR: add the length of its network, such as /32 or /128`},
		{"10.1.2.3/8", `"10.1.2.3/8" has bits set beyond its length: write 10.0.0.0/8, or a longer prefix`},
		{"10.0.0.0/33", `"10.0.0.0/33" is no CIDR`},
		{"10.0.0.0/08", `"10.0.0.0/08" is no CIDR`},
		{"010.0.0.0/8", `"010.0.0.0/8" is no CIDR`},
		{"fe80::%eth0/64", `"fe80::%eth0/64" is no CIDR`},
		{"::ffff:10.0.0.0/104", `"::ffff:10.0.0.0/104" is an IPv4 network in the form of IPv6: write it as IPv4`},
		{strings.Repeat("1", 65), `"` + strings.Repeat("1", 64) + `"… is no CIDR`},
		{strings.Repeat("10.0.0.0/8,", maxRanges) + "10.0.0.0/8", "more than 256 CIDRs"},
	} {
		r, err := readRanges(tc.value)
		got := fmt.Sprint(r)
		if err != nil {
			got = err.Error()
		}
		if got != tc.want || err == nil && r == nil {
			t.Errorf("%.40q: %s, want %s", tc.value, got, tc.want)
		}
	}
}

// FuzzReadRanges: what is accepted is a bounded list that has exactly the addresses of
// the CIDRs as they are written, and an error is short.
func FuzzReadRanges(f *testing.F) {
	for _, seed := range []string{"10.1.0.0/16, fd00:1::/48", "", ",", "10.0.0.0/8,10.1.0.0/16", "::ffff:10.0.0.0/104", "fe80::%1/64", "0.0.0.0/0,::/0", "10.1.2.3/8"} {
		f.Add(seed, "10.1.2.3")
	}
	f.Fuzz(func(t *testing.T, value, addr string) {
		r, err := readRanges(value)
		if err != nil {
			if r != nil || len(err.Error()) > 512 {
				t.Fatalf("%v: %v", r, err)
			}
			return
		}
		if len(r) == 0 || len(r) > maxRanges {
			t.Fatalf("%q: %d ranges", value, len(r))
		}
		ip, err := netip.ParseAddr(addr)
		if err != nil || ip.Is4In6() || ip.Zone() != "" {
			return
		}
		want := slices.ContainsFunc(strings.Split(value, ","), func(item string) bool {
			return netip.MustParsePrefix(strings.TrimSpace(item)).Contains(ip)
		})
		if got := r.Contains(ip); got != want {
			t.Fatalf("%q has %v: %t, want %t", value, ip, got, want)
		}
	})
}
