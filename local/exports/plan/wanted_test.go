package plan

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// TestSingleStack checks written Services while IPv6 is not served. A Service becomes SingleStack
// if its first IP is IPv4 and nobody else has set its policy. Once IPv6 is served, only Services
// that Isthmus has made SingleStack change.
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
		{
			"somebody else's policy", both, "RequireDualStack", "", true,
			"RequireDualStack[IPv4 IPv6] [10.96.0.1 fd00::1] ",
		},
		{"set back", both, "PreferDualStack", own, true, "PreferDualStack[IPv4 IPv6] [10.96.0.1 fd00::1] true"},
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
			got := fmt.Sprint(o.IPFamilyPolicy, o.IPFamilies, " ", o.ClusterIPs, " ", o.Annotations[SingleStackKey])
			if got != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
		})
	}
}

// TestNewSingleStack checks that new Services of all kinds request only IPv4 while IPv6 is not
// served.
func TestNewSingleStack(t *testing.T) {
	s := newSim(cluster("west", export("web", "mirror,federated,import", "http=80")))
	s.IPv4Only = true
	s.settle(t)
	for _, name := range []string{"web-west", "web-federated", "web-clusterset"} {
		o := s.Services[ID{"shop", name}]
		families := slices.Equal(o.IPFamilies, []string{"IPv4"})
		if o.IPFamilyPolicy != "SingleStack" || !families || o.Annotations[SingleStackKey] == "" {
			t.Errorf("%s: %s%v %v", name, o.IPFamilyPolicy, o.IPFamilies, o.Annotations)
		}
	}
}

// onlyIPv6 returns an export whose Service has only IPv6.
func onlyIPv6(e Export) Export {
	e.Service.ClusterIPs, e.Service.IPFamilies = []string{"fd00::1"}, []string{"IPv6"}
	return e
}

// TestOnlyIPv6 checks exports with only IPv6 while IPv6 is not served. Without other exports, the
// ServiceImport is not ready. With other exports, the IPv6 exports have a conflict.
func TestOnlyIPv6(t *testing.T) {
	web := func() Export { return export("web", "import", "http=80") }
	const unsupported, noConflict = "IPFamilyNotSupported", "NoConflicts"
	both := web()
	both.Service.IPFamilies = []string{"IPv6", "IPv4"}
	headless := onlyIPv6(web())
	headless.Service.ClusterIPs = []string{"None"}
	gateways := cluster("west", onlyIPv6(web()))
	gateways.OtherNetwork = true
	for _, tc := range []struct {
		name        string
		local       Export
		west        Cluster
		ready       string
		conflict    string // of the local cluster's ServiceExport
		conflicting string // the clusters that the conflict is about
	}{
		{"none", web(), cluster("west", web()), "Ready", noConflict, ""},
		{"all exports", onlyIPv6(web()), cluster("west", onlyIPv6(web())), unsupported, noConflict, ""},
		{"a headless ServiceImport", headless, cluster("west"), unsupported, noConflict, ""},
		{"the local export", onlyIPv6(web()), cluster("west", both), "Ready", "IPFamilyConflict", "local"},
		{"a linked cluster's export", web(), cluster("west", onlyIPv6(web())), "Ready", noConflict, "west"},
		{"a cluster behind gateways", onlyIPv6(web()), gateways, "Ready", "IPFamilyConflict", "local"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newSim(cluster("", tc.local), tc.west)
			s.IPv4Only = true
			s.settle(t)
			if got := s.readyReason(t); got != tc.ready {
				t.Errorf("the ServiceImport's Ready has the reason %s, want %s", got, tc.ready)
			}
			if got, _, _ := strings.Cut(s.condition("web", "Conflict"), " "); got != tc.conflict {
				t.Errorf("the ServiceExport's Conflict has the reason %s, want %s", got, tc.conflict)
			}
			var about string
			for _, c := range s.last.Conflicts {
				_, about, _ = strings.Cut(c.Message, " in the clusters: ")
			}
			if about != tc.conflicting {
				t.Errorf("the conflict is about %q, want %q", about, tc.conflicting)
			}

			s.IPv4Only = false
			s.settle(t)
			if got := s.readyReason(t); got != "Ready" || len(s.last.Conflicts) > 0 {
				t.Errorf("with IPv6, Ready has the reason %s, and the conflicts are %v", got, s.last.Conflicts)
			}
		})
	}
}

// TestOnlyIPv6Unknown checks that Ready and the conflict stay as they are while a new leader does
// not know a cluster's exports.
func TestOnlyIPv6Unknown(t *testing.T) {
	web := func() Export { return export("web", "import", "http=80") }
	for _, tc := range []struct {
		name            string
		west            Export
		ready, conflict string
	}{
		{"west has only IPv6", onlyIPv6(web()), "IPFamilyNotSupported", "NoConflicts"},
		{"west has IPv4", web(), "Ready", "IPFamilyConflict"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newSim(cluster("", onlyIPv6(web())), cluster("west", tc.west))
			s.IPv4Only = true
			s.settle(t)
			s.of("").Exports[0].Exported.Conditions = s.last.Exports[0].Want
			s.of("west").Synced, s.of("west").ServiceExportsSynced, s.of("west").Exports = false, false, nil
			s.memory = Memory{}
			if writes := s.settle(t); len(writes) > 0 {
				t.Errorf("written: %q", writes)
			}
			if got := s.readyReason(t); got != tc.ready {
				t.Errorf("the ServiceImport's Ready has the reason %s, want %s", got, tc.ready)
			}
			if got, _, _ := strings.Cut(s.condition("web", "Conflict"), " "); got != tc.conflict {
				t.Errorf("the ServiceExport's Conflict has the reason %s, want %s", got, tc.conflict)
			}
		})
	}
}
