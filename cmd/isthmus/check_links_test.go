package main

import (
	"fmt"
	"strings"
	"testing"

	"isthmus/clusterstore/check"
	"isthmus/clusterstore/cluster"
	"isthmus/internal/adminapi"
)

func TestLinkResult(t *testing.T) {
	for _, c := range []struct {
		status cluster.Status
		want   string
	}{
		{cluster.Status{State: cluster.Ready, Standing: "in-service"}, "ok it is ready"},
		{cluster.Status{State: cluster.Ready, Standing: "withdrawn", StandingReason: "cordoned"}, "warning it is ready and withdrawn: cordoned"},
		{cluster.Status{State: cluster.Pending, Standing: "in-service"}, "warning it is pending"},
		{cluster.Status{State: cluster.Stale, Standing: "in-service", Reason: "refused"}, "failure it is stale: refused"},
		{cluster.Status{State: cluster.Stale, Standing: "in-service", Reason: "pods: over budget: too much"}, "failure it is stale: pods: over budget: too much"},
		{cluster.Status{State: cluster.Ready, Standing: "in-service", Memory: adminapi.Memory{Used: 900, Limit: 1000}},
			"warning it is ready, and takes 90 % of the memory that a linked cluster may take"},
		{cluster.Status{State: cluster.Unreachable, Standing: "last-resort", Reason: "refused"}, "failure it is unreachable: refused"},
	} {
		x := linkResult("east", c.status)
		if about := strings.Contains(x.Text, "over budget") || c.status.Memory.Near(); about != strings.Contains(x.Hint, "--cluster-memory") {
			t.Errorf("%s: to do: %s", x.Text, x.Hint)
		}
		if got := string(x.Level) + " " + x.Text; got != c.want || (x.Hint == "") != (x.Level == check.OK) {
			t.Errorf("%s (%s), want %s", got, x.Hint, c.want)
		}
	}
}

// TestGatewaysResult: whatever keeps gateways from being used is reported, with a next step.
func TestGatewaysResult(t *testing.T) {
	through := func(states ...string) (list []adminapi.ClusterGateway) {
		for i, state := range states {
			list = append(list, adminapi.ClusterGateway{Address: fmt.Sprintf("192.0.2.%d:4143", i), State: state, Reason: "refused"})
		}
		return list
	}
	for _, c := range []struct {
		gateways   []adminapi.ClusterGateway
		problem    string
		level      check.Level
		text, hint string // parts
	}{
		{through("alive", "not-probed-yet"), "", check.OK, "it is on network far, and its gateways have 2 addresses", ""},
		{nil, "no Service there", check.Failure, "no gateway of it can be used; no Service there", "isthmus.io/gateway-addresses"},
		{through("alive", "dead"), "", check.Warning, "gateway addresses that are dead: 1 of 2; gateways that do not answer probes: 192.0.2.1:4143 (refused)", "mc-probe"},
		{through("dead"), "a name", check.Failure, "none of its gateways answers: it is served only where a service has no other endpoint; gateways that do not answer probes: 192.0.2.0:4143 (refused); a name", "mc-probe"},
		{through("outside-ranges", "dead"), "", check.Failure, "none of its gateways answers: it is served only where a service has no other endpoint; gateways that do not answer probes: 192.0.2.1:4143 (refused)", "mc-probe"},
		{through("ipv6-off", "dead"), "", check.Failure, "none of its gateways answers: it is served only where a service has no other endpoint; gateways that do not answer probes: 192.0.2.1:4143 (refused)", "mc-probe"},
		{through("outside-ranges"), "gateways outside", check.Failure, "no gateway of it can be used; gateways outside", "isthmus.io/address-ranges"},
		{through("not-probed"), "gateways that are not probed", check.Warning, "it is on network far, and its gateways have 1 address; gateways that are not probed", "isthmus clusters"},
	} {
		s := cluster.Status{State: cluster.Ready, Network: "far", Gateways: c.gateways}
		if c.problem != "" {
			s.GatewayProblems = []string{c.problem}
		}
		x := gatewaysResult("east", s)
		if x.Level != c.level || x.Text != c.text || !strings.Contains(x.Hint, c.hint) || (x.Hint == "") != (c.level == check.OK) {
			t.Errorf("%+v, want %v %q %q", x, c.level, c.text, c.hint)
		}
	}
	s := cluster.Status{State: cluster.Ready, Standing: "last-resort", StandingReason: cluster.NoGatewayAnswers}
	if x := linkResult("east", s); x.Level != check.OK {
		t.Errorf("dead gateways are no cordon: %+v", x)
	}
}
