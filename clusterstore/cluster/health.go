package cluster

import (
	"fmt"
	"strings"

	"isthmus/clusterstore/follow"
	"isthmus/federation"
	"isthmus/internal/adminapi"
	"isthmus/internal/text"
)

// State is the state of a local or linked cluster, as pages, logs and metrics show it.
type State = adminapi.ClusterState

// The states of a cluster.
const (
	Rejected    = adminapi.Rejected
	Pending     = adminapi.Pending
	Unreachable = adminapi.Unreachable
	Ready       = adminapi.Ready
	Stale       = adminapi.Stale
)

// Status describes a cluster's state for people. Status never contains credentials.
type Status = adminapi.ClusterStatus

// NoGatewayAnswers is the StandingReason of a cluster whose Linkerd gateways are all dead.
const NoGatewayAnswers = adminapi.NoGatewayAnswers

// ChangeKind says what a Change is about.
type ChangeKind int

// The kinds of changes.
const (
	StateChanged       ChangeKind = iota // the cluster's state
	StandingChanged                      // its standing
	CredentialsChanged                   // the cluster is read with new credentials, or they do not work
	GatewayChanged                       // a gateway has died or answers again
)

// Change is a change of a local or linked cluster that is reported to people. Change never contains
// credentials.
type Change struct {
	Cluster federation.ClusterName
	Kind    ChangeKind
	Text    string // what has changed, and why
	Problem bool   // false if the cluster is as it should be
}

// Health says whether a cluster's API can be read, and which of its objects cannot be used.
type Health struct {
	follow.Health
	// MalformedProxies is the number of meshed Pods whose proxy's listen addresses are missing or
	// unreadable. Such Pods are served without transport header.
	MalformedProxies int
	// Unusable lists the malformed Servers, ExternalWorkloads and ServiceProfiles, with the
	// reasons. Malformed objects are treated as absent, except for ServiceProfiles. If only a part
	// of a ServiceProfile cannot be used, the rest is used. A ServiceProfile that is unusable as a
	// whole still hides other ServiceProfiles for the same Service.
	Unusable []string
	// RejectedProfiles is the number of ServiceProfiles that cannot be used at all.
	RejectedProfiles int
	// Memory is the memory that counts against the cluster's memory cap. Without a cap, it is zero.
	Memory adminapi.Memory
	// API describes the API server, except for when the credentials expire.
	API adminapi.APIServer
}

// Warnings describes, for people, the objects that are not used or only partly used.
func (h Health) Warnings() (list []string) {
	if h.MalformedProxies > 0 {
		list = append(list, fmt.Sprintf(
			"meshed pods without readable proxy listen addresses (LINKERD2_PROXY_*_LISTEN_ADDR), "+
				"served without transport header: %d", h.MalformedProxies))
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
			"%s that are not read, so that what was read of them before stays: %d, such as %s",
			r.Resource, r.Refused, strings.Join(some, ", ")))
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
