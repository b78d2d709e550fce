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
)

// Options configure New. All fields are required unless their comments say otherwise.
type Options struct {
	REST          *rest.Config      // configuration of the cluster's client
	TrustDomain   string            // trust domain of the cluster's identities
	ClusterDomain string            // domain of the cluster's DNS names
	Rules         cluster.Rules     // same as for linked clusters
	Table         *federation.Table // receives the services' definitions and the cluster's link
	Log           *zap.Logger
	Metrics       *cluster.Metrics // same as for linked clusters; optional

	// Preference applies to Services without annotations. The caller must not modify Preference
	// after calling New.
	Preference *federation.Preference
	Cordon     federation.Standing
	// If Region is empty, the labels of the cluster's Nodes determine the cluster's region.
	Region string
	// Writer writes EndpointSlices for the cluster's ExternalWorkloads. If Writer is nil, no
	// EndpointSlices are written.
	Writer *externalworkload.Writer
	// If Exports is set, the cluster caches its exports and every object that has the same name as
	// an export. Pass the same ExportOptions to the Store, together with the result of LocalLink.
	// If Exports is nil, the cluster caches nothing for exports.
	Exports *clusterstore.ExportOptions
	// Supervisor recovers from panics in the code that defines Services, updates profiles and
	// processes changes. If Supervisor is nil, a panic ends the process.
	Supervisor *panics.Supervisor
	// Report is called when the cluster's state changes, and once at the start if the cluster is
	// cordoned. Report must not block.
	Report func(cluster.Change)
}

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

type Cluster struct {
	// fixed
	table    *federation.Table
	log      *zap.Logger
	cluster  localCluster
	link     *clusterstore.LocalLink // runs cluster
	domain   string                  // domain of the cluster's DNS names
	prefer   *federation.Preference  // preference of Services without annotations
	cordon   federation.Standing
	services *pace.Dirty[federation.ServiceID] // to be defined, by namespace
	zones    zones
	profiles profiles
	problems *externalworkload.Problems // of annotations and labels

	supervisor *panics.Supervisor
}

