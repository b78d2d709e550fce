package local

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"sync"
	"time"

	"go.uber.org/zap"
	"k8s.io/client-go/rest"

	"isthmus/clusterstore/cluster"
	"isthmus/clusterstore/fair"
	"isthmus/clusterstore/kube"
	"isthmus/federation"
)

// Options are a Local's.
type Options struct {
	REST          *rest.Config      // how to reach the cluster
	TrustDomain   string            // of its identities
	ClusterDomain string            // of its services' names; empty: cluster.local
	Rules         cluster.Rules     // as for linked clusters
	Table         *federation.Table // gets the services' definitions and the cluster's link
	Log           *zap.Logger       // nil: no logs
	Metrics       *cluster.Metrics  // as for linked clusters; nil: none

	// Preference is that of Services without annotations; nil: DefaultPreference. It must
	// not be written after New.
	Preference *federation.Preference
	// Cordon is how far the cluster's endpoints are taken out of all services.
	Cordon federation.Standing
	// Region is where the cluster is; empty: where all of its Nodes are.
	Region string
	// Relist is as cluster.Config has it.
	Relist time.Duration
	// Report is called when the cluster's state changes, with a standing that is not in
	// service, and when an object had drifted. It must not block.
	Report func(cluster.Change) // nil: not called
}

func (o *Options) validate() error {
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	if o.ClusterDomain == "" {
		o.ClusterDomain = "cluster.local"
	}
	if o.Preference == nil {
		p := DefaultPreference()
		o.Preference = &p
	}
	if o.Report == nil {
		o.Report = func(cluster.Change) {}
	}
	if o.Table == nil {
		return errors.New("local: Options.Table is nil")
	}
	return nil
}

// localCluster is what a Local needs of a cluster.Own.
type localCluster interface {
	federation.Source
	federation.Owner
	Run(context.Context) error
	Synced() <-chan struct{}
	Health() cluster.Health
	HealthChanged() <-chan struct{}

	LookupAddress(netip.AddrPort) cluster.Found
	Instance(svc federation.ServiceID, hostname string, port uint16) *federation.Endpoint
	Service(federation.ServiceID) *cluster.Service
	Region() string
	Exposed(netip.Addr) string
	ServiceProfile(namespace, name string) (p *federation.ServiceProfile, exists bool)
}

// localTable is what a Local writes to: a federation.Table.
type localTable interface {
	Define(federation.ServiceID, *federation.Definition)
	SetLink(federation.ClusterName, federation.Link)
}

// Local is the cluster that the gateway runs in.
type Local struct {
	// fixed
	table    localTable
	log      *zap.Logger
	cluster  localCluster
	server   string                 // its API's host and port
	domain   string                 // of its services' names
	prefer   *federation.Preference // of Services without annotations
	cordon   federation.Standing
	region   string // of Options
	reported func(cluster.Change)
	life     *cluster.Life
	moved    *cluster.PacedSignal
	synced   chan struct{}
	services *fair.Dirty[federation.ServiceID] // to be defined; by namespace
	zones    zones
	profiles profiles

	mu       sync.Mutex
	problems map[federation.ServiceID][]string // by Service
}

// New checks the options. It does no network IO and starts nothing.
func New(o Options) (*Local, error) {
	return create(o, func(c cluster.Config, own cluster.OwnConfig) (localCluster, error) {
		if o.REST == nil {
			return nil, errors.New("Options.REST is nil")
		}
		client, err := kube.New(federation.Local, o.REST, o.Metrics.Requests())
		if err != nil {
			return nil, fmt.Errorf("cluster %s: %w", federation.Local, err)
		}
		c.Client = client
		return cluster.NewOwn(c, own)
	})
}

