package check

import (
	"fmt"
	"slices"
	"strings"

	"isthmus/internal/adminapi"
	"isthmus/internal/text"
)

const (
	overBudget = "over budget" // in a Reason
	// moreMemory is what to do for a cluster that needs more memory.
	moreMemory = "raise --cluster-memory, and the gateway's memory limit with it"
)

// checkState reports the state and the standing of the cluster, and what of it is not used. Each thing that is wrong has a remedy of its
// own.
func (l *clusterCheck) checkState() {
	if l.State == "" || l.State == adminapi.Rejected { // no gateway follows it
		return
	}
	add := l.about(sectionLinks, LinkState, l.Cluster.Cluster)
	text := "it is " + string(l.State)
	out := l.Standing != adminapi.InService && l.StandingReason != adminapi.NoGatewayAnswers // by hand, or lost
	if out && l.State == adminapi.Ready {
		text = fmt.Sprintf("it is ready and %s: %s", l.Standing, l.StandingReason)
	} else if l.Reason != "" {
		text += ": " + l.Reason
	}
	uncordon := "if it is no longer wanted: isthmus uncordon " + l.Cluster.Cluster
	switch {
	case l.State == adminapi.Ready && out:
		add(Warning, text, uncordon)
	case l.State == adminapi.Ready:
		add(OK, text, "")
	case strings.Contains(l.Reason, overBudget):
		add(Failure, text, "see what it has so much of: isthmus clusters; if it is to be so large, "+moreMemory)
	case l.State == adminapi.Pending:
		add(Warning, text, "it has just been linked: wait, for half a minute at most")
	default:
		add(Failure, text, "see the checks of its API server and of rights; isthmus clusters shows what can't be read, and since when")
	}
	if out && l.State != adminapi.Ready {
		add(Warning, fmt.Sprintf("it is %s: %s", l.Standing, l.StandingReason), uncordon)
	}
	if l.NewCredentials != "" {
		hint := "undo the last change of its link Secret, or renew the link: " +
			"isthmus link " + l.Cluster.Cluster + " --context CONTEXT --apply"
		if len(l.Awaited) > 0 {
			hint = "let the new credentials list and watch " + strings.Join(l.Awaited, ", ") +
				", in that cluster: kubectl apply -f manifests/link/remote-access.yaml; or " + hint +
				"; docs/links.md has other ways out"
		}
		add(Failure, l.NewCredentials, hint)
	}
	if l.Memory.Near() && l.State == adminapi.Ready {
		add(Warning, fmt.Sprintf("it takes %d %% of the memory that a linked cluster may take", 100*l.Memory.Used/l.Memory.Limit), moreMemory+": beyond its budget a cluster is stale")
	}
	add = l.about(sectionLinks, Objects, l.Cluster.Cluster)
	for _, text := range l.ObjectWarnings {
		add(Warning, text, "correct these objects in that cluster, with the owners of their namespaces")
	}
	for _, x := range l.NeverRead() {
		if x.Failure != adminapi.Forbidden { // which is for the check of permissions to judge
			add(Warning, x.Unread(),
				"see why that cluster's API server can't list them, such as a conversion webhook that does not answer")
		}
	}
	for _, x := range l.Resources {
		if x.Trouble != "" {
			add(Warning, x.Resource+": "+x.Trouble, "look at that cluster's API server, and at what stands between it and the gateway")
		}
	}
	if l.Network != "" && (l.State == adminapi.Ready || l.State == adminapi.Stale) {
		l.checkGateways()
	}
}

// mostLinkedMemory is how much of GOMEMLIMIT all linked clusters together may take without a warning, in percent. The
// alert IsthmusLinkedClustersMemory fires beyond the same share.
const mostLinkedMemory = 50

// checkMemory reports whether all linked clusters together leave memory for the rest. No bound covers all of them.
func checkMemory(r *report, s *Seen) {
	m := s.LinkedMemory()
	if m.Limit == 0 {
		return
	}
	add := r.about(sectionLinks, LinkMemory, "")
	percent := m.Used * 100 / m.Limit
	text := fmt.Sprintf("all linked clusters together take %d %% of the memory limit (GOMEMLIMIT)", percent)
	if m.Used <= m.Limit/100*mostLinkedMemory {
		add(OK, text, "")
		return
	}
	add(Warning, fmt.Sprintf("%s, more than %d %%", text, mostLinkedMemory),
		"raise the memory limit of the container, or lower --cluster-memory, "+
			"which then makes the largest clusters stale")
}

// checkGateways reports whether a cluster on another network can be reached.
func (l *clusterCheck) checkGateways() {
	add := l.about(sectionLinks, Gateways, l.Cluster.Cluster)
	usable := slices.DeleteFunc(slices.Clone(l.Gateways), func(g adminapi.ClusterGateway) bool {
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
		add(Failure, "no Linkerd gateway of it can be used",
			"give the gateway's Service there what Linkerd's multicluster chart does (an address of a load balancer, a port mc-gateway, the annotation mirror.linkerd.io/gateway-identity), "+
				"or name gateways on the link Secret by isthmus.io/gateway-addresses and isthmus.io/gateway-identity, within its isthmus.io/address-ranges if it has these")
	case len(dead) == len(usable):
		add(Failure, "none of its Linkerd gateways answers probes: "+strings.Join(dead, ", "), run+"; until one answers, it is served only where a service has no other endpoint")
	case len(dead) > 0:
		add(Warning, fmt.Sprintf("Linkerd gateways that do not answer probes, %d of %d: %s", len(dead), len(usable), strings.Join(dead, ", ")), run)
	case len(l.GatewayProblems) == 0:
		add(OK, fmt.Sprintf("it is on network %s, and its Linkerd gateways have %s", l.Network, text.Count(len(l.Gateways), "address", "addresses")), "")
	}
	for _, problem := range l.GatewayProblems {
		add(Warning, problem, "correct that at the gateway's Service in that cluster, or on the link Secret: isthmus clusters shows each address")
	}
}
