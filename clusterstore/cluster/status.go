package cluster

import (
	"time"

	"isthmus/clusterstore/budget"
	"isthmus/clusterstore/follow"
)

// State is the state of a cluster, local or linked, as pages, logs and metrics show
// it. Whoever runs the Cluster derives it from [Health] (updateState of the link in
// clusterstore, and of the local cluster in local).
type State string

// A cluster's states.
const (
	// Rejected: its link Secret can't be used, or an older one is used.
	Rejected State = "rejected"
	// Pending: started, not yet synced.
	Pending State = "pending"
	// Unreachable: it has not synced yet, and has failed or taken too long. It is
	// retried.
	Unreachable State = "unreachable"
	// Ready: it has synced, and its endpoints are served.
	Ready State = "ready"
	// Stale: it was ready, and its API can't be read now. The endpoints that were
	// read before are served.
	Stale State = "stale"
)

// Status describes a cluster's state, for people. It never holds credentials.
type Status struct {
	State     State        `json:"state"`
	Since     time.Time    `json:"since"`              // since when it has that state
	LastEvent time.Time    `json:"lastEvent,omitzero"` // when anything last came from its API
	Server    string       `json:"server,omitempty"`   // its API's host and port
	Reason    string       `json:"reason,omitempty"`   // why it is not ready, as far as known
	Memory    budget.Usage `json:"memory,omitzero"`    // that it makes the gateway take, by estimate, and may; linked clusters only
	// Standing is how far its endpoints are taken out of all services, as a
	// federation.Standing is written. StandingReason is why; empty: it is in service.
	Standing       string `json:"standing,omitempty"`
	StandingReason string `json:"standingReason,omitempty"`
	Region         string `json:"region,omitempty"` // where it is; empty: not known
	// Network is set if it is another than the gateway's: the cluster is reached through
	// Gateways then.
	Network  string          `json:"network,omitempty"`
	Gateways []GatewayStatus `json:"gateways,omitempty"`
	// GatewayProblems are those of the Warnings that are about gateways.
	GatewayProblems []string                `json:"-"`
	Warnings        []string                `json:"warnings,omitempty"`
	Resources       []follow.ResourceHealth `json:"resources,omitempty"`
}

// NoGatewayAnswers is the StandingReason of a cluster all of whose gateways are dead.
const NoGatewayAnswers = "none of its gateways answers"

// States of gateways.
const (
	GatewayAlive     = "alive"
	GatewayDead      = "dead"
	GatewayUnknown   = "not-probed-yet"
	GatewayNotProbed = "not-probed"     // it is not known how
	GatewayOutside   = "outside-ranges" // of the link: it is neither probed nor used
	GatewayIPv6Off   = "ipv6-off"       // clients get no IPv6 addresses: likewise
)

// GatewayStatus describes one address of a cluster's gateways, for people.
type GatewayStatus struct {
	Address  string    `json:"address"`
	Name     string    `json:"name,omitempty"` // that was resolved to it
	Identity string    `json:"identity"`
	State    string    `json:"state"`            // such as GatewayAlive
	Since    time.Time `json:"since,omitzero"`   // since when it is alive or dead
	Reason   string    `json:"reason,omitempty"` // why the last probe has failed
}
