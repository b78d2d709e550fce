package cluster

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"isthmus/clusterstore/decode"
	"isthmus/clusterstore/follow"
	"isthmus/clusterstore/kube"
	"isthmus/federation"
	"isthmus/internal/panics"
)

// Config configures a Cluster. The Log and Changed fields are required, and so is either Client or
// Copied.
type Config struct {
	Name        federation.ClusterName
	Client      *kube.Client // Run closes it before it returns
	Copied      *Copied      // if set, the Cluster reads this copy and is stale; Exports must be nil
	TrustDomain string       // of Pod identities; if empty, endpoints have no identity
	Rules       Rules        // the same for all clusters
	Log         *zap.Logger
	Metrics     *Metrics          // the same for all clusters; nil disables metrics
	Memory      *follow.MemoryCap // limits the cache; nil means no limit
	// Supervisor recovers from panics in Changed and during the evaluation of Servers. In the local
	// cluster, Supervisor also recovers from panics in LocalConfig.ProfileChanged and during the
	// search for address conflicts. If Supervisor is nil, every panic ends the process.
	//
	// A panic during a list or watch of a linked cluster stops all lists and watches of that
	// cluster. After a panic in a list or watch, Health reports Failed, and the cache remains
	// readable. A panic during a list or watch of the local cluster always ends the process.
	Supervisor *panics.Supervisor

	// Changed is called when the endpoints of a service may have changed. The second argument is
	// the time of the earliest event that led to the call. Namespaces take turns, so that frequent
	// changes in one namespace do not block calls for other namespaces. Two calls may run
	// concurrently, but never for the same namespace. Changed is not called before the first sync
	// is complete.
	Changed func(svc federation.ServiceID, at time.Time)

	// If LinkChanged is set, the cluster calls it whenever the result of Region or Gateways
	// changes, even before the first sync. LinkChanged may call methods of the Cluster, but must
	// not block.
	LinkChanged func()

	// If Admit is set, the first sync completes only after Admit has been closed. See
	// [Cluster.Listed].
	Admit <-chan struct{}

	// Looks limits the number of clusters whose trust anchors and Pod networks are read at the same
	// time. If Looks is nil, there is no limit.
	Looks kube.Turns

	Exports *ExportHooks // if nil, nothing is cached for exports

	local *LocalConfig // nil for a linked cluster
}

func (c *Config) sliceManager() string {
	if c.local == nil {
		return ""
	}
	return c.local.SliceManager
}

// Rules contains settings that are the same for all clusters.
type Rules struct {
	ControllerNamespace string // namespace of the control plane whose Pods get identities
	DefaultOpaquePorts  Ports  // of Pods without the annotation
	EndpointSlices      bool   // if false, core Endpoints are read instead
	LoopbackGateways    bool   // for tests: gateways of other networks may have loopback addresses
}

// GatewayRoutable reports whether an IP can belong to a Linkerd gateway on another host.
func (r Rules) GatewayRoutable(ip netip.Addr) bool {
	return Routable(ip) || r.LoopbackGateways && ip.IsLoopback()
}

// Cluster caches the objects of one cluster, and is a [federation.Source] of the cluster's
// endpoints. A Cluster keeps its cache for its whole lifetime, no matter how long the API server is
// unreachable.
type Cluster struct {
	cfg       Config
	cache     *cache
	resources []*follow.Resource
	group     *follow.Group               // runs the resources
	contain   func(part string, f func()) // calls f for one part of the cluster; see untilPanic
	fail      func()                      // set by Run; stops all work started by Run before its context ends
	facts     *kube.Keeper
}

var _ federation.Source = (*Cluster)(nil)

