package local

import (
	"context"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"k8s.io/client-go/rest"

	"isthmus/clusterstore"
	"isthmus/clusterstore/cluster"
	"isthmus/clusterstore/kube"
	"isthmus/federation"
	"isthmus/internal/adminapi"
	"isthmus/internal/pace"
	"isthmus/internal/panics"
	"isthmus/local/exports/plan"
	"isthmus/local/externalworkload"
	"isthmus/local/problems"
)

// Options are the options of New. All are needed, unless noted otherwise.
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
	// Exports makes it keep what the cluster exports, and what is there under the names of exports: for the Store
	// that gets the same options and Own. nil: nothing is kept for it.
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
	federation.AddressOwners

	LookupAddress(netip.AddrPort) cluster.Found
	AddressConflicts() (list []adminapi.AddressConflict, more int)
	Instance(svc federation.ServiceID, hostname string, port uint16) *federation.Endpoint
	Service(federation.ServiceID) *cluster.Service
	LinkerdMirrors() map[string][]federation.ServiceID
	AssignedTo(netip.Addr) string
	ServiceProfile(namespace, name string) (p *federation.ServiceProfile, exists bool)
	ServiceProfileProblem(namespace, name string) (problem string, exists bool)
}

// Cluster is the cluster that Isthmus runs in.
type Cluster struct {
	// fixed
	table    *federation.Table
	log      *zap.Logger
	cluster  localCluster
	link     *clusterstore.LocalLink // runs cluster
	domain   string                  // of its services' names
	prefer   *federation.Preference  // of Services without annotations
	cordon   federation.Standing
	services *pace.Dirty[federation.ServiceID] // to be defined; by namespace
	zones    zones
	profiles profiles
	problems *problems.Store // of annotations and labels

	supervisor *panics.Supervisor
}