func create(o Options, newCluster func(cluster.Config, cluster.OwnConfig) (localCluster, error)) (*Local, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	l := &Local{
		table:    o.Table,
		domain:   o.ClusterDomain,
		prefer:   o.Preference,
		cordon:   o.Cordon,
		region:   o.Region,
		reported: o.Report,
		moved:    cluster.NewPacedSignal(),
		log:      o.Log.With(zap.Stringer("cluster", federation.Local)),
		synced:   make(chan struct{}),
		services: fair.NewDirty[federation.ServiceID](),
		zones:    newZones(),
		problems: make(map[federation.ServiceID][]string),
	}
	l.life = cluster.NewLife(federation.Local, l.log, zap.WarnLevel, o.Report)
	l.profiles = newProfiles(l.profile)
	if o.REST != nil {
		if u, err := url.Parse(o.REST.Host); err == nil {
			l.server = u.Host
		}
	}
	c, err := newCluster(cluster.Config{
		Name:          federation.Local,
		TrustDomain:   o.TrustDomain,
		Rules:         o.Rules,
		Log:           l.log,
		Metrics:       o.Metrics,
		Relist:        o.Relist,
		Drifted:       o.Report,
		Changed:       func(svc federation.ServiceID, at time.Time) { o.Table.Changed(federation.Local, svc, at) },
		RegionChanged: l.moved.Changed,
	}, cluster.OwnConfig{
		ServiceChanged: func(id federation.ServiceID) { l.services.Add(id.Namespace, id, time.Now()) },
		NodeChanged:    l.zones.set,
		ProfileChanged: func(about cluster.Topic, _ time.Time) { l.profiles.changed(about) },
		OwnerChanged:   o.Table.OwnerChanged,
	})
	if err != nil {
		return nil, fmt.Errorf("local: %w", err)
	}
	l.cluster = c
	return l, nil
}

// Run follows the cluster until ctx ends, and returns once all its goroutines have
// ended. If the API can't be reached, it keeps trying. It leaves the table as it is
// then. Run is called once.
func (l *Local) Run(ctx context.Context) error {
	l.life.Set(cluster.Pending, nil)
	link := federation.Link{State: federation.Pending, Cordon: l.cordon, Region: l.region}
	l.logCordon()
	l.setLink(&link)
	ended := make(chan error, 1)
	go func() { ended <- l.cluster.Run(ctx) }()
	var definers sync.WaitGroup
	defer definers.Wait()
	synced := l.cluster.Synced()
	for ctx.Err() == nil {
		changed := l.cluster.HealthChanged()
		h := l.cluster.Health()
		l.life.Follow(synced == nil, h, h.Err)
		select {
		case <-ctx.Done():
		case <-changed:
		case <-l.moved.C:
			l.setLink(&link)
		case <-l.zones.changed.C:
			l.zones.apply()
		case <-synced:
			synced = nil
			l.zones.apply() // clients are served next, and must not wait for their zones
			l.services.Drain(ctx, l.define)
			link.State, link.Source = federation.Ready, l.cluster
			l.setLink(&link)
			close(l.synced)
			for range maxDefiners {
				definers.Go(func() { l.services.Run(ctx, l.define) })
			}
		}
	}
	return <-ended
}

// Synced is closed once every Service is defined in the table, and the cluster
// linked as ready.
func (l *Local) Synced() <-chan struct{} { return l.synced }

// Service returns what is kept of a Service of the cluster; nil: there is none.
func (l *Local) Service(id federation.ServiceID) *cluster.Service { return l.cluster.Service(id) }

// Profile watches the profile of a destination. There is always one, once Synced is
// closed. Watches of equal keys share one profile, and a profile that equals the one
// before is not published. The caller closes the watch.
func (l *Local) Profile(k federation.ProfileKey) *federation.Watch[*federation.Profile] {
	return l.profiles.watch(k)
}

// maxDefiners is how many definitions are made at the same time, each of another
// namespace. A large one may take long, since it reads all of its members.
const maxDefiners = 4

// define stores the definition that follows from the Service as it is now, or removes
// that of a Service that is gone. It is not called twice at the same time for one
// Service.
func (l *Local) define(id federation.ServiceID, _ time.Time) {
	svc := l.cluster.Service(id)
	if svc == nil {
		l.table.Define(id, nil)
		l.report(id, nil)
		return
	}
	d, problems := define(id, svc, l.prefer)
	l.table.Define(id, d)
	l.report(id, problems)
}
