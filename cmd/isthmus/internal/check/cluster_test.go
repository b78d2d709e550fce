package check

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"isthmus/clusterstore/follow"
	"isthmus/internal/adminapi"
)

// goodCluster returns a linked cluster without problems.
func goodCluster(name string) adminapi.Cluster {
	anchors := &adminapi.TrustAnchors{List: []adminapi.Anchor{{SHA256: "a", Expires: time.Now().Add(1000 * time.Hour)}}}
	return adminapi.Cluster{
		Cluster: name, Secret: "link-" + name,
		ClusterStatus: adminapi.ClusterStatus{State: adminapi.Ready, Standing: adminapi.InService,
			API: &adminapi.APIServer{
				Answered: time.Now(), Clock: &adminapi.Clock{Within: 0.5}, Version: "v1.36.3", Anchors: anchors,
				Networks: &adminapi.PodNetworks{},
			}},
	}
}

// goodInput returns the pages of a replica without problems.
func goodInput() Input {
	return Input{Clusters: adminapi.Clusters{
		Local: goodCluster("local"), Secrets: adminapi.LinkSecrets{Namespace: "linkerd", Listed: true},
		Clusters: []adminapi.Cluster{goodCluster("east")},
	}}
}

// linkFound returns the results of some checks of a cluster, one per line. The test fails if a
// result that is not OK has no hint.
func linkFound(t *testing.T, s adminapi.ClusterStatus, checks ...string) (lines, hints []string) {
	t.Helper()
	seen := goodInput()
	s.API = seen.Clusters.Clusters[0].API
	seen.Clusters.Clusters[0].ClusterStatus = s
	for _, x := range Judge(seen) {
		if x.Object != "east" || !slices.Contains(checks, x.Check) {
			continue
		}
		if (x.Hint == "") != (x.Level == OK) {
			t.Errorf("%+v", x)
		}
		lines, hints = append(lines, fmt.Sprintf("%s %s", x.Level, x.Text)), append(hints, x.Hint)
	}
	return lines, hints
}

// TestOverBudget checks that check recognizes the reason "over budget".
func TestOverBudget(t *testing.T) {
	if !strings.Contains(follow.ErrOverBudget.Error(), overBudget) {
		t.Errorf("%v does not contain %q", follow.ErrOverBudget, overBudget)
	}
}

// TestLinkedMemory checks the warning that all linked clusters together use more than half of the
// memory limit. Without a memory limit, there is no result.
func TestLinkedMemory(t *testing.T) {
	for _, c := range []struct {
		limit, east, west int64
		want              string
	}{
		{1000, 200, 300, "ok the caches of all linked clusters together use 50% of the memory limit (GOMEMLIMIT)"},
		{
			1000, 200, 310,
			"warning the caches of all linked clusters together use 51% of the memory limit (GOMEMLIMIT), " +
				"more than 50%",
		},
		{1000, 0, 0, "ok the caches of all linked clusters together use 0% of the memory limit (GOMEMLIMIT)"},
		{0, 1 << 40, 0, ""},
	} {
		seen := goodInput()
		seen.MemoryLimit = c.limit
		seen.Clusters.Clusters = append(seen.Clusters.Clusters, goodCluster("west"))
		seen.Clusters.Clusters[0].Memory.Used = c.east
		seen.Clusters.Clusters[1].Memory.Used = c.west
		got := ""
		for _, x := range Judge(seen) {
			if x.Check != LinkMemory {
				continue
			}
			got += fmt.Sprintf("%s %s", x.Level, x.Text)
			if (x.Hint == "") != (x.Level == OK) {
				t.Errorf("%+v", x)
			}
		}
		if got != c.want {
			t.Errorf("%d and %d of %d: %q, want %q", c.east, c.west, c.limit, got, c.want)
		}
	}
}

func TestCheckLink(t *testing.T) {
	for _, c := range []struct {
		status adminapi.ClusterStatus
		want   []string
	}{
		{adminapi.ClusterStatus{State: adminapi.Ready, Standing: "in-service"}, []string{"ok it is ready"}},
		{adminapi.ClusterStatus{State: adminapi.Ready, Standing: "withdrawn", StandingReason: "cordoned"},
			[]string{"warning it is ready and withdrawn: cordoned"}},
		{adminapi.ClusterStatus{State: adminapi.Pending, Standing: "in-service"}, []string{"warning it is pending"}},
		{adminapi.ClusterStatus{State: adminapi.Stale, Standing: "in-service", Reason: "refused"},
			[]string{"failure it is stale: refused"}},
		{adminapi.ClusterStatus{State: adminapi.Stale, Standing: "withdrawn", StandingReason: "cordoned",
			Reason: "refused"}, []string{"failure it is stale: refused", "warning it is withdrawn: cordoned"}},
		{adminapi.ClusterStatus{State: adminapi.Stale, Standing: "in-service", Reason: "pods: over budget: too much"},
			[]string{"failure it is stale: pods: over budget: too much"}},
		{adminapi.ClusterStatus{State: adminapi.Ready, Standing: "in-service",
			Memory: adminapi.Memory{Used: 900, Limit: 1000}},
			[]string{"ok it is ready",
				"warning the cache of the cluster uses 90% of the memory cap for a linked cluster"}},
		{adminapi.ClusterStatus{State: adminapi.Ready, Standing: "withdrawn", StandingReason: "cordoned",
			Memory: adminapi.Memory{Used: 900, Limit: 1000}},
			[]string{"warning it is ready and withdrawn: cordoned",
				"warning the cache of the cluster uses 90% of the memory cap for a linked cluster"}},
		{adminapi.ClusterStatus{State: adminapi.Unreachable, Standing: "last-resort", StandingReason: "lost",
			Reason: "refused"}, []string{"failure it is unreachable: refused", "warning it is last-resort: lost"}},
		{adminapi.ClusterStatus{State: adminapi.Ready, Standing: "last-resort",
			StandingReason: adminapi.NoGatewayAnswers}, []string{"ok it is ready"}}, // dead gateways are not a cordon
		{adminapi.ClusterStatus{State: adminapi.Ready, Standing: "in-service",
			ObjectWarnings: []string{"left out: a", "left out: b"},
			Resources:      []adminapi.Resource{{Resource: "pods", Trouble: "it ends watches"}}},
			[]string{"ok it is ready", "warning left out: a", "warning left out: b", "warning pods: it ends watches"}},
	} {
		lines, hints := linkFound(t, c.status, LinkState, Objects)
		if !slices.Equal(lines, c.want) {
			t.Errorf("%q, want %q", lines, c.want)
		}
		if about := strings.Contains(c.status.Reason, "over budget") ||
			c.status.Memory.Near(); about != strings.Contains(strings.Join(hints, " "), "--cluster-memory") {
			t.Errorf("%q: hints: %q", lines, hints)
		}
	}
}

