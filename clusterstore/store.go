package clusterstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"isthmus/clusterstore/cluster"
	"isthmus/clusterstore/follow"
	"isthmus/clusterstore/gateway"
	"isthmus/clusterstore/kube"
	"isthmus/federation"
	"isthmus/internal/adminapi"
	"isthmus/internal/panics"
)

// DefaultLostAfter is the default value of [Options].LostAfter.
const DefaultLostAfter = time.Minute

// Options configures a Store.
type Options struct {
	Namespace  string                // namespace of the link Secrets
	Rules      cluster.Rules         // rules for all clusters
	Table      *federation.Table     // receives the links
	Log        *zap.Logger           // if nil, nothing is logged
	Registerer prometheus.Registerer // registers the metrics of the Store; may be nil
	Metrics    *cluster.Metrics      // receives the metrics of clusters; may be nil
	Memory     int64                 // memory cap of each linked cluster, in bytes; zero means no cap
	Network    string                // network of Isthmus, which cannot reach Pods on other networks
	IPv6       bool                  // clients get IPv6 addresses, as in the Options of the Table
	// LocalCluster is the cache of the local cluster. If a linked cluster has a gateway address
	// that belongs to the local cluster, Isthmus does not probe the address. If LocalCluster is
	// nil, Isthmus does not know the addresses of the local cluster.
	LocalCluster gateway.LocalCluster

	// WhenLost and LostAfter are defaults that link Secrets may override. WhenLost says whether the
	// endpoints of a lost cluster stay in service, become a last resort or are withdrawn. A cluster
	// counts as lost once Isthmus has been unable to list or watch the cluster's objects for at
	// least LostAfter.
	WhenLost  federation.Standing
	LostAfter time.Duration // zero means DefaultLostAfter

	// If Exports is set, the Store caches the exports of all clusters. Exports requires a LocalLink
	// that was created with the same ExportOptions. If Exports is nil, exports are neither listed
	// nor cached.
	Exports   *ExportOptions
	LocalLink *LocalLink

	// ReadCopy returns the copy of a cluster, or nil if no copy exists. The Store calls ReadCopy
	// only for links that exist when it starts. If the Store settles before it has tried to load a
	// link's copy, it never calls ReadCopy for that link. If ReadCopy returns an error other than
	// an [UnusableCopy], the Store retries every second for about ten seconds. If the link Secret
	// changes, the Store may also call ReadCopy again. If ReadCopy is nil, copies are not used.
	ReadCopy func(context.Context, federation.ClusterName) (*Copy, error)

	// Supervisor recovers from panics in the code that processes changes to a cluster. If
	// Supervisor is nil, a panic ends the process.
	Supervisor *panics.Supervisor

	// Report is called after each change to the state, standing or credentials of a link, and for
	// each rejected link Secret. Report may be called concurrently and must not block. Report may
	// be nil.
	Report func(cluster.Change)
}

func (o *Options) defaultSettings() linkSettings {
	d := linkSettings{whenLost: o.WhenLost, lostAfter: o.LostAfter}
	if o.Exports != nil {
		d.readExports = o.Exports.Settings
	}
	return d
}

func (o *Options) validate() error {
	if o.LostAfter == 0 {
		o.LostAfter = DefaultLostAfter
	}
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	if o.Report == nil {
		o.Report = func(cluster.Change) {}
	}
	switch {
	case o.Namespace == "":
		return errors.New("clusterstore: Options.Namespace is empty: set it to the namespace of the link Secrets")
	case o.Table == nil:
		return errors.New("clusterstore: Options.Table is nil")
	case o.Exports != nil && (o.Exports.Hooks == nil || o.Exports.Settings == nil ||
		o.LocalLink == nil || o.LocalLink.link.env.exports != o.Exports):
		return errors.New("clusterstore: Options.Exports requires Hooks, Settings, " +
			"and an Options.LocalLink with the same ExportOptions")
	}
	return nil
}

