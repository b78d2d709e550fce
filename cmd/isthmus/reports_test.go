package main

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"isthmus/clusterstore/cluster"
	"isthmus/cmd/isthmus/internal/logging"
	"isthmus/federation"
)

// observed returns reports, and the lines that they log, each with the fields named.
func observed() (*reports, func(fields ...string) []string) {
	core, seen := observer.New(zap.InfoLevel)
	return newReports(zap.New(logging.Limit(core))), func(fields ...string) (lines []string) {
		for _, e := range seen.TakeAll() {
			line := []any{e.Message}
			for _, f := range fields {
				line = append(line, e.ContextMap()[f])
			}
			lines = append(lines, fmt.Sprintln(line...))
		}
		return lines
	}
}

// TestReports: what is logged of members and their addresses.
func TestReports(t *testing.T) {
	r, lines := observed()
	id, addr := shopID("web-federated"), netip.MustParseAddrPort("10.0.0.1:80")
	m := federation.Member{Cluster: "east", Service: shopID("web")}
	r.member(id, m, federation.MemberStatus{Link: federation.Ready, Service: federation.Missing})
	r.member(id, m, federation.MemberStatus{Link: federation.Ready, Service: federation.Present})
	r.refused(id, 80, m, federation.Refusal{Addr: addr, Owner: "Pod shop/mine"}, 2)
	r.conflict(id, 80, m, federation.Conflict{Addr: addr, Winner: federation.Member{Cluster: "north", Service: shopID("web")}})
	const of = " shop/web-federated east shop/web "
	want := []string{
		"member of a service does not serve" + of + "no such Service in the cluster <nil> <nil> <nil>\n",
		"member of a service serves again" + of + "<nil> <nil> <nil> <nil>\n",
		"addresses that a cluster offers are refused" + of + "<nil> 80 2 10.0.0.1:80 belongs to Pod shop/mine of the local cluster\n",
		"an address that a member offers is another member's" + of + "<nil> 80 <nil> 10.0.0.1:80 is sent from shop/web of cluster north\n",
	}
	if got := lines("service", "cluster", "member", "reason", "port", "refused", "first"); !slices.Equal(got, want) {
		t.Errorf("lines\n %q, want\n %q", got, want)
	}
}

// TestReportsHaveLimits: a cluster, or a namespace, that changes all the time silences no other one, and names that are not linked
// share one limit.
func TestReportsHaveLimits(t *testing.T) {
	r, lines := observed()
	id := shopID("web")
	for i := range 1000 {
		for cluster, link := range map[string]federation.LinkState{"east": federation.Ready, "north": federation.Pending, fmt.Sprint("no-such-", i): federation.Unlinked} {
			r.member(id, federation.Member{Cluster: federation.ClusterName(cluster), Service: id}, federation.MemberStatus{Link: link})
		}
		r.refused(id, 80, federation.Member{Cluster: "evil", Service: id}, federation.Refusal{}, 2)
		r.tiers(federation.TierChange{Service: federation.ServiceID{Namespace: "flaps", Name: "web"}, Preference: &federation.Preference{}, From: 1, To: 2})
	}
	r.refused(id, 80, federation.Member{Cluster: "east", Service: id}, federation.Refusal{}, 1)
	r.tiers(federation.TierChange{Service: id, Preference: &federation.Preference{}, From: 1, To: 2})
	count := make(map[string]int)
	for _, line := range lines("service", "cluster") {
		count[strings.TrimRight(line, "0123456789\n")]++
	}
	for line, want := range map[string]int{
		"member of a service does not serve shop/web east": logging.Burst, "member of a service does not serve shop/web north": logging.Burst, "member of a service does not serve shop/web no-such-": logging.Burst,
		"addresses that a cluster offers are refused shop/web evil": logging.Burst, "addresses that a cluster offers are refused shop/web east": 1,
		"clients use more tiers of a service flaps/web <nil>": logging.Burst, "clients use more tiers of a service shop/web <nil>": 1,
	} {
		if n := count[line]; n < want || n > want+10 { // one more each second
			t.Errorf("%d times %q", n, line)
		}
	}
}

// TestReportsOfTiers: a line for each change names the tiers in use since then, and why.
func TestReportsOfTiers(t *testing.T) {
	r, lines := observed()
	w := newTiered(t, federation.Preference{ReturnAfter: time.Minute}, federation.Options{ReportTiers: r.tiers})
	w.local()
	w.local("10.0.0.1:80")
	w.now = w.now.Add(time.Minute)
	w.Tick()
	var want []string
	for _, zone := range []string{"", "a"} {
		want = append(want, fmt.Sprintf("clients use more tiers of a service shop/web %s 1 2 local, east+north local: 0 ready, min-ready is 1\n", zone),
			fmt.Sprintf("clients use fewer tiers of a service shop/web %s 2 1 local local: 1 ready, min-ready is 1\n", zone))
	}
	got := lines("service", "zone", "from", "to", "tiers", "why")
	slices.Sort(got) // zones come in any order
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("lines\n %q, want\n %q", got, want)
	}
}

// TestEvents: what is an event, and how it reads.
func TestEvents(t *testing.T) {
	r, _ := observed()
	r.cluster(cluster.Change{Cluster: "east", Text: "stale: gone", Problem: true})
	r.cluster(cluster.Change{Cluster: "east", Kind: cluster.StandingChanged, Text: "withdrawn: lost"})
	r.cluster(cluster.Change{Kind: cluster.CredentialsChanged, Text: "new credentials are in use"})
	r.cluster(cluster.Change{Cluster: "east", Kind: cluster.GatewayChanged, Text: "answers again"})
	r.cluster(cluster.Change{Cluster: "east", Kind: cluster.ObjectDrifted, Text: "pods shop/web-1: it was missing", Problem: true})
	r.stalled("web.shop.svc.cluster.local:80")
	r.tiers(federation.TierChange{Service: shopID("web"), Zone: "a", Preference: &federation.Preference{}, From: 1, To: 2, Why: "why"})
	r.tiers(federation.TierChange{Service: shopID("web"), Preference: &federation.Preference{}, From: 2, To: 1, Why: "why"})
	var got []string
	for _, e := range (&pages{events: r.events}).eventsPage().Events {
		got = append(got, fmt.Sprint(e.Kind, " ", e.Object, " ", e.Problem, " ", e.Text))
	}
	slices.Sort(got)
	if want := []string{
		"cluster east true stale: gone", "drift east true pods shop/web-1: it was missing", "gateway east false answers again", "rotation local false new credentials are in use",
		"stall web.shop.svc.cluster.local:80 true a stream ended: its proxy takes no updates", "standing east false withdrawn: lost",
		"tier shop/web false clients use fewer tiers: any (why)", "tier shop/web true clients in zone a use more tiers: any, last-resort (why)",
	}; !slices.Equal(got, want) {
		t.Errorf("events %q, want %q", got, want)
	}
}
