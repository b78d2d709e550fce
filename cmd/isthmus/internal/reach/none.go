package reach

import (
	"k8s.io/client-go/rest"

	"isthmus/clusterstore/guard"
	"isthmus/clusterstore/typed"
)

// NoGateway is the error where no gateway can be asked: there is none, or none is ready.
type NoGateway struct{ error }

func (e NoGateway) Unwrap() error { return e.error }

// Config returns how the cluster is reached, for clients with limits of their own
// (clusterstore/kube), beneath which are those of [guard.Sized]. It has credentials.
func (c *Cluster) Config() *rest.Config {
	config := rest.CopyConfig(c.config)
	config.WrapTransport = guard.Sized
	return config
}

// API returns the cluster's clients, which are guarded: see [Guard].
func (c *Cluster) API() *typed.Clients { return c.api }