// Store watches the link Secrets in a namespace, and runs a Cluster for each cluster name in the
// labels of these Secrets. A cluster stays in the table as long as at least one link Secret with
// its name exists. Clusters do not affect each other, because each cluster name has its own
// goroutine, which handles the link Secrets with that name.
type Store struct {
	client  *kube.Client
	opts    Options
	linkEnv // environment of the links in the Store
	settled chan struct{}
	loads   starts // limits how many copies are loaded at the same time

	secrets federation.Latest[snapshot]
	readErr atomic.Pointer[error] // why Secrets cannot be read; nil if no failure is known

	mu         sync.Mutex
	dispatched bool // the links map contains all cluster names in Secrets
	links      map[federation.ClusterName]*link
}

// ExportOptions connects package local/exports to the caches of the local cluster and all linked
// clusters. All clusters share one value. Both functions are required.
type ExportOptions struct {
	// Hooks returns the hooks for the cluster with the given name, which is empty for the local
	// cluster. The Store sets the Changed field of the returned hooks.
	Hooks func(cluster string) cluster.ExportHooks
	// Settings parses the annotations on a link Secret. The returned settings must not be nil.
	// Settings must return at most one warning for each annotation.
	Settings func(annotations map[string]string) (settings any, warnings []string)
}

// ClusterExports contains the exports of the local cluster or of one linked cluster.
type ClusterExports struct {
	Name   string    // empty for the local cluster
	Domain string    // DNS domain of the cluster, such as "cluster.local"
	Linked time.Time // when the link Secret was created
	// Settings is the value that ExportOptions.Settings returned for the annotations of the link
	// Secret. Settings is nil for the local cluster, and for a linked cluster without a usable
	// Secret.
	Settings     any
	OtherNetwork bool                   // proxies reach the cluster through Linkerd gateways
	Exports      *cluster.CachedExports // nil if the exports are unknown
}

// NewStore validates the options and registers the metrics. NewStore performs no I/O and starts no
// goroutines. The client must connect to the local cluster, and needs permission to list and watch
// Secrets in the namespace of the link Secrets.
func NewStore(client *kube.Client, o Options) (*Store, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	s := &Store{
		client: client,
		opts:   o,
		linkEnv: linkEnv{
			rules:      o.Rules,
			table:      o.Table,
			log:        o.Log,
			metrics:    o.Metrics,
			supervisor: o.Supervisor,
			report:     o.Report,
			starts:     newStarts(maxStarts),
			setLink:    o.Table.SetLink,
			exports:    o.Exports,
			namespace:  o.Namespace,
			network:    o.Network,
			ipv6:       o.IPv6,
			looks:      kube.NewTurns(),
			probes:     newProbes(),
			filter:     &gateway.AddressFilter{Routable: o.Rules.GatewayRoutable, Local: o.LocalCluster},
		},
		settled: make(chan struct{}),
		loads:   newStarts(maxLoads),
		links:   make(map[federation.ClusterName]*link),
	}
	s.create = s.newCluster
	if o.Exports != nil {
		s.exportsChanged = o.LocalLink.link.env.exportsChanged
	}
	if o.Registerer != nil {
		if err := registerStore(s, o.Registerer); err != nil {
			return nil, fmt.Errorf("clusterstore: metrics: %w", err)
		}
	}
	return s, nil
}

// If the configuration contains a copy, the new Cluster reads the copy instead of using the
// credentials.
func (s *Store) newCluster(from *rest.Config, cfg cluster.Config) (Cluster, error) {
	cfg.Memory = follow.NewMemoryCap(s.opts.Memory) // not shared with a successor
	if cfg.Copied != nil {
		return cluster.New(cfg)
	}
	client, err := kube.New(cfg.Name, from, s.metrics.Requests())
	if err != nil {
		return nil, fmt.Errorf("cluster %s: %w", cfg.Name, err)
	}
	cfg.Client = client
	return cluster.New(cfg)
}

// Until ctx is done, Run watches the link Secrets and runs a Cluster for each linked cluster. Run
// returns when all Clusters have stopped. When Run returns, the table still contains the links, so
// proxies do not lose endpoints during a shutdown. Run must be called only once.
func (s *Store) Run(ctx context.Context) error {
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() { s.watchSecrets(ctx) })
	logged := make(map[string]string)
	for {
		now, newer := s.secrets.Get()
		if now.listed {
			s.logRefused(now, logged)
			s.dispatch(now, func(l *link) { running.Go(func() { l.run(ctx) }) })
		}
		select {
		case <-ctx.Done():
			return nil
		case <-newer:
		}
	}
}