// New validates the configuration and returns a Cluster. New performs no network I/O and starts no
// goroutines.
func New(cfg Config) (*Cluster, error) {
	if cfg.Copied != nil {
		cfg.Client = cfg.Copied.client()
	}
	if cfg.Client == nil || cfg.Log == nil || cfg.Changed == nil {
		return nil, fmt.Errorf("cluster %s: Client, Log and Changed are required", cfg.Name)
	}
	c := &Cluster{
		cfg:   cfg,
		cache: newCache(cfg.Name, cfg.TrustDomain, cfg.Rules.ControllerNamespace),
		facts: kube.NewKeeper(cfg.Client, cfg.Rules.ControllerNamespace, cfg.Looks),
	}
	if cfg.local != nil {
		c.cache.local = newLocal(c)
	}
	if cfg.Exports != nil {
		mcsVersion := func() string { return cfg.Client.Sources.MCSVersion() }
		c.cache.exports = newExportIndex(c.cache, cfg.Exports, mcsVersion)
	}
	c.resources = c.newResources()
	c.contain = func(_ string, f func()) { f() }
	if cfg.local == nil && cfg.Supervisor != nil {
		c.contain = c.untilPanic
	}
	c.group = follow.NewGroup(follow.Options{
		Contain:   c.contain,
		Printable: cfg.Client.Printable,
		Admit:     cfg.Admit,
		Memory:    cfg.Memory,
		Trouble: func(resource, text string) {
			cfg.Log.Info("Isthmus is repeating requests for a resource because the API server is behaving unexpectedly",
				zap.String("resource", resource), zap.String("reason", text))
		},
	}, c.resources...)
	return c, nil
}

// newResources returns the resources that the cluster lists and watches. The resourceNames variable
// in metrics.go must list the metric names of each resource.
func (c *Cluster) newResources() []*follow.Resource {
	all := []*follow.Resource{resource(c, serviceKind(c)), resource(c, podKind(c))}
	if c.cfg.Rules.EndpointSlices {
		all = append(all, resource(c, endpointSliceKind(c)))
	} else {
		all = append(all, resource(c, endpointsKind(c)))
	}
	all = append(all, resource(c, replicaSetKind(c)), resource(c, jobKind(c)))
	all = append(all, resource(c, serverKind(c)), resource(c, workloadKind(c)))
	if c.cache.local != nil {
		all = append(all, resource(c, profileKind(c)), resource(c, localNodeKind(c)))
	} else {
		all = append(all, resource(c, linkedNodeKind(c)))
	}
	if c.cfg.Exports != nil && c.cfg.local != nil {
		all = append(all, resource(c, namespaceKind(c)))
	}
	if c.cfg.Exports != nil && c.cfg.Exports.ServiceExport != nil {
		all = append(all, resource(c, serviceExportKind(c)))
	}
	if c.cfg.Exports != nil && c.cfg.Exports.ServiceImport != nil && c.cfg.local != nil {
		all = append(all, resource(c, serviceImportKind(c)))
	}
	return all
}

func resource[O decode.Object, T any](c *Cluster, k follow.Kind[O, T]) *follow.Resource {
	k.Lag = c.cfg.Metrics.lag(k.Name)
	k.Same = k.Into.(store[T]).same
	return follow.New(k)
}

// The serves method returns a function that asks the API server whether it serves an optional
// resource.
func (c *Cluster) serves(resource schema.GroupVersionResource) func(context.Context) (bool, error) {
	return func(ctx context.Context) (bool, error) {
		return c.cfg.Client.Sources.Serves(ctx, resource.Resource, resource.GroupVersion())
	}
}

// Run lists and watches the cluster's objects until ctx is done, and returns when all of its
// goroutines have stopped. The cache remains readable afterwards. Run must be called only once.
func (c *Cluster) Run(ctx context.Context) {
	untilStopped := ctx.Done() // a failure does not close this channel
	ctx, fail := context.WithCancel(ctx)
	defer fail()
	c.fail = fail
	var all sync.WaitGroup
	for range 2 { // the second goroutine continues while the first reads a large service
		all.Go(func() { c.cache.dirty.Run(ctx, c.changed) })
	}
	all.Go(func() { c.cache.policies.dirty.Run(ctx, c.evaluatePolicy) })
	if local := c.cache.local; local != nil {
		all.Go(func() { local.dirty.Run(ctx, local.topicChanged) })
	}
	all.Go(func() {
		c.contain("facts", func() {
			c.facts.Run(ctx, c.Synced())
		})
	})
	c.group.Run(ctx, c.goLive)
	all.Wait()
	<-untilStopped
	c.cfg.Client.Close()
}

