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

// checkLinks reports the state and the standing of each cluster, and what of it is not used.
func (g *checked) checkLinks(report *check.Report) {
	own := g.here.Status().ClusterStatus
	checkLink(report, federation.Local.String(), &own)
	for _, l := range g.store.Status() {
		if l.State != cluster.Rejected { // those are reported with their Secrets
			checkLink(report, l.Cluster, &l.ClusterStatus)
		}
		if l.Network != "" && (l.State == cluster.Ready || l.State == cluster.Stale) {
			checkGateways(report, l.Cluster, &l.ClusterStatus)
		}
	}
}

// linkReport adds results about one cluster: one for each thing that is wrong, since each has a
// remedy of its own.
type linkReport struct {
	*check.Report
	check, cluster string
	bad            bool
}

func (r *linkReport) add(level check.Level, text, hint string) {
	r.bad = r.bad || level != check.OK
	r.Add(check.Result{Section: check.SectionLinks, Check: r.check, Object: r.cluster, Level: level, Text: text, Hint: hint})
}

// moreMemory is what to do for a cluster that needs more memory.
const moreMemory = "raise --cluster-memory, and the gateway's memory limit with it"

func checkLink(report *check.Report, name string, s *cluster.Status) {
	r := &linkReport{Report: report, check: check.LinkState, cluster: name}
	text := "it is " + string(s.State)
	out := s.Standing != federation.InService.String() && s.StandingReason != cluster.NoGatewayAnswers // by hand, or lost
	if out && s.State == cluster.Ready {
		text = fmt.Sprintf("it is ready and %s: %s", s.Standing, s.StandingReason)
	} else if s.Reason != "" {
		text += ": " + s.Reason
	}
	switch {
	case s.State == cluster.Ready && out:
		r.add(check.Warning, text, uncordon(name))
	case s.State == cluster.Ready:
		r.add(check.OK, text, "")
	case strings.Contains(s.Reason, budget.ErrOver.Error()):
		r.add(check.Failure, text, "see what it has so much of: isthmus clusters; if it is to be so large, "+moreMemory)
	case s.State == cluster.Pending:
		r.add(check.Warning, text, "it has just been linked: wait, for half a minute at most")
	default:
		r.add(check.Failure, text, "see the checks of its API server and of rights; isthmus clusters shows what can't be read, and since when")
	}
	if out && s.State != cluster.Ready {
		r.add(check.Warning, fmt.Sprintf("it is %s: %s", s.Standing, s.StandingReason), uncordon(name))
	}
	if s.Memory.Near() && s.State == cluster.Ready {
		r.add(check.Warning, fmt.Sprintf("it takes %d %% of the memory that a linked cluster may take", 100*s.Memory.Used/s.Memory.Limit), moreMemory+": beyond its budget a cluster is stale")
	}
	r.check = check.Objects
	for _, text := range s.ObjectWarnings {
		r.add(check.Warning, text, "correct these objects in that cluster, with the owners of their namespaces")
	}
	for _, x := range s.Resources {
		if x.Trouble != "" {
			r.add(check.Warning, x.Resource+": "+x.Trouble, "look at that cluster's API server, and at what stands between it and the gateway")
		}
	}
}

func uncordon(name string) string {
	return "if that is not wanted any more: isthmus uncordon " + name
}

// checkGateways reports whether a cluster on another network can be reached.
func checkGateways(report *check.Report, name string, s *cluster.Status) {
	r := &linkReport{Report: report, check: check.Gateways, cluster: name}
	usable := slices.DeleteFunc(slices.Clone(s.Gateways), func(g adminapi.ClusterGateway) bool {
		return g.State == adminapi.GatewayOutside || g.State == adminapi.GatewayIPv6Off
	})
	var dead []string
	for _, g := range usable {
		if g.State == adminapi.GatewayDead {
			dead = append(dead, fmt.Sprintf("%s (%s)", g.Address, g.Reason))
		}
	}
	const run = "see that the gateway's Pods run, and that its ports mc-gateway and mc-probe can be reached from here"
	switch {
	case len(usable) == 0:
		r.add(check.Failure, "no gateway of it can be used",
			"give the gateway's Service there what Linkerd's multicluster chart does (an address of a load balancer, a port mc-gateway, the annotation mirror.linkerd.io/gateway-identity), "+
				"or name gateways on the link Secret by isthmus.io/gateway-addresses and isthmus.io/gateway-identity, within its isthmus.io/address-ranges if it has these")
	case len(dead) == len(usable):
		r.add(check.Failure, "none of its gateways answers probes: "+strings.Join(dead, ", "), run+"; until one answers, it is served only where a service has no other endpoint")
	case len(dead) > 0:
		r.add(check.Warning, fmt.Sprintf("gateways that do not answer probes, %d of %d: %s", len(dead), len(usable), strings.Join(dead, ", ")), run)
	}
	for _, problem := range s.GatewayProblems {
		r.add(check.Warning, problem, "correct that at the gateway's Service in that cluster, or on the link Secret: isthmus clusters shows each address")
	}
	if !r.bad {
		r.add(check.OK, fmt.Sprintf("it is on network %s, and its gateways have %s", s.Network, addresses(len(s.Gateways))), "")
	}
}
