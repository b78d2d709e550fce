package commands

// verdictWords is a verdict as people read it: why an address is not served, and what to do
// about it, if there is something.
type verdictWords struct{ why, remedy string }

// Verdicts that are no fault. What is behind a gateway is reached through that, which is another address.
const (
	served        = "served"
	behindGateway = "behind-a-gateway"
)

// portUndeclared is that of all addresses of a member, of a Service that the gateway writes.
const portUndeclared = "port-not-declared"

// verdicts has the words for all verdicts of a gateway of this version.
var verdicts = map[string]verdictWords{
	served: {"clients get it", ""},
	"no-such-service": {"the cluster has no such Service, or one of type ExternalName",
		"create the Service in that cluster, or take the cluster out of the definition"},
	"no-such-port": {"its EndpointSlice does not have the port, or not for TCP",
		"no container of the Pod has a TCP port with the name of the Service's targetPort, " +
			"or the slice is not of this Service: kubectl get service,endpointslice,pod -o yaml"},
	"terminating": {"it is not ready, and being shut down", ""},
	"not-ready":   {"it is not ready", "look at its readiness: kubectl describe pod, in its cluster"},
	"stands-for-something-else": {"it stands for something that is neither a Pod nor an ExternalWorkload",
		"correct targetRef in the EndpointSlice, or leave it out"},
	"unusable-text": {"it can't be read, or a text of it can't be sent to proxies",
		"look at the EndpointSlice, and at the Pod's labels, for texts that are too long or not UTF-8"},
	"not-routable": {"no other host can have it: loopback, link-local, multicast, 255.255.255.255, or of 0.0.0.0/8", "correct what writes the EndpointSlice"},
	"pod-not-known": {"the gateway does not know what it stands for, not yet or no longer",
		"see whether that Pod or ExternalWorkload exists in its cluster, and whether the link may read those: isthmus clusters"},
	"unusable":     {"its ExternalWorkload can't be used", "correct the ExternalWorkload"},
	behindGateway:  {"its cluster is on another network: clients reach it through the cluster's gateways", ""},
	"gateway-dead": {"the gateway does not answer probes, and another of its cluster does", "see why it does not answer: isthmus clusters"},
	"nothing-behind-the-gateway": {"the Service has no ready endpoint behind the gateway",
		"look at the Service's Pods in that cluster"},
	portUndeclared: {
		"its own Service does not declare the port for TCP, as members of a Service that the gateway writes must",
		"declare the port with protocol TCP in the Service of that cluster"},
	"just-changed": {"it has just changed", "ask again"},
	"outside-ranges": {"the link may not offer it",
		"correct the address ranges of the link Secret, if that is the cluster's Pod network"},
	"owned-by-local-cluster": {"the gateway's own cluster has it",
		"the networks of the two clusters overlap: only one can be reached"},
	"cluster-cordoned": {"its cluster is withdrawn by hand", "end the cordon, if it is not meant"},
	"cluster-lost":     {"its cluster is withdrawn, since its API is not followed", "see why: isthmus clusters"},
	"taken": {"another member or slice before it has it",
		"if these are different Pods, the networks of the clusters overlap"},
	"other-instance": {"it does not have the hostname that was asked for", ""},
	"other-node": {"traffic stays on the client's node, by internalTrafficPolicy",
		"run its Pods on the client's node too, or set the Service's internalTrafficPolicy to Cluster"},
	"in-no-tier": {"no tier of the preference names it",
		"add a tier such as any to isthmus.io/prefer, if it is to be used"},
	"tier-not-in-use": {"its tier is not needed now", ""},
	"hinted-to-other-zones": {"it is hinted to other zones than the client's",
		"that keeps traffic in its zone; to end it, take trafficDistribution " +
			"and service.kubernetes.io/topology-mode off the Service, or see what writes the hints"},
	"hinted-to-other-nodes": {"it is hinted to other nodes than the client's, which has an endpoint of its own",
		"that keeps traffic on its node; " +
			"to end it, take trafficDistribution off the Service, or see what writes the hints"},
	"ipv6-off":                {"the gateway does not serve IPv6", "run the gateway with --enable-ipv6, if clients can reach it"},
	"other-address-preferred": {"clients get its Pod by an IPv6 address", ""},
}

// ofNode are the verdicts that the client's node decides on.
var ofNode = map[string]bool{"other-node": true, "hinted-to-other-nodes": true, "hinted-to-other-zones": true}

// stateRemedies is what to do about a member's cluster in a state.
var stateRemedies = map[string]string{
	"unlinked":    "no link Secret names the cluster: link it, or take it out of the definition",
	"rejected":    "its link Secret can't be used: correct that",
	"pending":     "the gateway has not read it yet: ask again in some seconds",
	"unreachable": "its API has never answered: isthmus clusters shows why; check server and credentials of its link Secret",
	"stale":       "its API has stopped answering; what it had stays: isthmus clusters shows why",
}
