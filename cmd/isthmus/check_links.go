package main

import (
	"fmt"
	"slices"
	"strings"

	"isthmus/clusterstore/budget"
	"isthmus/clusterstore/check"
	"isthmus/clusterstore/cluster"
	"isthmus/federation"
	"isthmus/internal/adminapi"
)

// checkLinks reports the state and the standing of each cluster.
func (g *checked) checkLinks(report *check.Report) {
	report.Add(linkResult(federation.Local.String(), g.here.Status().ClusterStatus))
	for _, l := range g.store.Status() {
		if l.State != cluster.Rejected { // those are reported with their Secrets
			report.Add(linkResult(l.Cluster, l.ClusterStatus))
		}
		if l.Network != "" && (l.State == cluster.Ready || l.State == cluster.Stale) {
			report.Add(gatewaysResult(l.Cluster, l.ClusterStatus))
		}
	}
}

// moreMemory is what to do for a cluster that needs more memory.
const moreMemory = "raise --cluster-memory, and the gateway's memory limit with it"

func linkResult(name string, s cluster.Status) check.Result {
	x := check.Result{Section: check.SectionLinks, Check: check.LinkState, Object: name, Level: check.OK, Text: "it is " + string(s.State)}
	if s.Reason != "" {
		x.Text += ": " + s.Reason
	}
	over := strings.Contains(s.Reason, budget.ErrOver.Error())
	switch {
	case s.State == cluster.Ready && s.Memory.Near():
		x.Level = check.Warning
		x.Text += fmt.Sprintf(", and takes %d %% of the memory that a linked cluster may take", 100*s.Memory.Used/s.Memory.Limit)
		x.Hint = moreMemory + ": beyond its budget a cluster is stale"
	case s.State == cluster.Ready:
	case over:
		x.Level, x.Hint = check.Failure, "see what it has so much of: isthmus clusters; if it is to be so large, "+moreMemory
	case s.State == cluster.Pending:
		x.Level, x.Hint = check.Warning, "it has just been linked: wait, for half a minute at most"
	default:
		x.Level, x.Hint = check.Failure, "see the checks of its API server and of rights; isthmus clusters shows what can't be read, and since when"
	}
	if s.Standing != federation.InService.String() && x.Level == check.OK && s.StandingReason != cluster.NoGatewayAnswers {
		x.Level, x.Text = check.Warning, fmt.Sprintf("it is ready and %s: %s", s.Standing, s.StandingReason)
		x.Hint = "if that is not wanted any more: isthmus uncordon " + name
	}
	return x
}

// gatewaysResult reports whether a cluster on another network can be reached.
func gatewaysResult(name string, s cluster.Status) check.Result {
	x := check.Result{Section: check.SectionLinks, Check: check.Gateways, Object: name, Level: check.OK, Text: fmt.Sprintf("it is on network %s, and its gateways have %s", s.Network, addresses(len(s.Gateways)))}
	usable := slices.DeleteFunc(slices.Clone(s.Gateways), func(g adminapi.ClusterGateway) bool {
		return g.State == adminapi.GatewayOutside || g.State == adminapi.GatewayIPv6Off
	})
	var dead []string
	for _, g := range usable {
		if g.State == adminapi.GatewayDead {
			dead = append(dead, fmt.Sprintf("%s (%s)", g.Address, g.Reason))
		}
	}
	problems := slices.Clone(s.GatewayProblems)
	switch {
	case len(usable) == 0:
		x.Level, x.Text = check.Failure, "no gateway of it can be used"
		x.Hint = "give the gateway's Service there what Linkerd's multicluster chart does (an address of a load balancer, a port mc-gateway, the annotation mirror.linkerd.io/gateway-identity), " +
			"or name gateways on the link Secret by isthmus.io/gateway-addresses and isthmus.io/gateway-identity, within its isthmus.io/address-ranges if it has these"
	case len(dead) > 0:
		problems = append([]string{"gateways that do not answer probes: " + strings.Join(dead, ", ")}, problems...)
		x.Hint = "see that the gateway's Pods run, and that its ports mc-gateway and mc-probe can be reached from here"
		x.Level, x.Text = check.Warning, fmt.Sprintf("gateway addresses that are dead: %d of %d", len(dead), len(usable))
		if len(dead) == len(usable) {
			x.Level, x.Text = check.Failure, "none of its gateways answers: it is served only where a service has no other endpoint"
		}
	case len(problems) > 0:
		x.Level, x.Hint = check.Warning, "correct that at the gateway's Service in that cluster, or on the link Secret: isthmus clusters shows each address"
	}
	if len(problems) > 0 {
		x.Text += "; " + strings.Join(problems, "; ")
	}
	return x
}
