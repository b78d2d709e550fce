package cluster

import (
	"net/netip"
	"time"

	"isthmus/federation"
)

// Own is the gateway's own cluster. Besides its endpoints it has what profiles are made of, who
// has an address, and the zones of its Nodes. All methods but Run are safe for concurrent use.
type Own struct{ *Cluster }

// OwnConfig is called when what only the own cluster has may have changed. All functions are
// needed, and none may block but ProfileChanged.
type OwnConfig struct {
	// ServiceChanged is called for every Service added, changed or deleted, in order, from one goroutine.
	ServiceChanged func(federation.ServiceID)
	// NodeChanged gets every Node added, changed or deleted, in order, from one goroutine.
	NodeChanged func(name, zone string, exists bool)
	// ProfileChanged is called when a result of LookupAddress, Instance, ServiceProfile or Service may
	// have changed; at is when the first event behind it came. It has a goroutine of its own, so that
	// it does not wait for Config.Changed.
	ProfileChanged func(about Topic, at time.Time)
	// OwnerChanged is called when the result of Owner for an address may have changed. It has a
	// goroutine of its own.
	OwnerChanged func(netip.Addr)
}

// NewOwn checks the configuration. It does no network IO and starts nothing.
func NewOwn(cfg Config, own OwnConfig) (*Own, error) {
	cfg.own = &own
	c, err := New(cfg)
	if err != nil {
		return nil, err
	}
	return &Own{c}, nil
}
