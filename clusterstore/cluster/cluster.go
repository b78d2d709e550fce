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

// Config configures a Cluster. Client, Log and Changed are needed.
type Config struct {
	Name        federation.ClusterName
	Client      *kube.Client // closed when Run returns
	TrustDomain string       // of its Pods' identities; empty: its endpoints have none
	Rules       Rules        // the same for all clusters
	Log         *zap.Logger
	Metrics     *Metrics          // the same for all clusters; nil: no metrics
	Memory      *follow.MemoryCap // of what is cached; if it is nil, there is no limit
	// Supervisor recovers from panics of Changed and of the evaluation of Servers. For the local
	// cluster it also recovers from panics while profiles change or address conflicts are searched.
	// A panic while a linked cluster is listed or watched ends all its lists and watches: Health
	// says Failed, and the cache stays. If Supervisor is nil, all these panics end the process. A
	// panic while the local cluster is listed or watched always ends the process.
	Supervisor *panics.Supervisor

	// Changed is called when what the cluster offers of a service may have
	// changed; at is when the first event behind it came. It is called in turn by
	// namespace, for two at the same time but never twice for one of them, and only
	// after Synced: what was read before that is complete.
	Changed func(svc federation.ServiceID, at time.Time)

	// LinkChanged, if set, is called after the result of Region or Gateways has changed, also
	// before Synced. No lock is held then, and it may call methods of the Cluster. It must
	// not block.
	LinkChanged func()

	// Admit, if set, delays Synced until it is closed: see [Cluster.Listed].
	Admit <-chan struct{}

	// Looks limits how many clusters are looked at at the same time. If it is nil, there is no limit.
	Looks kube.Turns

	Exports *ExportHooks // nil: nothing is cached for exports

	local *LocalConfig // nil: it is a linked cluster
}

// sliceManager is LocalConfig.SliceManager; empty: there is none.
func (c *Config) sliceManager() string {
	if c.local == nil {
		return ""
	}
	return c.local.SliceManager
}

// Rules are the gateway's settings for Pods, the same for all clusters.
type Rules struct {
	ControllerNamespace string // of the control plane whose Pods have identities
	DefaultOpaquePorts  Ports  // of Pods without annotation
	EndpointSlices      bool   // false: read core Endpoints instead
	LoopbackGateways    bool   // gateways of other networks may have loopback addresses: for tests
}

// GatewayRoutable reports whether a gateway can have an address: whether it can be another
// host's.
func (r Rules) GatewayRoutable(ip netip.Addr) bool {
	return Routable(ip) || r.LoopbackGateways && ip.IsLoopback()
}

// Cluster follows one cluster's API and is a [federation.Source] of its endpoints:
// EndpointSlices joined with Services, Pods and their owners, ExternalWorkloads,
// and the Servers that select them.
//
// It keeps all objects for as long as it exists, however long its API can't be
// reached, and watches again within 10 s of the API's return.
type Cluster struct {
	// fixed
	cfg       Config
	state     *state
	resources []*follow.Resource
	group     *follow.Group               // runs the resources
	contain   func(part string, f func()) // calls f, which follows a part of the cluster: see untilPanic
	fail      func()                      // set by Run; ends all of it but its waiting for the end of its context
	facts     *kube.Keeper
}

var _ federation.Source = (*Cluster)(nil)

// New checks the configuration. It does no network IO and starts nothing.
func New(cfg Config) (*Cluster, error) {
	if cfg.Client == nil || cfg.Log == nil || cfg.Changed == nil {
		return nil, fmt.Errorf("cluster %s: Client, Log and Changed are needed", cfg.Name)
	}
	c := &Cluster{
		cfg:   cfg,
		state: newState(cfg.Name, cfg.TrustDomain, cfg.Rules.ControllerNamespace),
		facts: kube.NewKeeper(cfg.Client, cfg.Rules.ControllerNamespace, cfg.Looks),
	}
	if cfg.local != nil {
		c.state.local = newLocal(c)
	}
	if cfg.Exports != nil {
		mcsVersion := func() string { return cfg.Client.Sources.MCSVersion() }
		c.state.exports = newExportIndex(c.state, cfg.Exports, mcsVersion)
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
			cfg.Log.Info("a resource has to be requested again and again",
				zap.String("resource", resource), zap.String("reason", text))
		},
	}, c.resources...)
	return c, nil
}