// watchSecrets keeps s.secrets up to date until ctx is done. Secrets are selected by type, not by
// label, so that Status can also report link Secrets that lack the label. While Secrets cannot be
// read, s.secrets does not change.
func (s *Store) watchSecrets(ctx context.Context) {
	known := make(follow.Map[*credentials])
	options := follow.Options{Printable: s.client.Printable, Trouble: func(_, text string) {
		s.log.Info("Isthmus is repeating requests for link Secrets because the API server is behaving unexpectedly",
			zap.String("reason", text))
	}}
	follow.NewGroup(options, follow.New(follow.Kind[*corev1.Secret, *credentials]{
		Name: "secrets", Needed: true,
		Source: s.client.Sources.Secrets(s.namespace),
		Fields: "type=" + SecretType,
		Compact: func(o *corev1.Secret) (c *credentials, ok bool) {
			if o.Type != SecretType {
				return nil, false
			}
			return readSecret(o, time.Now(), s.opts.defaultSettings()), true
		},
		Into:    known,
		Same:    (*credentials).sameVersion,
		Applied: func() { s.secrets.Set(snapshotOf(known)) },
		Report:  s.reportReadable,
	})).Run(ctx, nil)
}

// snapshot contains all link Secrets at one point in time. It is immutable.
type snapshot struct {
	listed  bool           // the Secrets have been listed
	secrets []*credentials // oldest first
}

func snapshotOf(all follow.Map[*credentials]) snapshot {
	list := slices.Collect(maps.Values(all))
	sortCredentials(list)
	return snapshot{listed: true, secrets: list}
}

// reportReadable records whether link Secrets can be read, and logs each change. If err is nil,
// link Secrets can be read.
func (s *Store) reportReadable(err error) {
	log := s.log.With(zap.String("namespace", s.namespace))
	if err == nil {
		if s.readErr.Swap(nil) != nil {
			log.Info("link Secrets can be read again")
		}
		return
	}
	err = s.client.Printable(err)
	if s.readErr.CompareAndSwap(nil, &err) {
		log.Error("link Secrets cannot be read; the current links stay in effect", zap.Error(err))
	}
}

// logRefused logs each unusable Secret, and logs it again when the reason changes. The map contains
// the last reason that was logged for each Secret name.
func (s *Store) logRefused(now snapshot, logged map[string]string) {
	refused := make(map[string]bool)
	for _, c := range now.secrets {
		if c.refused == nil {
			continue
		}
		refused[c.secret] = true
		if why := c.refused.Error(); logged[c.secret] != why {
			logged[c.secret] = why
			s.log.Warn("link Secret cannot be used", zap.String("secret", c.secret),
				zap.Stringer("cluster", c.cluster), zap.Error(c.refused))
			s.report(cluster.Change{
				Cluster: c.cluster,
				Text:    fmt.Sprintf("link Secret %s cannot be used: %s", c.secret, why),
				Problem: true,
			})
		}
	}
	for secret := range logged {
		if !refused[secret] {
			delete(logged, secret)
		}
	}
}

// dispatch sends each link its Secrets, oldest first, and starts links for new cluster names.
func (s *Store) dispatch(now snapshot, start func(*link)) {
	lists := make(map[federation.ClusterName][]*credentials)
	for _, c := range now.secrets {
		if c.cluster != "" {
			lists[c.cluster] = append(lists[c.cluster], c)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, l := range s.links {
		if before, _ := l.mailbox.Get(); !slices.Equal(before, lists[name]) {
			l.mailbox.Set(lists[name])
		}
		delete(lists, name)
	}
	for name, list := range lists {
		l := s.newLink(name, zap.InfoLevel)
		l.store = s
		l.mailbox.Set(list)
		l.copy.allowed = s.opts.ReadCopy != nil && !s.dispatched
		s.links[name] = l
		start(l)
	}
	s.dispatched = true
	s.checkSettled()
	s.NotifyExports()
}

// removeIfUnused removes a link if it has no Secrets. If the link has received new Secrets,
// removeIfUnused returns false.
func (s *Store) removeIfUnused(l *link) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if list, _ := l.mailbox.Get(); len(list) > 0 {
		return false
	}
	delete(s.links, l.name)
	s.checkSettled()
	s.NotifyExports()
	return true
}

func (s *Store) markSettled(l *link) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l.settled = true
	s.checkSettled()
}

