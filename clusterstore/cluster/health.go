package cluster

import (
	"fmt"
	"strings"

	"isthmus/clusterstore/follow"
	"isthmus/federation"
	"isthmus/internal/adminapi"
	"isthmus/internal/text"
)

// State is the state of a local or linked cluster, as shown on web pages, in logs and in metrics.
type State = adminapi.ClusterState

// The states of a cluster.
const (
	Rejected    = adminapi.Rejected
	Pending     = adminapi.Pending
	Unreachable = adminapi.Unreachable
	Ready       = adminapi.Ready
	Stale       = adminapi.Stale
)

// Status is a user-facing description of the state of a cluster. A Status never contains
// credentials.
type Status = adminapi.ClusterStatus

// NoGatewayAnswers is the StandingReason of a cluster whose Linkerd gateways are all dead.
const NoGatewayAnswers = adminapi.NoGatewayAnswers

// ChangeKind specifies which part of a cluster changed.
type ChangeKind int

// The kinds of changes.
const (
	StateChanged ChangeKind = iota
	StandingChanged
	CredentialsChanged // the cluster is read with new credentials, or new credentials do not work
	GatewayChanged     // a gateway died or recovered
)

// Change is a user-facing description of a change in the local cluster or in a linked cluster. A
// Change never contains credentials.
type Change struct {
	Cluster federation.ClusterName
	Kind    ChangeKind
	Text    string // what changed, and why
	Problem bool   // whether the change is a problem, rather than an improvement
}

// Health reports whether the API of a cluster can be read, and which objects in the cluster cannot
// be used.
type Health struct {
	follow.Health
	// MalformedProxies is the number of meshed Pods whose proxy listen addresses are missing or
	// invalid. If the listen addresses of a Pod's proxy are missing or invalid, other proxies
	// connect to the Pod without a transport header.
	MalformedProxies int
	// Unusable lists malformed objects (Servers, ExternalWorkloads and ServiceProfiles), and
	// namespaces whose Servers exceed a limit. Each entry includes a reason. Isthmus ignores
	// malformed Servers and ExternalWorkloads. A ServiceProfile is still used if its only problem
	// is an invalid timeout or a value that proxies discard. Even an unusable ServiceProfile hides
	// other ServiceProfiles for the same Service.
	Unusable []string
	// RejectedProfiles is the number of ServiceProfiles that cannot be used at all.
	RejectedProfiles int
	// Memory describes the memory that counts toward the cluster's memory cap. Memory is the zero
	// value for a cluster without a memory cap.
	Memory adminapi.Memory
	// API describes the API server, but its Expiry field is not set.
	API adminapi.APIServer
}

// Warnings returns messages about objects that Isthmus ignores or uses only in part.
func (h Health) Warnings() (list []string) {
	if h.MalformedProxies > 0 {
		list = append(list, fmt.Sprintf(
			"meshed Pods with missing or invalid proxy listen addresses (LINKERD2_PROXY_*_LISTEN_ADDR), "+
				"which are served without transport headers: %d", h.MalformedProxies))
	}
	for _, r := range h.Resources {
		if r.Refused == 0 {
			continue
		}
		var some []string
		for _, o := range h.Refused {
			if o.Resource == r.Resource {
				some = append(some, fmt.Sprintf("%s (%s)", text.Clean(o.Key, text.Long), o.Why))
			}
		}
		list = append(list, fmt.Sprintf(
			"%s: the current version of %s exceeds a limit, so the previous version stays in use; "+
				"affected objects include %s",
			r.Resource, text.Count(r.Refused, "object", "objects"), strings.Join(some, ", ")))
	}
	const shown = 10 // users of the cluster may create any number of malformed objects
	for _, text := range h.Unusable[:min(shown, len(h.Unusable))] {
		list = append(list, "left out: "+text)
	}
	if more := len(h.Unusable) - shown; more > 0 {
		list = append(list, fmt.Sprintf("left out besides these: %d more", more))
	}
	return list
}
