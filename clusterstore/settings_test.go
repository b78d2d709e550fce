package clusterstore

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"isthmus/clusterstore/cluster"
	"isthmus/clusterstore/gateway"
	"isthmus/federation"
	"isthmus/internal/spec"
)

// TestReadStanding checks the meaning of each annotation of a link Secret, and the warning for an
// invalid one.
//
// Behaviours: CS-20.
func TestReadStanding(t *testing.T) {
	defaults := linkSettings{whenLost: federation.LastResort, lostAfter: time.Minute}
	for _, tc := range []struct{ annotation, value, want string }{
		{"none", "x", "in-service 0s, last-resort 1m0s, "},
		{CordonAnnotation, "false", "in-service 0s, last-resort 1m0s, "},
		{CordonAnnotation, "last-resort", "last-resort 0s, last-resort 1m0s, "},
		{CordonAnnotation, " true\n", "withdrawn 0s, last-resort 1m0s, "},
		{CordonOverAnnotation, "0s", "in-service 0s, last-resort 1m0s, "},
		{CordonOverAnnotation, "1h", "in-service 1h0m0s, last-resort 1m0s, "},
		{whenLostAnnotation, "keep", "in-service 0s, in-service 1m0s, "},
		{whenLostAnnotation, "last-resort", "in-service 0s, last-resort 1m0s, "},
		{whenLostAnnotation, "withdraw", "in-service 0s, withdrawn 1m0s, "},
		{lostAfterAnnotation, "1s", "in-service 0s, last-resort 1s, "},
		{lostAfterAnnotation, "24h", "in-service 0s, last-resort 24h0m0s, "},
		{regionAnnotation, "eu-west_1.a", "in-service 0s, last-resort 1m0s, eu-west_1.a"},

		{CordonAnnotation, "", `"" is none of false, last-resort, true`},
		{CordonAnnotation, "True", `"True" is none of false, last-resort, true`},
		{CordonAnnotation, "withdraw", `"withdraw" is none of false, last-resort, true`},
		{whenLostAnnotation, "true", `"true" is none of keep, last-resort, withdraw`},
		{CordonOverAnnotation, "", `"" is not a duration such as 90s or 5m`},
		{CordonOverAnnotation, "10", `"10" is not a duration such as 90s or 5m`},
		{CordonOverAnnotation, "-1s", `"-1s" is not between 0s and 1h0m0s`},
		{CordonOverAnnotation, "61m", `"61m" is not between 0s and 1h0m0s`},
		{lostAfterAnnotation, "999ms", `"999ms" is not between 1s and 24h0m0s`},
		{lostAfterAnnotation, "25h", `"25h" is not between 1s and 24h0m0s`},
		{
			lostAfterAnnotation, strings.Repeat("1", 65) + "s",
			`"` + strings.Repeat("1", 64) + `"… is not a duration such as 90s or 5m`,
		},
		{
			regionAnnotation, "",
			`"" is not a valid region name: use 1 to 63 letters, digits, '-', '_' and '.', ` +
				`and begin and end the name with a letter or digit`,
		},
		{
			regionAnnotation, "eu west",
			`"eu west" is not a valid region name: use 1 to 63 letters, digits, '-', '_' and '.', ` +
				`and begin and end the name with a letter or digit`,
		},
	} {
		r := readSettings(map[string]string{tc.annotation: tc.value}, defaults)
		got := fmt.Sprintf("%v %v, %v %v, %s", r.cordon, r.cordonOver, r.whenLost, r.lostAfter, r.region)
		if len(r.warnings) > 0 {
			if got != "in-service 0s, last-resort 1m0s, " {
				t.Errorf("%s=%.40q is invalid, but changes the settings to %s", tc.annotation, tc.value, got)
			}
			got = strings.Join(r.warnings, " and ")
			tc.want = "annotation " + tc.annotation + ": " + tc.want + "; the annotation is ignored"
		}
		if got != tc.want {
			t.Errorf("%s=%.40q: %s\nwant %s", tc.annotation, tc.value, got, tc.want)
		}
	}
}