// untilPanic calls f and recovers from a panic in f. A panic stops all lists and watches of the
// cluster, because a partial update may remain in the cache.
func (c *Cluster) untilPanic(part string, f func()) {
	defer func() {
		if reason := recover(); reason != nil {
			work := panics.Work{Where: panics.Resource, Object: c.cfg.Name.String() + ": " + part}
			c.cfg.Supervisor.Report(work, reason)
			c.group.Fail(fmt.Errorf("%s: Isthmus panicked, because of a bug: %s", part, panics.Text(reason)))
			c.fail()
		}
	}()
	f()
}

func (c *Cluster) goLive() {
	for _, namespace := range c.cache.policies.namespaces() {
		c.evaluatePolicy(namespace, time.Now())
	}
	c.cache.reportChanges()
}

func (c *Cluster) evaluatePolicy(namespace string, _ time.Time) {
	evaluate := func() {
		if reason := c.cache.policies.evaluate(namespace); reason != "" {
			c.cfg.Log.Warn("not all Servers of a namespace are used",
				zap.String("namespace", namespace), zap.String("reason", reason))
		}
	}
	work := panics.Work{Where: panics.Policy, Object: c.cfg.Name.String() + ": namespace " + namespace}
	c.cfg.Supervisor.Do(work, evaluate, func() { c.cache.policies.dirty.Add(namespace, namespace, time.Now()) })
}

func (c *Cluster) changed(svc federation.ServiceID, at time.Time) {
	work := panics.Work{Where: panics.Change, Service: svc, Object: c.cfg.Name.String()}
	c.cfg.Supervisor.Do(work, func() { c.cfg.Changed(svc, at) }, func() { c.changed(svc, at) })
}

// updateLink calls the update function. If the result of Region or Gateways has changed, updateLink
// also calls Config.LinkChanged. updateLink must be called only from [follow.Kind].Applied, so that
// LinkChanged never sees a partial list.
func (c *Cluster) updateLink(update func() (changed bool)) {
	c.cache.mu.Lock()
	changed := update()
	c.cache.mu.Unlock()
	if changed && c.cfg.LinkChanged != nil {
		c.cfg.LinkChanged()
	}
}

// Listed returns a channel that is closed once all conditions for completing the first sync are
// met, except possibly Config.Admit.
func (c *Cluster) Listed() <-chan struct{} { return c.group.Listed() }

// Synced returns a channel that is closed when the first sync is complete. The first sync waits for
// lists of Services, Pods, and either EndpointSlices or Endpoints. The first sync also waits for
// each optional resource, unless the API server rejects the list or does not respond in time. The
// first sync also waits until all listed Servers have been evaluated.
func (c *Cluster) Synced() <-chan struct{} { return c.group.Synced() }

// Look asks Run to read the trust anchors and Pod networks of the cluster again, unless they were
// read recently. The returned channel is closed once Health reflects the result of the read. See
// [kube.Keeper.Look].
func (c *Cluster) Look() <-chan struct{} { return c.facts.Look() }

// HealthChanged returns a channel that is closed when the synced state, Health.Err or
// Health.StaleSince changes. To avoid missing a change, get the channel before calling Health.
func (c *Cluster) HealthChanged() <-chan struct{} { return c.group.HealthChanged() }

// Health returns the current health of the cluster.
func (c *Cluster) Health() Health {
	h := Health{Health: c.group.Health()}
	c.cfg.Copied.adjust(&h.Health, c.Synced())
	h.Memory = c.cfg.Memory.Usage()
	h.API = c.cfg.Client.Server()
	c.facts.Facts().AddTo(&h.API)
	h.MalformedProxies = c.cache.pods.malformedProxies()
	h.Unusable, h.RejectedProfiles = c.cache.unusableObjects()
	return h
}

