package cluster

import "isthmus/federation"

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