// New returns the local cluster. New sends no requests and starts no goroutines.
func New(o Options) (*Cluster, error) {
	return create(o, func(c cluster.Config, own cluster.LocalConfig) (localCluster, error) {
		client, err := kube.New(federation.Local, o.REST, o.Metrics.Requests())
		if err != nil {
			return nil, fmt.Errorf("cluster %s: %w", federation.Local, err)
		}
		c.Client = client
		made, err := cluster.NewLocal(c, own)
		if err == nil && o.Writer != nil {
			o.Writer.SetCluster(made)
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
	l.problems = externalworkload.NewProblems(l.log, "annotations or labels of the Service are invalid")
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
		own.SliceManager = externalworkload.Mark
		own.WorkloadChanged = o.Writer.WorkloadChanged
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

func (l *Cluster) prepare(ctx context.Context) {
	l.zones.apply()
	l.services.Drain(ctx, l.superviseDefine)
}

// Run lists and watches the cluster until ctx ends, and returns once all its goroutines have ended.
// If the API cannot be reached, Run retries. The table stays unchanged after Run has returned. Call
// Run once.
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

// Synced returns a channel that is closed once the cluster is ready and the table contains a
// definition for every Service.
func (l *Cluster) Synced() <-chan struct{} { return l.link.Synced() }

func (l *Cluster) Status() adminapi.Cluster { return l.link.Status() }

// Look reads the cluster's trust anchors and Pod networks again, and returns once they have been
// read or ctx is done.
func (l *Cluster) Look(ctx context.Context) { l.link.Look(ctx) }

// LocalLink returns the cluster's link, for clusterstore.Options.
func (l *Cluster) LocalLink() *clusterstore.LocalLink { return l.link }

// maxDefiners is the number of goroutines that compute the definitions of Services. Each namespace
// occupies at most one of these goroutines at a time, so a Service with many members does not delay
// Services in other namespaces.
const maxDefiners = 4

// superviseDefine calls define. If the call panics, the Service keeps its definition and is queued
// for another attempt.
func (l *Cluster) superviseDefine(id federation.ServiceID, _ time.Time) {
	work := panics.Work{Where: panics.Definition, Service: id}
	l.supervisor.Do(work, func() { l.define(id) }, func() { l.defineSoon(id) })
}

func (l *Cluster) defineSoon(id federation.ServiceID) { l.services.Add(id.Namespace, id, time.Now()) }

// The define method updates the definition of a Service in the table, or removes it if the Service
// no longer exists. The define method must not be called concurrently for the same Service.
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

// Problems returns all Services with invalid annotations or labels, sorted by Service.
func (l *Cluster) Problems() []adminapi.Problem { return l.problems.All() }

func (l *Cluster) ProblemsOf(id federation.ServiceID) []string { return l.problems.Of(id) }

// Service returns the cached data of a Service in the cluster, or nil if the Service does not
// exist.
func (l *Cluster) Service(id federation.ServiceID) *cluster.Service { return l.cluster.Service(id) }

// Ports returns the TCP ports that a Service declares, in their original order. If the Service does
// not exist, Ports returns nil.
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

// ServiceOfImport returns the Service that was derived from a ServiceImport. If there is no derived
// Service, for example because the ServiceImport is headless, ServiceOfImport returns false.
func (l *Cluster) ServiceOfImport(serviceImport federation.ServiceID) (federation.ServiceID, bool) {
	id := plan.DerivedService(plan.ID(serviceImport))
	svc := l.cluster.Service(federation.ServiceID(id))
	if svc == nil {
		return federation.ServiceID{}, false
	}
	written := plan.Strict(id, svc.Labels, svc.Annotations) && plan.ImportOf(id, svc.Labels) == serviceImport.Name
	return federation.ServiceID(id), written
}

// LinkerdMirrors returns the Services that Linkerd's service mirror has created, grouped by
// mirrored cluster.
func (l *Cluster) LinkerdMirrors() map[string][]federation.ServiceID {
	return l.cluster.LinkerdMirrors()
}

// AddressOwner identifies the objects that an address is assigned to. The zero value means that the
// address is not assigned to any object.
type AddressOwner struct {
	Name    string                // such as "Pod shop/web-1"
	Service *federation.ServiceID // nil unless the address is the cluster IP of exactly one Service
	// If several objects claim the address on all ports, Claimed describes the objects, as in "2
	// Pods with IP 10.0.0.1".
	Claimed string
}

func (l *Cluster) AddressOwner(ip netip.Addr) AddressOwner {
	at := l.cluster.LookupAddress(netip.AddrPortFrom(ip, 0))
	owner := AddressOwner{Name: l.cluster.AddressOwner(ip), Claimed: at.Claimed}
	if at.Service != nil {
		owner.Service = &at.ID
	}
	return owner
}

// AddressConflicts returns the addresses that are assigned to more than one object, oldest conflict
// first, and the number of omitted conflicts.
func (l *Cluster) AddressConflicts() (list []adminapi.AddressConflict, more int) {
	return l.cluster.AddressConflicts()
}

// AssignedTo returns the name of the Pod, Service or Node that a request to the address would
// reach. If no object with the address is cached, AssignedTo returns "".
func (l *Cluster) AssignedTo(ip netip.Addr) string { return l.cluster.AssignedTo(ip) }

// Zone returns the zone of a node, and a channel that is closed when the zone may have changed. The
// zone is empty if the node is unknown or has no zone. All unknown nodes share one channel, which
// is closed when any node appears. Zone stores nothing for unknown nodes, so that clients cannot
// exhaust memory by inventing node names. If node is empty, the channel is nil.
func (l *Cluster) Zone(node string) (zone string, changed <-chan struct{}) { return l.zones.get(node) }

// Profile watches the profile of a destination. Once Synced is closed, the watch always has a
// profile. Watches with the same key share one profile, which is published only when it changes.
// The caller must close the watch.
func (l *Cluster) Profile(k federation.ProfileKey) *federation.Watch[*federation.Profile] {
	return l.profiles.watch(k)
}

// profile returns the profile of the destination with the given address or DNS name. Federated and
// mirrored Services are treated like any other Service.
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

// portProfile returns the profile of a service port for clients in a namespace.
//
// A ServiceProfile in the client's namespace overrides the ServiceProfile in the Service's
// namespace. Even an invalid ServiceProfile in the client's namespace takes precedence, because the
// users who created it wanted to override the ServiceProfile in the Service's namespace. Opaque
// ports come from the Service's annotation or the default, never from a ServiceProfile.
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

func (l *Cluster) profileName(id federation.ServiceID) string {
	return fmt.Sprintf("%s.%s.svc.%s", id.Name, id.Namespace, l.domain)
}

// ProfileProblem describes the invalid parts of the ServiceProfile that clients in the given
// namespace use for a Service. If the ServiceProfile is valid or missing, the result is "".
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
		"Services that have at least one invalid federation annotation or label.", nil, nil)
	profilesDesc = prometheus.NewDesc(
		"isthmus_service_profiles_rejected", "ServiceProfiles that Isthmus cannot use.", nil, nil,
	)
)

// Describe implements prometheus.Collector. Describe sends no descriptors, so the registry checks
// the metrics only when it collects them.
func (l *Cluster) Describe(chan<- *prometheus.Desc) {}

func (l *Cluster) Collect(ch chan<- prometheus.Metric) {
	h := l.cluster.Health()
	for _, m := range cluster.Series(federation.Local, l.Status().State, h) {
		ch <- m
	}
	ch <- cluster.StandingSeries(federation.Local, l.cordon)
	ch <- prometheus.MustNewConstMetric(problemsDesc, prometheus.GaugeValue, float64(len(l.Problems())))
	ch <- prometheus.MustNewConstMetric(profilesDesc, prometheus.GaugeValue, float64(h.RejectedProfiles))
}
