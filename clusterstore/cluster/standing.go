package cluster

import (
	"time"

	"isthmus/clusterstore/budget"
	"isthmus/clusterstore/follow"
)

// Standing is the state of a cluster, local or linked, as pages, logs and metrics show
// it. Whoever runs the Cluster derives it from [Health] (updateStanding of the link in
// clusterstore, and of the local cluster in local).
type Standing string

// A cluster's standings.
const (
	// Rejected: its link Secret can't be used, or an older one is used.
	Rejected Standing = "rejected"
	// Pending: started, not yet synced.
	Pending Standing = "pending"
	// Unreachable: it has not synced yet, and has failed or taken too long. It is
	// retried.
	Unreachable Standing = "unreachable"
	// Ready: it has synced, and its endpoints are served.
	Ready Standing = "ready"
	// Stale: it was ready, and its API can't be read now. The endpoints that were
	// read before are served.
	Stale Standing = "stale"
)

// Status describes a cluster's state, for people. It never holds credentials.
type Status struct {
	State     Standing                `json:"state"`
	Since     time.Time               `json:"since"`              // since when it has that state
	LastEvent time.Time               `json:"lastEvent,omitzero"` // when anything last came from its API
	Server    string                  `json:"server,omitempty"`   // its API's host and port
	Reason    string                  `json:"reason,omitempty"`   // why it is not ready, as far as known
	Memory    budget.Usage            `json:"memory,omitzero"`    // that it makes the gateway take, by estimate, and may; linked clusters only
	Warnings  []string                `json:"warnings,omitempty"`
	Resources []follow.ResourceHealth `json:"resources,omitempty"`
}
