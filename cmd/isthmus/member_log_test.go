package main

import (
	"fmt"
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
