package commands

import (
	"context"

	"k8s.io/client-go/rest"

	"isthmus/clusterstore/kube"
	"isthmus/cmd/isthmus/internal/check"
)

// Preflight is what is checked where there is no gateway.
type Preflight struct {
	Config    *rest.Config  // how a user reaches the cluster
	API       *kube.Clients // the same, for lists of Secrets
	Namespace string        // where a gateway is to run
	Account   string        // its ServiceAccount there
	Pre       bool          // before an installation: the account need not be there yet
	Exports   bool          // it is to write Services for exports
}

// Preflighter looks from here at what a gateway shows.
type Preflighter func(context.Context, Preflight) check.Seen
