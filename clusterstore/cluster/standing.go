package cluster

import (
	"time"

	"isthmus/clusterstore/follow"
)

// Standing says how far the gateway is with a cluster, local or linked.
type Standing string

// A cluster's standings.
const (
	// Rejected: its link Secret can't be used, or an older one is.
	Rejected Standing = "rejected"
	// Pending: started, not yet synced.
	Pending Standing = "pending"
	// Unreachable: it has failed or taken too long, nothing is known of the
	// cluster yet, and it is still being tried.
	Unreachable Standing = "unreachable"
	// Ready: the cluster is served.
	Ready Standing = "ready"
	// Stale: it is served as it was when its API was lost.
	Stale Standing = "stale"
)

// Status says how a cluster is doing, for people. It never holds credentials.
type Status struct {
	State     Standing                `json:"state"`
	Since     time.Time               `json:"since"`              // of the standing
	LastEvent time.Time               `json:"lastEvent,omitzero"` // when the cluster was last heard of
	Server    string                  `json:"server,omitempty"`   // its API's host and port
	Reason    string                  `json:"reason,omitempty"`   // why it is not ready, as far as known
	Warnings  []string                `json:"warnings,omitempty"`
	Resources []follow.ResourceHealth `json:"resources,omitempty"`
}
