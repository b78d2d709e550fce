package server

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"isthmus/cmd/isthmus/internal/cmdtest"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"isthmus/clusterstore/cluster"
	"isthmus/federation"
)

// observed returns reports and a function for their log lines. The lines have the named fields, or
// all fields.
func observed() (*reports, func(fields ...string) []string) {
	core, seen := observer.New(zap.InfoLevel)
	return newReports(zap.New(limited(core))), func(fields ...string) (lines []string) {
		for _, e := range seen.TakeAll() {
			line := []any{e.Message}
			if len(fields) == 0 {
				line = append(line, e.ContextMap())
			}
			for _, f := range fields {
				line = append(line, e.ContextMap()[f])
			}
			lines = append(lines, fmt.Sprintln(line...))
		}
		return lines
	}
}

// TestReports checks the log lines about members, their addresses and tiers.
func TestReports(t *testing.T) {
	r, lines := observed()
	id, addr := cmdtest.ShopID("web-federated"), netip.MustParseAddrPort("10.0.0.1:80")
	m := federation.Member{Cluster: "east", Service: cmdtest.ShopID("web")}
	r.member(id, m, federation.MemberStatus{Link: federation.Ready, Service: federation.Missing})
	r.member(id, m, federation.MemberStatus{Link: federation.Ready, Service: federation.Present})
	r.refused(id, 80, m, federation.Refusal{Addr: addr, Owner: "Pod shop/mine"}, 2)
	r.tiers(
		federation.TierChange{
			Service:    id,
			Zone:       "a",
			Preference: &federation.Preference{Tiers: []federation.Tier{{{Kind: federation.LocalCluster}}}},
			From:       1,
			To:         2,
			Why:        "spill",
		},
	)
	const of = "cluster:east%s member:shop/web%s service:shop/web-federated]\n"
	want := []string{
		"member of a service does not serve map[" + fmt.Sprintf(of, "", " reason:no such Service in the cluster"),
		"member of a service serves again map[" + fmt.Sprintf(of, "", ""),
		"addresses of a cluster are rejected map[" + fmt.Sprintf(
			of,
			" first:10.0.0.1:80 is assigned to Pod shop/mine in the local cluster",
			" port:80 refused:2",
		),
		"clients use more tiers of a service map[from:1 service:shop/web-federated tiers:local, " +
			"last-resort to:2 why:spill zone:a]\n",
	}
	if got := lines(); !slices.Equal(got, want) {
		t.Errorf("lines\n %q, want\n %q", got, want)
	}
}

// TestReportsHaveLimits checks that a cluster or namespace that changes all the time does not
// suppress log lines of others. Clusters that are not linked share one limit.
func TestReportsHaveLimits(t *testing.T) {
	r, lines := observed()
	id := cmdtest.ShopID("web")
	for i := range 1000 {
		for cluster, link := range map[string]federation.LinkState{
			"east":                    federation.Ready,
			"north":                   federation.Pending,
			fmt.Sprint("no-such-", i): federation.Unlinked,
		} {
			r.member(
				id,
				federation.Member{Cluster: federation.ClusterName(cluster), Service: id},
				federation.MemberStatus{Link: link},
			)
		}
		r.refused(id, 80, federation.Member{Cluster: "evil", Service: id}, federation.Refusal{}, 2)
		r.tiers(
			federation.TierChange{
				Service:    federation.ServiceID{Namespace: "flaps", Name: "web"},
				Preference: &federation.Preference{},
				From:       1,
				To:         2,
			},
		)
	}
	r.refused(id, 80, federation.Member{Cluster: "east", Service: id}, federation.Refusal{}, 1)
	r.tiers(federation.TierChange{Service: id, Preference: &federation.Preference{}, From: 1, To: 2})
	count := make(map[string]int)
	for _, line := range lines("service", "cluster") {
		count[strings.TrimRight(line, "0123456789\n")]++
	}
	for line, want := range map[string]int{
		"member of a service does not serve shop/web east":     logBurst,
		"member of a service does not serve shop/web north":    logBurst,
		"member of a service does not serve shop/web no-such-": logBurst,
		"addresses of a cluster are rejected shop/web evil":    logBurst,
		"addresses of a cluster are rejected shop/web east":    1,
		"clients use more tiers of a service flaps/web <nil>":  logBurst,
		"clients use more tiers of a service shop/web <nil>":   1,
	} {
		if n := count[line]; n < want || n > want+10 { // plus one line per second
			t.Errorf("got %d lines %q", n, line)
		}
	}
}

// TestEvents checks which changes are events, and their texts.
func TestEvents(t *testing.T) {
	r, _ := observed()
	r.cluster(cluster.Change{Cluster: "east", Text: "stale: gone", Problem: true})
	r.cluster(cluster.Change{Cluster: "east", Kind: cluster.StandingChanged, Text: "withdrawn: lost"})
	r.cluster(cluster.Change{Kind: cluster.CredentialsChanged, Text: "new credentials are in use"})
	r.cluster(cluster.Change{Cluster: "east", Kind: cluster.GatewayChanged, Text: "answers again"})
	r.stalled("web.shop.svc.cluster.local:80")
	r.tiers(
		federation.TierChange{
			Service:    cmdtest.ShopID("web"),
			Zone:       "a",
			Preference: &federation.Preference{},
			From:       1,
			To:         2,
			Why:        "why",
		},
	)
	r.tiers(
		federation.TierChange{
			Service:    cmdtest.ShopID("web"),
			Preference: &federation.Preference{},
			From:       2,
			To:         1,
			Why:        "why",
		},
	)
	var got []string
	for _, e := range r.events.Newest() {
		got = append(got, fmt.Sprint(e.Kind, " ", e.Object, " ", e.Problem, " ", e.Text))
	}
	slices.Sort(got)
	if want := []string{
		"cluster east true stale: gone", "gateway east false answers again",
		"rotation local false new credentials are in use",
		"stall web.shop.svc.cluster.local:80 true a stream ended because its proxy did not read updates",
		"standing east false withdrawn: lost",
		"tier shop/web false clients use fewer tiers: any (why)",
		"tier shop/web true clients in zone a use more tiers: any, last-resort (why)",
	}; !slices.Equal(got, want) {
		t.Errorf("events %q, want %q", got, want)
	}
}