// State reports whether a Service exists, and whether its type is ExternalName.
func (c *Cluster) State(svc federation.ServiceID) federation.ServiceState {
	return c.cache.services.stateOf(svc)
}

// Service returns the cached fields of a Service, or nil if the Service does not exist.
func (c *Cluster) Service(id federation.ServiceID) *Service {
	c.cache.mu.RLock()
	defer c.cache.mu.RUnlock()
	if e := c.cache.services.byID[id]; e != nil {
		return e.spec
	}
	return nil
}

// Gateways returns up to maxGateways Linkerd gateways of the cluster, sorted by namespace and name.
// The second result is the number of gateways omitted from the list.
func (c *Cluster) Gateways() (list []*Gateway, more int) {
	c.cache.mu.RLock()
	list = slices.Collect(maps.Values(c.cache.gateways.byService))
	c.cache.mu.RUnlock()
	slices.SortFunc(list, func(a, b *Gateway) int {
		return compareServices(a.Service, b.Service)
	})
	if more = len(list) - maxGateways; more > 0 {
		return list[:maxGateways], more
	}
	return list, 0
}

// Region returns the region (topology.kubernetes.io/region) that all Nodes of the cluster share.
// The region is empty if there are no Nodes, if the Nodes are in different regions, or if a Node
// has no region. The second result is false if Nodes have never been listed. While Nodes cannot be
// read, Region returns the last known region.
func (c *Cluster) Region() (region string, known bool) {
	c.cache.mu.RLock()
	defer c.cache.mu.RUnlock()
	return c.cache.nodes.region, c.cache.nodes.regionKnown
}

// Exports returns the cached results of the export hooks. While the API server is unreachable,
// Exports returns the last known results. While the list of any exported kind is incomplete,
// Exports returns its previous result, or nil if there is none. Exports also returns nil if
// Config.Exports is nil, or if Services have not been listed yet. After a call to RelistServices,
// Exports returns nil until Services have been listed again. The running time of Exports depends on
// the number of exports, not on the number of Services.
func (c *Cluster) Exports() *CachedExports { return c.cache.exports.current() }

// RelistServices requests a new list of all Services. For each Service in the list, the Cluster
// calls the export hook again. Exports returns nil until the list is complete. RelistServices does
// not block.
func (c *Cluster) RelistServices() {
	c.cache.mu.Lock()
	defer c.cache.mu.Unlock()
	c.cache.exports.forgetServices()
	c.resources[0].ListAgain() // the Services
}

// Declares implements [federation.Source].
func (c *Cluster) Declares(svc federation.ServiceID, port uint16) bool {
	return c.cache.services.declares(svc, port)
}

// Reader returns a reader for one port of a Service. After a change, the reader reprocesses only
// the EndpointSlices that the change affects.
func (c *Cluster) Reader(svc federation.ServiceID, port uint16) federation.Reader {
	return &reader{cache: c.cache, service: svc, port: port}
}

// Explain implements [federation.Explainer]. Explain locks the cache for only one EndpointSlice at
// a time, so that readers and events are not blocked for long.
func (c *Cluster) Explain(svc federation.ServiceID, port uint16) iter.Seq[federation.Considered] {
	return explain(c.cache, svc, port)
}

// Copy returns the cached objects of a linked cluster as gzipped lists, by resource. The result
// contains one list for each resource that the Cluster has listed. The limit argument is the
// maximum total size, in bytes, of the lists. If the lists are larger, Copy returns an error.
//
// Exports are not copied. Invalid Servers and ExternalWorkloads cannot be copied, because the cache
// contains only the reason why they are invalid. Because EndpointSlices are copied before Pods, a
// copy contains every Pod to which its slices refer, even if the cluster changes during the call. A
// copied Pod may be newer than the slices that refer to the Pod. If two Clusters have cached equal
// objects, Copy returns equal results for both.
func (c *Cluster) Copy(limit int) (map[string][]byte, error) { return makeCopy(c, limit) }
