package cluster

import "isthmus/internal/adminapi"

// State is the state of a cluster, own or linked, as pages, logs and metrics show it.
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