// If no link counts as pending any more, checkSettled closes the channel that Settled returns. Do
// not call checkSettled before the first dispatch. The caller must hold s.mu.
func (s *Store) checkSettled() {
	if closed(s.settled) {
		return
	}
	for _, l := range s.links {
		if !l.settled {
			return
		}
	}
	close(s.settled)
}

// Settled returns a channel that is closed once the Secrets have been listed and no link is
// pending. A link stops being pending once it is ready, stale, unreachable or rejected. A link also
// stops counting as pending once it has waited one second for gateway names to resolve, or ten
// seconds for the copy of its cluster to load. The channel remains closed when links are added
// later.
func (s *Store) Settled() <-chan struct{} { return s.settled }

// SecretsListed reports whether the link Secrets have been listed. If the link Secrets currently
// cannot be read, the error says why, and links do not change.
func (s *Store) SecretsListed() (listed bool, err error) {
	now, _ := s.secrets.Get()
	if why := s.readErr.Load(); why != nil {
		err = *why
	}
	return now.listed, err
}

// Namespace returns the namespace of the link Secrets.
func (s *Store) Namespace() string { return s.namespace }

// LocalRefused returns the requests that the local API server rejected when the Store listed or
// watched link Secrets.
func (s *Store) LocalRefused() []adminapi.RefusedRequest { return s.client.Server().Refused }

// Status returns one entry for each link Secret, used or not, oldest first.
func (s *Store) Status() []adminapi.Cluster {
	now, _ := s.secrets.Get()
	links := s.publishedLinks()
	list := make([]adminapi.Cluster, 0, len(now.secrets))
	for _, c := range now.secrets {
		list = append(list, s.status(c, links[c.cluster]))
	}
	return list
}

func (s *Store) status(c *credentials, v *linkStatus) adminapi.Cluster {
	var used *credentials
	if v != nil {
		used = v.accepted
	}
	st := c.describe(used)
	st.State = cluster.Rejected
	st.Since = c.read
	st.Server = c.server
	switch {
	case used != nil && used.secret == c.secret:
		v.describe(&st)
		if v.serving != nil && v.serving.creds.secret == c.secret {
			st.SecretVersion = v.serving.creds.version
		}
		if c.refused != nil {
			st.Warnings = append(st.Warnings, fmt.Sprintf(
				"the current version of the Secret cannot be used: %v; the previous version stays in use", c.refused,
			))
		}
	case c.refused != nil:
		st.Reason = c.refused.Error()
	case used != nil:
		st.Reason = fmt.Sprintf(
			"duplicate: cluster %s uses Secret %s until that Secret is deleted", c.cluster, used.secret,
		)
	default:
		st.State = cluster.Pending // the link of a new Secret has not published its status yet
	}
	return st
}

// The first result is the number of unusable Secrets per reason. The second result is the set of
// clusters without a usable Secret.
func (s *Store) rejected(
	links map[federation.ClusterName]*linkStatus,
) (reasons map[string]int, clusters map[federation.ClusterName]bool) {
	reasons = map[string]int{reasonLabel: 0, reasonAnnotation: 0, reasonKubeconfig: 0, reasonDuplicate: 0}
	clusters = make(map[federation.ClusterName]bool)
	now, _ := s.secrets.Get()
	for _, c := range now.secrets {
		v := links[c.cluster]
		accepted := v != nil && v.accepted != nil
		switch {
		case c.refused != nil:
			reasons[c.reason]++
			if c.cluster != "" && !accepted {
				clusters[c.cluster] = true
			}
		case accepted && v.accepted.secret != c.secret:
			reasons[reasonDuplicate]++
		}
	}
	return reasons, clusters
}

func (s *Store) publishedLinks() map[federation.ClusterName]*linkStatus {
	s.mu.Lock()
	defer s.mu.Unlock()
	links := make(map[federation.ClusterName]*linkStatus, len(s.links))
	for name, l := range s.links {
		if v := l.published.Load(); v != nil {
			links[name] = v
		}
	}
	return links
}

