package clusterstore

import (
	"context"
	"fmt"
	"time"

	"go.uber.org/zap"
	"k8s.io/client-go/rest"

	"isthmus/clusterstore/cluster"
	"isthmus/federation"
	"isthmus/internal/adminapi"
	"isthmus/internal/panics"
)

// OwnOptions are an Own's. Table, Log, Report, SetLink, Create and Prepare are needed.
type OwnOptions struct {
	TrustDomain string
	Server      string              // its API's host, port and path, for pages
	Cordon      federation.Standing // how far its endpoints are taken out of all services
	CordonBy    string              // what asks for Cordon, for people
	Region      string              // where it is; empty: where all of its Nodes are

	// As a Store has them.
	Rules   cluster.Rules
	Table   *federation.Table
	Log     *zap.Logger
	Metrics *cluster.Metrics
	Report  func(cluster.Change)
	Exports *ExportOptions

	Supervisor *panics.Supervisor

	// SetLink gets the cluster's link whenever it may have changed.
	SetLink func(federation.Link)
	// Create makes the cluster.
	Create func(cluster.Config) (Cluster, error)
	// Prepare is called once, when the cluster has synced, and before it is linked as ready. ctx is Run's.
	Prepare func(ctx context.Context)
}

// Own runs the gateway's own cluster: a link without a Secret, whose cluster is never replaced.
type Own struct {
	link    *link
	prepare func(context.Context)
	synced  chan struct{}
}

// NewOwn makes the cluster. It does no IO and starts nothing.
func NewOwn(o OwnOptions) (*Own, error) {
	s := &Store{
		opts: Options{
			Rules:      o.Rules,
			Table:      o.Table,
			Log:        o.Log,
			Metrics:    o.Metrics,
			Report:     o.Report,
			Exports:    o.Exports,
			Supervisor: o.Supervisor,
		},
		setLink: func(_ federation.ClusterName, l federation.Link) { o.SetLink(l) },
		settled: make(chan struct{}),
		starts:  newStarts(),
	}
	if o.Exports != nil {
		s.exportsChanged = new(federation.Latest[struct{}])
	}
	own := &Own{link: s.newLink(federation.Local, zap.WarnLevel), prepare: o.Prepare, synced: make(chan struct{})}
	creds := &credentials{
		trustDomain: o.TrustDomain, server: o.Server, read: time.Now(),
		settings: linkSettings{cordon: o.Cordon, cordonBy: o.CordonBy, region: o.Region},
	}
	made, err := o.Create(own.link.config(creds))
	if err != nil {
		return nil, fmt.Errorf("cluster %s: %w", federation.Local, err)
	}
	s.create = func(*rest.Config, cluster.Config) (Cluster, error) { return made, nil }
	own.link.own = own
	own.link.mailbox.Set([]*credentials{creds})
	own.link.published.Store(&linkStatus{
		state: cluster.Pending, accepted: creds, next: &runningCluster{cluster: made, creds: creds}, standing: linkStanding{settings: creds.settings},
	})
	return own, nil
}

// Run follows the cluster until ctx ends, and returns once it has stopped. The table keeps what it
// has. Call it once.
func (o *Own) Run(ctx context.Context) { o.link.run(ctx) }

// Synced returns a channel that is closed once the cluster is linked as ready.
func (o *Own) Synced() <-chan struct{} { return o.synced }

// Status returns the cluster's state now.
func (o *Own) Status() adminapi.Cluster {
	st := adminapi.Cluster{Cluster: federation.Local.String()}
	o.link.published.Load().describe(&st)
	return st
}

// Look makes the cluster read trust anchors and Pod networks again. It returns once the cluster has read
// them, or ctx ends.
func (o *Own) Look(ctx context.Context) { await(ctx, o.link.published.Load().look()) }
