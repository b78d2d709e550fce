package cluster

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"

	"isthmus/clusterstore/follow"
	"isthmus/clusterstore/kube"
	"isthmus/federation"
)

// Config says which cluster to follow, and how its endpoints are told.
type Config struct {
	Name        federation.ClusterName
	Client      *kube.Client // what its API is asked through; closed when Run returns
	TrustDomain string       // of its identities; empty: its endpoints get none
	Rules       Rules        // the same for all clusters
	Log         *zap.Logger
	Metrics     *Metrics // the same for all clusters; nil: none

	// Changed tells that what the cluster offers of a service may have changed;
	// at is when the first of the events behind it came. It is called by one
	// goroutine of Run, and only after Synced: until then nobody can have read
	// anything that has to be read again.
	Changed func(svc federation.ServiceID, at time.Time)

	// OnService, if set, gets every Service added or changed, and nil for
	// every one deleted, in order, from one goroutine. It must not block.
	OnService func(federation.ServiceID, *Service)
	// OnNode, if set, makes the cluster watch its Nodes (their metadata), and
	// gets every one added, changed or deleted, in order, from one goroutine.
	// It must not block.
	OnNode func(name, zone string, exists bool)
	// ProfileChanged, if set, makes the cluster know who has which address, and
	// watch ServiceProfiles: what At, Instance and ServiceProfile tell. It tells
	// what of that, or of what Service tells, may have changed, as Changed does
	// of what is on offer, and is called by another goroutine than that, which is
	// never behind it. It needs OnService.
	ProfileChanged func(about Topic, at time.Time)
}

// Rules is what the gateway knows about meshed pods, whatever their cluster.
type Rules struct {
	ControllerNamespace string // of the control plane whose pods have identities
	DefaultOpaquePorts  Ports  // of pods that don't say
	EndpointSlices      bool   // false: read core Endpoints instead
}

// Cluster follows one cluster's API and is a [federation.Source] of its state:
// EndpointSlices joined with Services, Pods and their owners, ExternalWorkloads,
// and the Servers that select them.
//
// It keeps what it knows for as long as it exists, however long its API is
// away, and follows again within 10 s of the API's return.
type Cluster struct {
	// fixed
	cfg       Config
	state     *state
	resources []*follow.Resource
	group     *follow.Group // of the resources
	started   sync.Once
}

var _ federation.Source = (*Cluster)(nil)

// New checks the configuration. It does no network IO and starts nothing.
func New(cfg Config) (*Cluster, error) {
	if cfg.Client == nil || cfg.Log == nil || cfg.Changed == nil {
		return nil, fmt.Errorf("cluster %s: Client, Log and Changed are needed", cfg.Name)
	}
	if cfg.ProfileChanged != nil && cfg.OnService == nil {
		return nil, fmt.Errorf("cluster %s: ProfileChanged needs OnService", cfg.Name)
	}
	c := &Cluster{
		cfg:   cfg,
		state: newState(cfg.Name, cfg.TrustDomain, cfg.Rules.ControllerNamespace),
	}
	if cfg.ProfileChanged != nil {
		c.state.addresses = newAddresses()
	}
	c.resources = c.follows()
	c.group = follow.NewGroup(follow.Options{Printable: cfg.Client.Printable, NoWatchList: cfg.Client.NoWatchList}, c.resources...)
	return c, nil
}

// Run follows the cluster until ctx ends, and returns once all its goroutines
// have ended. What was read stays readable after that. It may be called once.
func (c *Cluster) Run(ctx context.Context) error {
	err := errors.New("Run was called before")
	c.started.Do(func() { err = nil })
	if err != nil {
		return fmt.Errorf("cluster %s: %w", c.cfg.Name, err)
	}
	var all sync.WaitGroup
	all.Go(func() { c.state.dirty.run(ctx, c.cfg.Changed) })
	if a := c.state.addresses; a != nil {
		all.Go(func() { a.dirty.run(ctx, c.cfg.ProfileChanged) })
	}
	c.group.Run(ctx, c.state.goLive)
	all.Wait()
	c.cfg.Client.Close()
	return nil
}

// Synced returns a channel that is closed once everything needed (EndpointSlices
// or Endpoints, Services, Pods) has been listed and can be read. What is optional
// (ReplicaSets, Jobs, Nodes, Servers, ExternalWorkloads, ServiceProfiles) is in too if the cluster
// lets it be listed.
func (c *Cluster) Synced() <-chan struct{} { return c.group.Synced() }

// HealthChanged returns a channel that is closed at the next change of Health's
// Err or Lost, or of what is synced. Take it before looking at Health.
func (c *Cluster) HealthChanged() <-chan struct{} { return c.group.HealthChanged() }

// State says what the cluster holds under that name, now.
func (c *Cluster) State(svc federation.ServiceID) federation.ServiceState {
	return c.state.serviceState(svc)
}

// Reader prepares to read one service port. After a change, its Read costs what
// the changed EndpointSlices cost.
func (c *Cluster) Reader(svc federation.ServiceID, port uint16) federation.Reader {
	return &reader{state: c.state, service: svc, port: port}
}