// newResources returns the resources that the cluster follows. Each is defined in the
// file of its kind. To follow another one, add it here and to kinds (metrics.go), which
// has the names of its metrics.
func (c *Cluster) newResources() []*follow.Resource {
	all := []*follow.Resource{resource(c, serviceKind(c)), resource(c, podKind(c))}
	if c.cfg.Rules.EndpointSlices {
		all = append(all, resource(c, endpointSliceKind(c)))
	} else {
		all = append(all, resource(c, endpointsKind(c)))
	}
	all = append(all, resource(c, replicaSetKind(c)), resource(c, jobKind(c)))
	all = append(all, resource(c, serverKind(c)), resource(c, workloadKind(c)))
	if c.state.local != nil {
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

// serves returns what asks whether the cluster has an optional resource.
func (c *Cluster) serves(resource schema.GroupVersionResource) func(context.Context) (bool, error) {
	return func(ctx context.Context) (bool, error) {
		return c.cfg.Client.Sources.Serves(ctx, resource.Resource, resource.GroupVersion())
	}
}

// Run follows the cluster until ctx ends, and returns once all its goroutines
// have ended. What was read stays readable after that. Call it once.
func (c *Cluster) Run(ctx context.Context) {
	untilStopped := ctx.Done() // also after a failure
	ctx, fail := context.WithCancel(ctx)
	defer fail()
	c.fail = fail
	var all sync.WaitGroup
	for range 2 { // one may wait for a large service that is being read for another reason
		all.Go(func() { c.state.dirty.Run(ctx, c.changed) })
	}
	all.Go(func() { c.state.policies.dirty.Run(ctx, c.evaluatePolicy) })
	if local := c.state.local; local != nil {
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

// untilPanic calls f, which follows a part of the cluster, and recovers from a panic of f. After a
// panic, all lists and watches of the cluster end, because its cache may be half changed.
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

// goLive evaluates all policies, and then lets changes be reported.
func (c *Cluster) goLive() {
	for _, namespace := range c.state.policies.namespaces() {
		c.evaluatePolicy(namespace, time.Now())
	}
	c.state.reportChanges()
}

// evaluatePolicy evaluates a namespace's policy. While the policy is too large, it logs that once.
func (c *Cluster) evaluatePolicy(namespace string, _ time.Time) {
	evaluate := func() {
		if reason := c.state.policies.evaluate(namespace); reason != "" {
			c.cfg.Log.Warn("not all Servers of a namespace are used",
				zap.String("namespace", namespace), zap.String("reason", reason))
		}
	}
	work := panics.Work{Where: panics.Policy, Object: c.cfg.Name.String() + ": namespace " + namespace}
	c.cfg.Supervisor.Do(work, evaluate, func() { c.state.policies.dirty.Add(namespace, namespace, time.Now()) })
}

// changed reports that what the cluster offers of a service may have changed.
func (c *Cluster) changed(svc federation.ServiceID, at time.Time) {
	work := panics.Work{Where: panics.Change, Service: svc, Object: c.cfg.Name.String()}
	c.cfg.Supervisor.Do(work, func() { c.cfg.Changed(svc, at) }, func() { c.changed(svc, at) })
}

// updateLink calls update, and then Config.LinkChanged if the result of Region or Gateways has changed. It is called
// after a whole list, or an event, so that no part of a list counts.
func (c *Cluster) updateLink(update func() (changed bool)) {
	c.state.mu.Lock()
	changed := update()
	c.state.mu.Unlock()
	if changed && c.cfg.LinkChanged != nil {
		c.cfg.LinkChanged()
	}
}

// Listed returns a channel that is closed once the first sync waits for nothing but Config.Admit.
func (c *Cluster) Listed() <-chan struct{} { return c.group.Listed() }

// Synced returns a channel that is closed once all needed resources (EndpointSlices
// or Endpoints, Services, Pods) have been listed and can be read, and the optional
// ones (ReplicaSets, Jobs, Nodes, Servers, ExternalWorkloads, ServiceProfiles) if the
// cluster lets them be listed in time. What Servers make opaque has been evaluated by then.
func (c *Cluster) Synced() <-chan struct{} { return c.group.Synced() }

// Look makes the cluster read its trust anchors and Pod networks again. It returns a channel that is closed
// once Health has them: see [facts.Keeper.Look].
func (c *Cluster) Look() <-chan struct{} { return c.facts.Look() }

// HealthChanged returns a channel that is closed at the next change of Health's
// Err or StaleSince, or of what is synced. Get it before you call Health.
func (c *Cluster) HealthChanged() <-chan struct{} { return c.group.HealthChanged() }

// Health returns the cluster's present health.
func (c *Cluster) Health() Health {
	h := Health{Health: c.group.Health()}
	h.Memory = c.cfg.Memory.Usage()
	h.API = c.cfg.Client.Server()
	c.facts.Facts().AddTo(&h.API)
	h.MalformedProxies = c.state.pods.malformedProxies()
	h.Unusable, h.RejectedProfiles = c.state.unusableObjects()
	return h
}

// State returns whether the cluster has the Service now, and whether that is of type
// ExternalName.
func (c *Cluster) State(svc federation.ServiceID) federation.ServiceState {
	return c.state.services.stateOf(svc)
}

// Service returns what is kept of a Service; nil: there is none.
func (c *Cluster) Service(id federation.ServiceID) *Service {
	c.state.mu.RLock()
	defer c.state.mu.RUnlock()
	if e := c.state.services.byID[id]; e != nil {
		return e.spec
	}
	return nil
}

// Gateways returns the cluster's Linkerd gateways, sorted by namespace and name, and how many more
// there are.
func (c *Cluster) Gateways() (list []*Gateway, more int) {
	c.state.mu.RLock()
	list = slices.Collect(maps.Values(c.state.gateways.byService))
	c.state.mu.RUnlock()
	slices.SortFunc(list, func(a, b *Gateway) int {
		return compareServices(a.Service, b.Service)
	})
	if more = len(list) - maxGateways; more > 0 {
		return list[:maxGateways], more
	}
	return list, 0
}

// Region returns the one region that all Nodes have (topology.kubernetes.io/region). It is empty if there are no Nodes,
// they differ, or one has none. If known is false, Nodes have never been listed. What was read stays while Nodes can't
// be read.
func (c *Cluster) Region() (region string, known bool) {
	c.state.mu.RLock()
	defer c.state.mu.RUnlock()
	return c.state.nodes.region, c.state.nodes.regionKnown
}

// Exports returns what the hooks returned for the cluster's objects. It stays while the cluster's API can't be reached.
// It is nil if the Services have not been listed yet, or not since SelectorsChanged, or if Config.Exports is nil. The
// time that it takes depends on the number of exports, not on that of Services.
func (c *Cluster) Exports() *Exports { return c.state.exports.current() }

// SelectorsChanged makes the hook read all Services again. Until they have been listed, Exports returns nil. It does
// not block.
func (c *Cluster) SelectorsChanged() {
	c.state.mu.Lock()
	defer c.state.mu.Unlock()
	c.state.exports.forgetServices()
	c.resources[0].ListAgain() // of Services
}

// Declares implements [federation.Source].
func (c *Cluster) Declares(svc federation.ServiceID, port uint16) bool {
	return c.state.services.declares(svc, port)
}

// Reader returns a reader of one service port. After a change, its Read only joins
// those EndpointSlices again that have changed.
func (c *Cluster) Reader(svc federation.ServiceID, port uint16) federation.Reader {
	return &reader{state: c.state, service: svc, port: port}
}

// Explain implements [federation.Explainer]. It holds the state's lock for one slice at a
// time.
func (c *Cluster) Explain(svc federation.ServiceID, port uint16) iter.Seq[federation.Considered] {
	return explain(c.state, svc, port)
}
