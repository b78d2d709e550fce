package cluster

import (
	"time"

	"isthmus/clusterstore/decode"
	"isthmus/federation"
)

// Local is the gateway's own cluster. Besides its endpoints it has what profiles are made of, who
// has an address, and the zones of its Nodes. All methods but Run are safe for concurrent use.
type Local struct{ *Cluster }

// LocalConfig is called when what only the own cluster has may have changed. All functions are
// needed, unless noted otherwise, and none may block but ProfileChanged.
type LocalConfig struct {
	// ServiceChanged is called for every Service added, changed or deleted, in order, from one goroutine.
	ServiceChanged func(federation.ServiceID)
	// NodeChanged gets every Node added, changed or deleted, in order, from one goroutine.
	NodeChanged func(name, zone string, exists bool)
	// ProfileChanged is called when a result of LookupAddress, Owner, Instance, ServiceProfile or Service may
	// have changed; at is when the first event behind it came. It has a goroutine of its own, so that
	// it does not wait for Config.Changed.
	ProfileChanged func(about Topic, at time.Time)

	// SliceManager, if set, is the mark of EndpointSlices that are written for ExternalWorkloads: their
	// label endpointslice.kubernetes.io/managed-by. The cluster then keeps what these are made of, and
	// Config.Changed is called after each change of one of them, or of their Service.
	SliceManager string
	// WorkloadChanged, which is needed with SliceManager, gets every ExternalWorkload that was added,
	// changed or deleted, in order, from one goroutine: as it was and as it is; nil: it was or is not there.
	WorkloadChanged func(before, after *decode.ExternalWorkload)
}

// sliceManager is LocalConfig.SliceManager; empty: there is none.
func (c *Config) sliceManager() string {
	if c.own == nil {
		return ""
	}
	return c.own.SliceManager
}

// Reads reports whether a kind of object, such as services, has been listed, and why it can't be read now;
// nil: it can.
func (c *Local) Reads(resource string) (listed bool, err error) { return c.group.Reads(resource) }

// NewLocal checks the configuration. It does no network IO and starts nothing.
func NewLocal(cfg Config, own LocalConfig) (*Local, error) {
	cfg.own = &own
	c, err := New(cfg)
	if err != nil {
		return nil, err
	}
	return &Local{c}, nil
}

// LinkerdMirrors returns the Services that Linkerd's service mirror has written, by the cluster that they
// mirror. Services that Isthmus has written or adopted are not among them, nor are federated ones.
func (c *Local) LinkerdMirrors() map[string][]federation.ServiceID {
	c.state.mu.RLock()
	defer c.state.mu.RUnlock()
	mirrors := make(map[string][]federation.ServiceID)
	for id, e := range c.state.services {
		if e.spec == nil || e.spec.Labels["mirror.linkerd.io/mirrored-service"] != "true" {
			continue
		}
		_, written := e.spec.Labels["isthmus.io/written-by"]
		if cluster := e.spec.Labels[mirrorClusterLabel]; cluster != "" && !written {
			mirrors[cluster] = append(mirrors[cluster], id)
		}
	}
	return mirrors
}
