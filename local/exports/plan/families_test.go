package plan

import (
	"fmt"
	"slices"
	"testing"
)

// TestSingleStack: without IPv6 a written Service has IPv4 alone if its first IP is an IPv4 one and its policy is not
// somebody else's. With IPv6 only the Services that Isthmus has set to SingleStack change.
func TestSingleStack(t *testing.T) {
	const own = "true" // value of SingleStackKey
	both, swapped := []string{"10.96.0.1", "fd00::1"}, []string{"fd00::1", "10.96.0.1"}
	for _, tc := range []struct {
		name     string
		ips      []string
		policy   string
		mark     string // value of SingleStackKey
		ipv4Only bool
		want     string
	}{
		{"first IP is IPv4", both, "PreferDualStack", "", true, "SingleStack[IPv4] [10.96.0.1] true"},
		{"cluster has IPv4 alone", both[:1], "PreferDualStack", "", true, "SingleStack[IPv4] [10.96.0.1] true"},
		{"first IP is IPv6", swapped, "PreferDualStack", "", true, "PreferDualStack[IPv6 IPv4] [fd00::1 10.96.0.1] "},
		{"cluster has IPv6 alone", both[1:], "PreferDualStack", "", true, "PreferDualStack[IPv6] [fd00::1] "},
		{"somebody else's policy", both, "RequireDualStack", "", true, "RequireDualStack[IPv4 IPv6] [10.96.0.1 fd00::1] "},
		{"somebody has set it back", both, "PreferDualStack", own, true, "PreferDualStack[IPv4 IPv6] [10.96.0.1 fd00::1] true"},
		{"set before", both[:1], "SingleStack", own, true, "SingleStack[IPv4] [10.96.0.1] true"},
		{"IPv6 again", both[:1], "SingleStack", own, false, "PreferDualStack[IPv4] [10.96.0.1] "},
		{"IPv6, and somebody else's policy", both[:1], "SingleStack", "", false, "SingleStack[IPv4] [10.96.0.1] "},
		{"IPv6", both, "PreferDualStack", "", false, "PreferDualStack[IPv4 IPv6] [10.96.0.1 fd00::1] "},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newSim(cluster("west", export("web", "mirror", "http=80")))
			s.settle(t)
			have := *s.Services[ID{"shop", "web-west"}]
			have.ClusterIPs, have.IPFamilies, have.IPFamilyPolicy = tc.ips, families(tc.ips), tc.policy
			delete(have.Annotations, SingleStackKey)
			if tc.mark != "" {
				have.Annotations[SingleStackKey] = tc.mark
			}
			s.Services[have.ID] = &have
			s.IPv4Only = tc.ipv4Only
			if n := len(s.settle(t)); n > 1 {
				t.Errorf("%d writes", n)
			}
			o := s.Services[have.ID]
			if got := fmt.Sprint(o.IPFamilyPolicy, o.IPFamilies, " ", o.ClusterIPs, " ", o.Annotations[SingleStackKey]); got != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
		})
	}
}

// TestNewSingleStack: what is created without IPv6 asks for IPv4 alone, whatever its kind.
func TestNewSingleStack(t *testing.T) {
	s := newSim(cluster("west", export("web", "mirror,federated,import", "http=80")))
	s.IPv4Only = true
	s.settle(t)
	for _, name := range []string{"web-west", "web-federated", "web-clusterset"} {
		o := s.Services[ID{"shop", name}]
		if o.IPFamilyPolicy != "SingleStack" || !slices.Equal(o.IPFamilies, []string{"IPv4"}) || o.Annotations[SingleStackKey] == "" {
			t.Errorf("%s: %s%v %v", name, o.IPFamilyPolicy, o.IPFamilies, o.Annotations)
		}
	}
}
