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

// LocalLinkOptions configures a LocalLink. Table, Log, Report, SetLink, Create and Prepare are
// required.
type LocalLinkOptions struct {
	TrustDomain string
	Server      string              // host, port and path of the API server, for display
	Cordon      federation.Standing // standing of the cluster's endpoints
	CordonBy    string              // the setting that requests Cordon, for messages
	Region      string              // region of the cluster; if empty, the region of its Nodes

	// The following fields have the same meaning as in [Options].
	Rules      cluster.Rules
	Table      *federation.Table
	Log        *zap.Logger
	Metrics    *cluster.Metrics
	Report     func(cluster.Change)
	Exports    *ExportOptions
	Supervisor *panics.Supervisor

	// SetLink is called with the link of the cluster whenever the link may have changed.
	SetLink func(federation.Link)
	Create  func(cluster.Config) (Cluster, error)
	// Prepare is called once, after the cluster has synced and before its link becomes ready. The
	// argument of Prepare is the context that was passed to Run.
	Prepare func(ctx context.Context)
}

// LocalLink runs the local cluster. A LocalLink has no Secret, and never replaces its cluster.
type LocalLink struct {
	link    *link
	prepare func(context.Context)
	synced  chan struct{}
}

// NewLocalLink creates the local cluster and its link. NewLocalLink performs no I/O and starts no
// goroutines.
func NewLocalLink(o LocalLinkOptions) (*LocalLink, error) {
	local := &LocalLink{prepare: o.Prepare, synced: make(chan struct{})}
	local.link = newLocalLink(&o)
	local.link.local = local
	settings := &credentials{
		trustDomain: o.TrustDomain,
		server:      o.Server,
		read:        time.Now(),
		settings:    linkSettings{cordon: o.Cordon, cordonBy: o.CordonBy, region: o.Region},
	}
	made, err := o.Create(local.link.config(settings))
	if err != nil {
		return nil, fmt.Errorf("cluster %s: %w", federation.Local, err)
	}
	local.link.env.create = func(*rest.Config, cluster.Config) (Cluster, error) { return made, nil }
	local.link.mailbox.Set([]*credentials{settings})
	local.link.published.Store(&linkStatus{
		state:    cluster.Pending,
		accepted: settings,
		next:     &runningCluster{cluster: made, creds: settings},
		standing: linkStanding{settings: settings.settings},
	})
	return local, nil
}

func newLocalLink(o *LocalLinkOptions) *link {
	env := &linkEnv{
		rules:      o.Rules,
		table:      o.Table,
		log:        o.Log,
		metrics:    o.Metrics,
		supervisor: o.Supervisor,
		report:     o.Report,
		starts:     newStarts(maxStarts),
		setLink:    func(_ federation.ClusterName, l federation.Link) { o.SetLink(l) },
		exports:    o.Exports,
	}
	if o.Exports != nil {
		env.exportsChanged = new(federation.Latest[struct{}])
	}
	return env.newLink(federation.Local, zap.WarnLevel)
}

// Run lists and watches the objects of the local cluster until ctx is done, and returns once all
// goroutines that Run started have ended. When Run returns, the table still contains the link of
// the cluster. Run must be called only once.
func (l *LocalLink) Run(ctx context.Context) { l.link.run(ctx) }

// Synced returns a channel that is closed once the cluster has synced and its link is ready.
func (l *LocalLink) Synced() <-chan struct{} { return l.synced }

// Status returns the current status of the local cluster.
func (l *LocalLink) Status() adminapi.Cluster {
	st := adminapi.Cluster{Cluster: federation.Local.String()}
	l.link.published.Load().describe(&st)
	return st
}

// Look requests that the local cluster's trust anchors and Pod networks be read again. Look returns
// when reading has succeeded or failed, or when ctx is done.
func (l *LocalLink) Look(ctx context.Context) { await(ctx, l.link.published.Load().look()) }