// New does no network IO and starts nothing.
func New(o Options) (*Cluster, error) {
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

func create(o Options, newCluster func(cluster.Config, cluster.LocalConfig) (localCluster, error)) (*Cluster, error) {
	l := &Cluster{
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
				o.Table.AddressOwnerChanged(about.IP)
			} else {
				l.profiles.changed(about)
			}
		},
	}
	if o.Writer != nil {
		own.SliceManager, own.WorkloadChanged = externalworkload.Mark, o.Writer.WorkloadChanged
	}
	var err error
	l.link, err = clusterstore.NewLocalLink(clusterstore.LocalLinkOptions{
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
func (l *Cluster) prepare(ctx context.Context) {
	l.zones.apply()
	l.services.Drain(ctx, l.superviseDefine)
}

// Run follows the cluster until ctx ends, and returns once all its goroutines have
// ended. If the API can't be reached, it keeps trying. It leaves the table as it is
// then. Run is called once.
func (l *Cluster) Run(ctx context.Context) error {
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
	l.link.Run(ctx)
	return nil
}

// Synced is closed once every Service is defined in the table, and the cluster
// linked as ready.
func (l *Cluster) Synced() <-chan struct{} { return l.link.Synced() }

// Status returns the cluster's state now.
func (l *Cluster) Status() adminapi.Cluster { return l.link.Status() }

// Look makes the cluster read trust anchors and Pod networks again. It returns once the cluster has read them,
// or ctx ends.
func (l *Cluster) Look(ctx context.Context) { l.link.Look(ctx) }

// LocalLink returns the cluster's link, for clusterstore.Options.
func (l *Cluster) LocalLink() *clusterstore.LocalLink { return l.link }

// maxDefiners is how many definitions are made at the same time, each of another
// namespace. A large one may take long, since it reads all of its members.
const maxDefiners = 4

// superviseDefine calls define. After a panic the Service keeps its definition, and is defined
// again later, in its namespace's turn.
func (l *Cluster) superviseDefine(id federation.ServiceID, _ time.Time) {
	work := panics.Work{Where: panics.Definition, Service: id}
	l.supervisor.Do(work, func() { l.define(id) }, func() { l.defineSoon(id) })
}

func (l *Cluster) defineSoon(id federation.ServiceID) { l.services.Add(id.Namespace, id, time.Now()) }

// define stores the definition that follows from the Service as it is now, or removes
// that of a Service that is gone. It is not called twice at the same time for one
// Service.
func (l *Cluster) define(id federation.ServiceID) {
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
func (l *Cluster) Problems() []adminapi.Problem { return l.problems.All() }

// ProblemsOf lists what can't be used of the annotations and labels of one Service.
func (l *Cluster) ProblemsOf(id federation.ServiceID) []string { return l.problems.Of(id) }

// Service returns what is kept of a Service of the cluster; nil: there is none.
func (l *Cluster) Service(id federation.ServiceID) *cluster.Service { return l.cluster.Service(id) }

// Ports returns the TCP ports that a Service declares, in its order. It returns none if there is no such
// Service, or if the Service has none.
func (l *Cluster) Ports(id federation.ServiceID) (ports []uint16) {
	svc := l.cluster.Service(id)
	if svc == nil {
		return nil
	}
	for _, p := range svc.Ports {
		ports = append(ports, p.Number)
	}
	return ports
}

// ServiceOfImport returns the Service that a writer of exports has written for a ServiceImport. It
// returns false if there is none, as for a headless ServiceImport.
func (l *Cluster) ServiceOfImport(serviceImport federation.ServiceID) (federation.ServiceID, bool) {
	id := plan.DerivedService(plan.ID(serviceImport))
	svc := l.cluster.Service(federation.ServiceID(id))
	if svc == nil {
		return federation.ServiceID{}, false
	}
	written := plan.Strict(id, svc.Labels, svc.Annotations) && plan.ImportOf(id, svc.Labels) == serviceImport.Name
	return federation.ServiceID(id), written
}

// LinkerdMirrors returns the Services that Linkerd's service mirror has written, by the cluster that they mirror.
func (l *Cluster) LinkerdMirrors() map[string][]federation.ServiceID {
	return l.cluster.LinkerdMirrors()
}

// AddressOwner is what has an address. The zero value means that nothing has it.
type AddressOwner struct {
	Name    string                // "Pod shop/web-1"
	Service *federation.ServiceID // nil if the address is no cluster IP, or the cluster IP of several Services
	// Claimed names the objects that claim the whole address ("2 Pods with IP 10.0.0.1"). It is
	// empty if there is no conflict.
	Claimed string
}

// OwnerOf returns what has an address.
func (l *Cluster) OwnerOf(ip netip.Addr) AddressOwner {
	at := l.cluster.LookupAddress(netip.AddrPortFrom(ip, 0))
	owner := AddressOwner{Name: l.cluster.AddressOwner(ip), Claimed: at.Claimed}
	if at.Service != nil {
		owner.Service = &at.ID
	}
	return owner
}

// AddressConflicts returns the addresses of the cluster that several objects claim, the oldest
// conflicts first, and how many more there are.
func (l *Cluster) AddressConflicts() (list []adminapi.AddressConflict, more int) {
	return l.cluster.AddressConflicts()
}

// AssignedTo names the Pod, Service or Node of the cluster that a request to the address would reach. It returns
// the empty string if the cache has none.
func (l *Cluster) AssignedTo(ip netip.Addr) string { return l.cluster.AssignedTo(ip) }

// Zone returns the zone of a node, and a channel that is closed when the zone may
// have changed: call Zone again then. The zone is empty if the node has none or is
// not known. All who ask for unknown nodes get the same channel, which is closed when
// any node appears, so that names that clients make up take no memory. Without a name
// there is nothing to wait for: the channel is nil.
func (l *Cluster) Zone(node string) (zone string, changed <-chan struct{}) { return l.zones.get(node) }

// Profile watches the profile of a destination. There is always one, once Synced is
// closed. Watches of equal keys share one profile, and a profile that equals the one
// before is not published. The caller closes the watch.
func (l *Cluster) Profile(k federation.ProfileKey) *federation.Watch[*federation.Profile] {
	return l.profiles.watch(k)
}

// profile returns the profile of a destination from the objects as they are now.
// Federated and mirrored Services have profiles like any other.
func (l *Cluster) profile(k federation.ProfileKey) *federation.Profile {
	if k.Addr.IsValid() {
		switch at := l.cluster.LookupAddress(k.Addr); {
		case at.Claimed != "":
			return &federation.Profile{Reason: federation.Ambiguous, Claimed: at.Claimed}
		case at.Service != nil:
			return l.portProfile(at.ID, at.Service, k.Addr.Port(), k.Namespace)
		default:
			return &federation.Profile{Endpoint: at.Endpoint}
		}
	}
	svc := l.cluster.Service(k.Service)
	switch {
	case svc == nil:
		return &federation.Profile{Reason: federation.NoService}
	case k.Instance != "":
		if e := l.cluster.Instance(k.Service, k.Instance, k.Port); e != nil {
			return &federation.Profile{Endpoint: e}
		}
		return &federation.Profile{Reason: federation.NoInstance}
	}
	return l.portProfile(k.Service, svc, k.Port, k.Namespace)
}

// portProfile returns the profile of a service port for clients of a namespace.
//
// The ServiceProfile of the client's namespace overrides that of the Service's, even
// if it can't be used: that it exists means that the other one is not wanted. Opaque
// ports come from the Service's annotation or the default; those of a ServiceProfile
// are ignored.
func (l *Cluster) portProfile(
	id federation.ServiceID, svc *cluster.Service, port uint16, client string,
) *federation.Profile {
	switch {
	case !svc.HasPort(port):
		return &federation.Profile{Reason: federation.NoPort}
	case svc.ExternalName:
		return &federation.Profile{Reason: federation.NoAddress}
	}
	p := &federation.Profile{
		Service: id,
		Port:    port,
		Name:    l.profileName(id),
		Opaque:  svc.OpaquePorts.Contains(port),
	}
	var exists bool
	if client != "" {
		p.Routes, exists = l.cluster.ServiceProfile(client, p.Name)
	}
	if !exists {
		p.Routes, exists = l.cluster.ServiceProfile(id.Namespace, p.Name)
	}
	p.Rejected = exists && p.Routes == nil
	return p
}

// profileName is the fully qualified name of a Service, which is the name of its ServiceProfiles.
func (l *Cluster) profileName(id federation.ServiceID) string {
	return fmt.Sprintf("%s.%s.svc.%s", id.Name, id.Namespace, l.domain)
}

// ProfileProblem describes what can't be used of the ServiceProfile that a Service has for clients
// of a namespace. Empty means that all of the ServiceProfile can be used, or that there is none.
func (l *Cluster) ProfileProblem(id federation.ServiceID, client string) string {
	name := l.profileName(id)
	for _, namespace := range []string{client, id.Namespace} {
		if namespace == "" {
			continue
		}
		problem, exists := l.cluster.ServiceProfileProblem(namespace, name)
		switch {
		case exists && problem == "":
			return ""
		case exists:
			return fmt.Sprintf("ServiceProfile %s/%s: %s", namespace, name, problem)
		}
	}
	return ""
}

var (
	problemsDesc = prometheus.NewDesc("isthmus_services_rejected",
		"Services whose federation annotations or labels can't be used, wholly or in part.", nil, nil)
	profilesDesc = prometheus.NewDesc(
		"isthmus_service_profiles_rejected", "ServiceProfiles that can't be used.", nil, nil,
	)
)

// Describe implements prometheus.Collector. It describes nothing: that is checked when metrics are read.
func (l *Cluster) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (l *Cluster) Collect(ch chan<- prometheus.Metric) {
	h := l.cluster.Health()
	for _, m := range cluster.Series(federation.Local, l.Status().State, h) {
		ch <- m
	}
	ch <- cluster.StandingSeries(federation.Local, l.cordon)
	ch <- prometheus.MustNewConstMetric(problemsDesc, prometheus.GaugeValue, float64(len(l.Problems())))
	ch <- prometheus.MustNewConstMetric(profilesDesc, prometheus.GaugeValue, float64(h.RejectedProfiles))
}
