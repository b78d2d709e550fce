package cluster

import (
	"fmt"
	"strings"

	"isthmus/clusterstore/follow"
	"isthmus/federation"
	"isthmus/internal/adminapi"
	"isthmus/internal/text"
)

// State is the state of a cluster, local or linked, as pages, logs and metrics show it.
type State = adminapi.ClusterState

// A cluster's states.
const (
	Rejected    = adminapi.Rejected
	Pending     = adminapi.Pending
	Unreachable = adminapi.Unreachable
	Ready       = adminapi.Ready
	Stale       = adminapi.Stale
)

// Status describes a cluster's state, for people. It never holds credentials.
type Status = adminapi.ClusterStatus

// NoGatewayAnswers is the StandingReason of a cluster all of whose gateways are dead.
const NoGatewayAnswers = adminapi.NoGatewayAnswers

// ChangeKind is what a Change is about.
type ChangeKind int

// The kinds of changes.
const (
	StateChanged       ChangeKind = iota // the cluster's state
	StandingChanged                      // its standing
	CredentialsChanged                   // it is read with new credentials, or they don't work
	GatewayChanged                       // one of its gateways has died, or answers again
)

// Change is a change of a cluster, local or linked, that whoever runs it reports, for people. It
// never holds credentials.
type Change struct {
	Cluster federation.ClusterName
	Kind    ChangeKind
	Text    string // what has become of it, and why
	Problem bool   // or else it is as it should be
}

// Health shows whether a cluster's API can be read, and which of its objects can't be
// used.
type Health struct {
	follow.Health
	// MalformedProxies counts the meshed Pods whose proxy's listen addresses
	// are missing or can't be read. They are served without transport header.
	MalformedProxies int
	// Unusable lists the malformed Servers, ExternalWorkloads and ServiceProfiles,
	// with the reasons. They are treated as absent, except for ServiceProfiles: if
	// only a part can't be used the rest is, and otherwise the ServiceProfile still
	// hides others for the same Service.
	Unusable []string
	// RejectedProfiles counts the ServiceProfiles that can't be used at all.
	RejectedProfiles int
	// Memory is what counts against the cluster's memory cap. If the cluster has none, it is zero.
	Memory adminapi.Memory
	// API is what is known of its API server, without when the credentials expire.
	API adminapi.APIServer
}

// Warnings describes, for people, the objects that are not, or not fully, used.
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
	const shown = 10 // users of the cluster may write any number of malformed objects
	for _, text := range h.Unusable[:min(shown, len(h.Unusable))] {
		list = append(list, "left out: "+text)
	}
	if more := len(h.Unusable) - shown; more > 0 {
		list = append(list, fmt.Sprintf("left out besides these: %d more", more))
	}
	return list
}
