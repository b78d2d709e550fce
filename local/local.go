package local

import (
	"context"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"go.uber.org/zap"
	"k8s.io/client-go/rest"

	"isthmus/clusterstore"
	"isthmus/clusterstore/cluster"
	"isthmus/clusterstore/kube"
	"isthmus/federation"
	"isthmus/internal/adminapi"
	"isthmus/internal/pace"
	"isthmus/internal/panics"
	"isthmus/local/externalworkload"
	"isthmus/local/problems"
)

// Options are a Local's. All are needed, unless noted otherwise.
type Options struct {
	REST          *rest.Config      // how to reach the cluster
	TrustDomain   string            // of its identities
	ClusterDomain string            // of its services' names
	Rules         cluster.Rules     // as for linked clusters
	Table         *federation.Table // gets the services' definitions and the cluster's link
	Log           *zap.Logger
	Metrics       *cluster.Metrics // as for linked clusters; nil: none

	// Preference is that of Services without annotations. It must not be written after New.
	Preference *federation.Preference
	// Cordon is how far the cluster's endpoints are taken out of all services.
	Cordon federation.Standing
	// Region is where the cluster is; empty: where all of its Nodes are.
	Region string
	// Writer writes EndpointSlices for ExternalWorkloads of the cluster; nil: none are written.
	Writer *externalworkload.Writer
	// Exports makes it keep what the cluster exports, and what is there under the names of exports: for the Store that gets
	// the same options and Own. nil: nothing is kept for it.
	Exports *clusterstore.ExportOptions
	// Supervisor recovers from panics while a Service is defined, a profile is updated or a change
	// is passed on. If it is nil, a panic ends the process.
	Supervisor *panics.Supervisor
	// Report is called when the cluster's state changes, and with a standing that is not in
	// service. It must not block.
	Report func(cluster.Change)
}

// localCluster is what a Local needs of a cluster.Local.
type localCluster interface {
	clusterstore.Cluster
	federation.Owner

	LookupAddress(netip.AddrPort) cluster.Found
	AddressConflicts() (list []adminapi.AddressConflict, more int)
	Instance(svc federation.ServiceID, hostname string, port uint16) *federation.Endpoint
	Service(federation.ServiceID) *cluster.Service
	LinkerdMirrors() map[string][]federation.ServiceID
	AssignedTo(netip.Addr) string
	ServiceProfile(namespace, name string) (p *federation.ServiceProfile, exists bool)
	ServiceProfileProblem(namespace, name string) (problem string, exists bool)
}

// Local is the cluster that the gateway runs in.
type Local struct {
	// fixed
	table    *federation.Table
	log      *zap.Logger
	cluster  localCluster
	own      *clusterstore.Own      // runs cluster
	domain   string                 // of its services' names
	prefer   *federation.Preference // of Services without annotations
	cordon   federation.Standing
	services *pace.Dirty[federation.ServiceID] // to be defined; by namespace
	zones    zones
	profiles profiles
	problems *problems.Store // of annotations and labels

	supervisor *panics.Supervisor
}

// New does no network IO and starts nothing.
func New(o Options) (*Local, error) {
	return create(o, func(c cluster.Config, own cluster.LocalConfig) (localCluster, error) {
		client, err := kube.New(federation.Local, o.REST, o.Metrics.Requests())
		if err != nil {
			return nil, fmt.Errorf("cluster %s: %w", federation.Local, err)
		}
		c.Client = client
		made, err := cluster.NewLocal(c, own)
		if err == nil && o.Writer != nil {
			o.Writer.Follow(made)
		}
		return made, err
	})
}

