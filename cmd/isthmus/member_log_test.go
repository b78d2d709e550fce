package main

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"isthmus/cmd/isthmus/internal/logging"
	"isthmus/federation"
)

// TestReportMemberLimits: a cluster whose members come and go silences no other one,
// and names that are not linked share one limit.
func TestReportMemberLimits(t *testing.T) {
	core, seen := observer.New(zap.InfoLevel)
	report := reportMember(zap.New(logging.Limit(core)))
	id := federation.ServiceID{Namespace: "shop", Name: "web-federated"}
	for i := range 1000 {
		for cluster, link := range map[string]federation.LinkState{"east": federation.Ready, "north": federation.Pending, fmt.Sprint("no-such-", i): federation.Unlinked} {
			report(id, federation.Member{Cluster: federation.ClusterName(cluster), Service: id}, federation.MemberStatus{Link: link})
		}
	}
	lines := make(map[string]int)
	for _, e := range seen.All() {
		cluster, _ := e.ContextMap()["cluster"].(string)
		lines[strings.TrimRight(cluster, "0123456789")]++
	}
	for _, who := range []string{"east", "north", "no-such-"} {
		if n := lines[who]; n < logging.Burst || n > logging.Burst+10 { // one more each second
			t.Errorf("%d lines about %s", n, who)
		}
	}
}

func TestReportMember(t *testing.T) {
	core, seen := observer.New(zap.InfoLevel)
	report := reportMember(zap.New(core))
	id := federation.ServiceID{Namespace: "shop", Name: "web-federated"}
	m := federation.Member{Cluster: "east", Service: federation.ServiceID{Namespace: "shop", Name: "web"}}
	report(id, m, federation.MemberStatus{Link: federation.Ready, Service: federation.Missing})
	report(id, m, federation.MemberStatus{Link: federation.Ready, Service: federation.Present})
	var got []string
	for _, e := range seen.All() {
		f := e.ContextMap()
		if f["service"] != "shop/web-federated" || f["cluster"] != "east" || f["member"] != "shop/web" {
			t.Errorf("fields %v", f)
		}
		reason, _ := f["reason"].(string)
		got = append(got, e.Message+" "+reason)
	}
	if want := []string{"member of a service does not serve no such Service in the cluster", "member of a service serves again "}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestReportAddresses: a line names both who offers an address and who has it, and a
// cluster that comes up with ever more of them silences no other one.
func TestReportAddresses(t *testing.T) {
	core, seen := observer.New(zap.InfoLevel)
	refused, conflict := reportAddresses(zap.New(logging.Limit(core)))
	id := federation.ServiceID{Namespace: "shop", Name: "web"}
	addr := netip.MustParseAddrPort("10.0.0.1:80")
	for range 1000 {
		refused(id, 80, federation.Member{Cluster: "evil", Service: id}, federation.Refusal{Addr: addr, Owner: "Pod shop/mine"}, 2)
	}
	refused(id, 80, federation.Member{Cluster: "east", Service: id}, federation.Refusal{Addr: addr}, 1)
	conflict(id, 80, federation.Member{Cluster: "north", Service: id}, federation.Conflict{Addr: addr, Winner: federation.Member{Cluster: "east", Service: id}})
	first := make(map[string]string)
	lines := make(map[string]int)
	for _, e := range seen.All() {
		f := e.ContextMap()
		who, _ := f["cluster"].(string)
		lines[who]++
		first[who] = fmt.Sprint(e.Message, ": ", f["service"], " ", f["port"], " ", f["member"], ": ", f["first"])
	}
	if n := lines["evil"]; n < logging.Burst || n > logging.Burst+10 {
		t.Errorf("%d lines about evil", n)
	}
	for who, want := range map[string]string{
		"evil":  "addresses that a cluster offers are refused: shop/web 80 shop/web: 10.0.0.1:80 belongs to Pod shop/mine of the local cluster",
		"east":  "addresses that a cluster offers are refused: shop/web 80 shop/web: 10.0.0.1:80 is outside the address ranges of the link",
		"north": "an address that a member offers is another member's: shop/web 80 shop/web: 10.0.0.1:80 is sent from shop/web of cluster east",
	} {
		if first[who] != want {
			t.Errorf("%s: %q, want %q", who, first[who], want)
		}
	}
}