// TestCheckGateways checks that every reason why gateways can't be used is reported with a hint.
func TestCheckGateways(t *testing.T) {
	through := func(states ...string) (list []adminapi.ClusterGateway) {
		for i, state := range states {
			list = append(list,
				adminapi.ClusterGateway{Address: fmt.Sprintf("192.0.2.%d:4143", i), State: state, Reason: "refused"})
		}
		return list
	}
	for _, c := range []struct {
		gateways []adminapi.ClusterGateway
		problems []string
		want     []string
		hint     string // part of the first hint
	}{
		{through("alive", "not-probed-yet"), nil,
			[]string{"ok the cluster is on network far, and its Linkerd gateways have 2 addresses"}, ""},
		{nil, []string{"no Service there"},
			[]string{"failure none of the cluster's Linkerd gateways can be used", "warning no Service there"},
			"isthmus.io/gateway-addresses"},
		{through("alive", "dead"), nil,
			[]string{"warning 1 of 2 Linkerd gateways do not answer probes: 192.0.2.1:4143 (refused)"},
			"mc-probe"},
		{through("dead"), []string{"a name"},
			[]string{"failure none of the cluster's Linkerd gateways answers probes: 192.0.2.0:4143 (refused)",
				"warning a name"}, "if they have no other endpoints"},
		{through("outside-ranges", "dead"), nil,
			[]string{"failure none of the cluster's Linkerd gateways answers probes: " +
				"192.0.2.1:4143 (refused)"}, "mc-probe"},
		{through("ipv6-off", "dead"), nil,
			[]string{"failure none of the cluster's Linkerd gateways answers probes: " +
				"192.0.2.1:4143 (refused)"}, "mc-probe"},
		{through("outside-ranges"), []string{"gateways outside"},
			[]string{"failure none of the cluster's Linkerd gateways can be used", "warning gateways outside"},
			"isthmus.io/address-ranges"},
		{through("not-probed"), []string{"gateways that are not probed"},
			[]string{"warning gateways that are not probed"}, "isthmus clusters"},
	} {
		lines, hints := linkFound(t,
			adminapi.ClusterStatus{State: adminapi.Ready, Network: "far", Gateways: c.gateways,
				GatewayProblems: c.problems}, Gateways)
		if !slices.Equal(lines, c.want) || !strings.Contains(hints[0], c.hint) {
			t.Errorf("%q, want %q; hints: %q", lines, c.want, hints)
		}
	}
}

// TestRoughly checks that a duration is rounded rather than truncated, and that it is off by at
// most a quarter.
func TestRoughly(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0 seconds", 900 * time.Millisecond: "1 second", 113 * time.Second: "113 seconds",
		114 * time.Second: "2 minutes", 150 * time.Second: "3 minutes",
		113 * time.Minute: "113 minutes", 2*time.Hour - time.Second: "2 hours", 45 * time.Hour: "45 hours",
		48*time.Hour - time.Second: "2 days",
		60*time.Hour + time.Second: "3 days", 7*24*time.Hour - time.Second: "7 days",
	} {
		if got := roughly(d); got != want {
			t.Errorf("%v: %s, want %s", d, got, want)
		}
	}
}

// TestClock checks that a clock skew is found if it exceeds the uncertainty of the measurement.
func TestClock(t *testing.T) {
	for _, c := range []struct {
		clock adminapi.Clock
		want  []string
	}{
		{adminapi.Clock{Ahead: 0.9, Within: 0.5}, nil}, {adminapi.Clock{Ahead: -29, Within: 0.5}, nil},
		{adminapi.Clock{Ahead: 120, Within: 0.5}, []string{"warning clock-skew east: its clock is 2 minutes ahead"}},
		{adminapi.Clock{Ahead: -3600, Within: 0.5},
			[]string{"failure clock-skew east: its clock is 60 minutes behind"}},
	} {
		seen := goodInput()
		seen.Clusters.Clusters[0].API.Clock = &c.clock
		if got := found(seen); !slices.Equal(got, c.want) {
			t.Errorf("%+v: %q, want %q", c.clock, got, c.want)
		}
	}
}