func create(o Options, newCluster func(cluster.Config, cluster.LocalConfig) (localCluster, error)) (*Local, error) {
	l := &Local{
		table:    o.Table,
		domain:   o.ClusterDomain,
		prefer:   o.Preference,
		cordon:   o.Cordon,
		log:      o.Log.With(zap.Stringer("cluster", federation.Local)),
		services: pace.NewDirty[federation.ServiceID](),
		zones:    newZones(),

		supervisor: o.Supervisor,
	}
	l.problems = problems.New(l.log, "annotations or labels of the Service can't be used")
	l.profiles = newProfiles(l.profile, o.Supervisor)
	own := cluster.LocalConfig{
		ServiceChanged: l.defineSoon,
		NodeChanged:    l.zones.set,
		ProfileChanged: func(about cluster.Topic, _ time.Time) {
			if about.AddressOwner {
				o.Table.OwnerChanged(about.IP)
			} else {
				l.profiles.changed(about)
			}
		},
	}
	if o.Writer != nil {
		own.SliceManager, own.WorkloadChanged = externalworkload.Mark, o.Writer.WorkloadChanged
	}
	var err error
	l.own, err = clusterstore.NewOwn(clusterstore.OwnOptions{
		TrustDomain: o.TrustDomain,
		Server:      kube.ServerName(o.REST.Host),
		Cordon:      o.Cordon,
		CordonBy:    "--cordon-local",
		Region:      o.Region,
		Rules:       o.Rules,
		Table:       o.Table,
		Log:         o.Log,
		Metrics:     o.Metrics,
		Report:      o.Report,
		Exports:     o.Exports,
		Supervisor:  o.Supervisor,
		SetLink:     func(link federation.Link) { l.table.SetLink(federation.Local, link) },
		Create: func(cfg cluster.Config) (_ clusterstore.Cluster, err error) {
			if changed := cfg.Changed; o.Writer != nil {
				cfg.Changed = func(svc federation.ServiceID, at time.Time) {
					o.Writer.Changed(svc)
					changed(svc, at)
				}
			}
			l.cluster, err = newCluster(cfg, own)
			return l.cluster, err
		},
		Prepare: l.prepare,
	})
	if err != nil {
		return nil, fmt.Errorf("local: %w", err)
	}
	return l, nil
}

// prepare makes everything ready for clients, which are served next.
func (l *Local) prepare(ctx context.Context) {
	l.zones.apply()
	l.services.Drain(ctx, l.superviseDefine)
}

// Run follows the cluster until ctx ends, and returns once all its goroutines have
// ended. If the API can't be reached, it keeps trying. It leaves the table as it is
// then. Run is called once.
func (l *Local) Run(ctx context.Context) error {
	var all sync.WaitGroup
	defer all.Wait()
	all.Go(func() { l.zones.run(ctx) })
	for range maxDefiners {
		all.Go(func() {
			select {
			case <-ctx.Done():
			case <-l.Synced():
				l.services.Run(ctx, l.superviseDefine)
			}
		})
	}
	l.own.Run(ctx)
	return nil
}

// Synced is closed once every Service is defined in the table, and the cluster
// linked as ready.
func (l *Local) Synced() <-chan struct{} { return l.own.Synced() }

// Status returns the cluster's state now.
func (l *Local) Status() adminapi.Cluster { return l.own.Status() }

// Look makes the cluster read trust anchors and Pod networks again. It returns once the cluster has read them,
// or ctx ends.
func (l *Local) Look(ctx context.Context) { l.own.Look(ctx) }

// Own returns what follows the cluster, for clusterstore.Options.
func (l *Local) Own() *clusterstore.Own { return l.own }

// Service returns what is kept of a Service of the cluster; nil: there is none.
func (l *Local) Service(id federation.ServiceID) *cluster.Service { return l.cluster.Service(id) }

// LinkerdMirrors returns the Services that Linkerd's service mirror has written, by the cluster that they mirror.
func (l *Local) LinkerdMirrors() map[string][]federation.ServiceID { return l.cluster.LinkerdMirrors() }

// Profile watches the profile of a destination. There is always one, once Synced is
// closed. Watches of equal keys share one profile, and a profile that equals the one
// before is not published. The caller closes the watch.
func (l *Local) Profile(k federation.ProfileKey) *federation.Watch[*federation.Profile] {
	return l.profiles.watch(k)
}

// maxDefiners is how many definitions are made at the same time, each of another
// namespace. A large one may take long, since it reads all of its members.
const maxDefiners = 4

// superviseDefine calls define. After a panic the Service keeps its definition, and is defined
// again later, in its namespace's turn.
func (l *Local) superviseDefine(id federation.ServiceID, _ time.Time) {
	work := panics.Work{Where: panics.Definition, Service: id}
	l.supervisor.Do(work, func() { l.define(id) }, func() { l.defineSoon(id) })
}

func (l *Local) defineSoon(id federation.ServiceID) { l.services.Add(id.Namespace, id, time.Now()) }

// define stores the definition that follows from the Service as it is now, or removes
// that of a Service that is gone. It is not called twice at the same time for one
// Service.
func (l *Local) define(id federation.ServiceID) {
	svc := l.cluster.Service(id)
	if svc == nil {
		l.table.Define(id, nil)
		l.problems.Set(id, nil)
		return
	}
	d, list := define(id, svc, l.prefer)
	l.table.Define(id, d)
	l.problems.Set(id, list)
}

// Problems lists the Services whose annotations or labels can't be used, wholly or
// in part, sorted by name.
func (l *Local) Problems() []adminapi.Problem { return l.problems.All() }

// ProblemsOf lists what can't be used of the annotations and labels of one Service.
func (l *Local) ProblemsOf(id federation.ServiceID) []string { return l.problems.Of(id) }