// LinkedCluster returns the cluster from which a link serves endpoints, and the state of the link.
// If no cluster is serving, LinkedCluster returns the cluster that is still syncing. If the link
// has no cluster, the returned cluster is nil. If no link has the given name, the returned state is
// empty.
func (s *Store) LinkedCluster(name federation.ClusterName) (*cluster.Cluster, cluster.State) {
	s.mu.Lock()
	l := s.links[name]
	s.mu.Unlock()
	if l == nil {
		return nil, ""
	}
	v := l.published.Load()
	if v == nil {
		return nil, cluster.Pending
	}
	if at := cmp.Or(v.served(), v.next); at != nil {
		c, _ := at.cluster.(*cluster.Cluster)
		return c, v.state
	}
	return nil, v.state
}

// Look requests that the trust anchors and Pod networks of all ready clusters be read again. Look
// returns when reading has succeeded or failed for every cluster, or when ctx is done. The result
// of Status includes the trust anchors and the Pod networks, each with its age.
func (s *Store) Look(ctx context.Context) {
	var looks []<-chan struct{}
	for _, v := range s.publishedLinks() {
		looks = append(looks, v.look())
	}
	await(ctx, looks...)
}

// Caches returns the caches of all links. The second result is false if the list may be incomplete.
func (s *Store) Caches() (list []LinkedCache, listed bool) {
	links := s.publishedLinks()
	s.mu.Lock()
	listed = s.dispatched && len(links) == len(s.links)
	s.mu.Unlock()
	for name, v := range links {
		one := LinkedCache{State: v.state, Since: v.since}
		one.Cluster = name
		if v.serving != nil {
			one.Identity = v.serving.creds.identity
			one.Server = v.serving.creds.server
			one.Lost = v.standing.lostSince
			if one.SameCluster(v.accepted.identity, v.accepted.server) {
				one.Copy = v.serving.cluster.Copy
			}
		}
		list = append(list, one)
	}
	return list, listed
}

// Exports returns the exports of the local cluster, followed by those of the links, sorted by link
// name. The second result is false if the link Secrets have not been listed yet. The running time
// of Exports is proportional to the number of links and, after a change, to the number of exports.
//
// Exports, ExportsChanged, NotifyExports and RelistServices require Options.Exports.
func (s *Store) Exports() (all []ClusterExports, linksListed bool) {
	s.mu.Lock()
	dispatched := s.dispatched
	links := maps.Clone(s.links)
	s.mu.Unlock()
	all = append(all, ClusterExports{Exports: s.opts.LocalLink.link.published.Load().exports()})
	for _, name := range slices.Sorted(maps.Keys(links)) {
		all = append(all, links[name].clusterExports())
	}
	return all, dispatched
}

// ExportsChanged returns a channel that is closed when the result of Exports may have changed.
func (s *Store) ExportsChanged() <-chan struct{} {
	_, changed := s.exportsChanged.Get()
	return changed
}

// NotifyExports closes the channel that ExportsChanged returned. The Store calls NotifyExports
// after each change that may affect Exports. Code outside this package must call NotifyExports
// after any other change that affects the export plan.
func (s *Store) NotifyExports() { s.notifyExports() }

// RelistServices requests a new list of a cluster's Services. For each Service in the list, the
// Service hook is called again. For the local cluster, the name argument is empty. RelistServices
// does not block.
func (s *Store) RelistServices(name string) {
	l := s.opts.LocalLink.link
	if name != "" {
		s.mu.Lock()
		l = s.links[federation.ClusterName(name)]
		s.mu.Unlock()
	}
	if l == nil {
		return
	}
	if v := l.published.Load(); v != nil {
		for _, r := range []*runningCluster{v.serving, v.next} {
			if r != nil {
				r.cluster.RelistServices()
			}
		}
	}
}

// The await function returns when all non-nil channels are closed, or when ctx is done.
func await(ctx context.Context, all ...<-chan struct{}) {
	for _, one := range all {
		if one == nil {
			continue
		}
		select {
		case <-one:
		case <-ctx.Done():
			return
		}
	}
}

// The closed function reports whether c has been closed. No goroutine may send values on c.
func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