// FuzzReadStanding checks that settings stay within their limits for any annotations. An annotation
// changes only its own setting. An invalid annotation changes no setting and has one short warning.
func FuzzReadStanding(f *testing.F) {
	f.Add("true", "10m", "withdraw", "90s", "eu-west-1")
	f.Add("last-resort", "0s", "last-resort", "24h", "a")
	f.Add("false", "1h", "keep", "1s", strings.Repeat("a", 63))
	f.Add("", "-0s", "true", "9223372036854775807ns", "-")
	f.Add(" true ", "1e3s", "\x00", "+1.5h", strings.Repeat("é", 40))
	f.Fuzz(func(t *testing.T, cordon, over, lost, after, region string) {
		values := map[string]string{
			CordonAnnotation:     cordon,
			CordonOverAnnotation: over,
			whenLostAnnotation:   lost,
			lostAfterAnnotation:  after,
			regionAnnotation:     region,
		}
		defaults := linkSettings{whenLost: federation.LastResort, lostAfter: time.Minute}
		all := readSettings(values, defaults)
		if all.cordon > federation.Withdrawn || all.whenLost > federation.Withdrawn || len(all.region) > 63 ||
			all.cordonOver < 0 || all.cordonOver > MaxCordonOver || all.lostAfter < MinLostAfter ||
			all.lostAfter > MaxLostAfter {
			t.Fatalf("%q gives %+v", values, all)
		}
		want := spec.LinkSettings{WhenLost: spec.LastResort, LostAfter: time.Minute}.With(values)
		if got := (spec.LinkSettings{
			Cordon:     spec.Standing(all.cordon),
			CordonOver: all.cordonOver,
			WhenLost:   spec.Standing(all.whenLost),
			LostAfter:  all.lostAfter,
			Region:     all.region,
		}); got != want {
			t.Fatalf("%q gives %+v, want %+v", values, got, want)
		}
		combined, warnings := defaults, 0
		for name, value := range values {
			one := readSettings(map[string]string{name: value}, combined)
			warnings += len(one.warnings)
			if len(one.warnings) > 0 {
				if len(one.warnings) > 1 || len(one.warnings[0]) > 512 {
					t.Fatalf("%s=%q: warnings %q", name, value, one.warnings)
				}
				one.warnings = nil
				if fmt.Sprint(one) != fmt.Sprint(combined) {
					t.Fatalf("%s=%q is invalid, but changes %v to %v", name, value, combined, one)
				}
			}
			combined = one
		}
		if len(all.warnings) != warnings {
			t.Fatalf("%q: %d warnings, one by one %d", values, len(all.warnings), warnings)
		}
		if all.warnings = nil; fmt.Sprint(all) != fmt.Sprint(combined) {
			t.Fatalf("%q gives %v, one by one %v", values, all, combined)
		}
	})
}

func TestReadRanges(t *testing.T) {
	for _, tc := range []struct{ value, want string }{
		{"10.1.0.0/16", "[10.1.0.0/16]"},
		{" fd00:1::/48 ,10.1.0.0/16,\t10.0.0.0/8 ", "[10.0.0.0/8 fd00:1::/48]"},
		{"0.0.0.0/0,::/0,10.0.0.0/8", "[0.0.0.0/0 ::/0]"},
		{"10.1.2.3/32,10.1.2.3/32", "[10.1.2.3/32]"},
		{strings.Repeat("10.0.0.0/8,", maxRanges-1) + "11.0.0.0/8", "[10.0.0.0/8 11.0.0.0/8]"},

		{
			"",
			"a CIDR is empty: specify a list such as 10.1.0.0/16,fd00:1::/48, " +
				"or remove the annotation to allow all addresses",
		},
		{
			"10.1.0.0/16,",
			"a CIDR is empty: specify a list such as 10.1.0.0/16,fd00:1::/48, " +
				"or remove the annotation to allow all addresses",
		},
		{"10.1.0.0/16;10.2.0.0/16", `"10.1.0.0/16;10.2.0.0/16" is not a CIDR`},
		{"10.1.2.3", `"10.1.2.3" is an address, not a CIDR: add a prefix length, such as /32 or /128`},
		{"10.1.2.3/8", `"10.1.2.3/8" has bits set beyond its prefix: specify 10.0.0.0/8, or use a longer prefix`},
		{"10.0.0.0/33", `"10.0.0.0/33" is not a CIDR`},
		{"10.0.0.0/08", `"10.0.0.0/08" is not a CIDR`},
		{"010.0.0.0/8", `"010.0.0.0/8" is not a CIDR`},
		{"fe80::%eth0/64", `"fe80::%eth0/64" is not a CIDR`},
		{"::ffff:10.0.0.0/104", `"::ffff:10.0.0.0/104" is an IPv4-mapped IPv6 network: specify it as an IPv4 network`},
		{strings.Repeat("1", 65), `"` + strings.Repeat("1", 64) + `"… is not a CIDR`},
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

// FuzzReadRanges checks that an accepted list is bounded and contains exactly the addresses of its
// CIDRs. Errors are short.
func FuzzReadRanges(f *testing.F) {
	for _, seed := range []string{
		"10.1.0.0/16, fd00:1::/48", "", ",", "10.0.0.0/8,10.1.0.0/16", "::ffff:10.0.0.0/104", "fe80::%1/64",
		"0.0.0.0/0,::/0", "10.1.2.3/8",
	} {
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

// FuzzGatewayAddresses checks that a client can connect to every accepted address.
func FuzzGatewayAddresses(f *testing.F) {
	for _, text := range []string{
		"192.0.2.1:4143", "[2001:db8::1]:1,gw.example:2", "gw:0", ":1", "a:b:1", "fe80::1%eth0:1",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		list, err := readGatewayAddresses(text)
		if err != nil {
			if len(fmt.Sprint(err)) > 1000 {
				t.Errorf("an error of %d bytes", len(fmt.Sprint(err)))
			}
			return
		}
		for _, x := range list {
			if x.Port == 0 || len(list) > gateway.MaxAddresses || x.IP.IsValid() == (x.Name != "") ||
				x.Name != "" && !cluster.IsHostname(x.Name) {
				t.Errorf("%q: %+v", text, x)
			}
		}
	})
}
