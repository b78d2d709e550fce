package clusterstore

import (
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

// DefaultLostAfter is for how long a cluster's API is not followed before the cluster
// counts as lost.
const DefaultLostAfter = time.Minute

// Options are a Store's.
type Options struct {
	Namespace  string                // where the link Secrets are: the control plane's
	Rules      cluster.Rules         // for all clusters
	Table      *federation.Table     // gets the links
	Log        *zap.Logger           // nil: no logs
	Registerer prometheus.Registerer // for the Store's own metrics; nil: no metrics
	Metrics    *cluster.Metrics      // of its clusters; nil: no metrics
	Memory     int64                 // cap of what each linked cluster may have cached, in bytes; zero means no cap
	Network    string                // that the gateway is on: Pods of linked clusters on others can't be reached
	IPv6       bool                  // clients get IPv6 addresses, as by the Table's Options
	// LocalCluster is the cache of the local cluster, whose addresses are not probed as gateways of other clusters.
	// If it is nil, they are not known.
	LocalCluster gateway.LocalCluster

	// What link Secrets may set otherwise: how far a cluster's endpoints are taken out
	// while it is lost, which it is once its API has not been followed for LostAfter.
	WhenLost  federation.Standing
	LostAfter time.Duration // 0: DefaultLostAfter

	// Exports makes the Store cache what clusters export. If it is nil, nothing is read or cached for exports.
	// Otherwise LocalLink is needed, made with the same ExportOptions.
	Exports   *ExportOptions
	LocalLink *LocalLink

	// Supervisor recovers from panics while a cluster's changes are passed on. If it is nil, these end the process.
	Supervisor *panics.Supervisor

	// Report is called, by several goroutines, when a link's state or standing or the
	// credentials in use change, and when a link Secret is refused. It must not block.
	Report func(cluster.Change) // nil: not called
}

// defaultSettings are for a Secret without annotations.
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
		return errors.New("clusterstore: Options.Namespace, the namespace of the link Secrets, is empty")
	case o.Table == nil:
		return errors.New("clusterstore: Options.Table is nil")
	case o.Exports != nil && (o.Exports.Hooks == nil || o.Exports.Settings == nil ||
		o.LocalLink == nil || o.LocalLink.link.env.exports != o.Exports):
		return errors.New("clusterstore: Options.Exports needs its Hooks and Settings, " +
			"and Options.LocalLink with the same ExportOptions")
	}
	return nil
}

// Store watches the link Secrets of a namespace. For every cluster name on their
// labels it runs a Cluster, which is in the table for as long as there are Secrets
// with that name.
//
// Clusters don't affect each other: each name has a goroutine of its own, which gets
// the Secrets of that name.
type Store struct {
	// fixed
	client  *kube.Client
	opts    Options
	linkEnv // for its links
	settled chan struct{}

	secrets federation.Latest[snapshot]
	readErr atomic.Pointer[error] // why Secrets can't be read; nil: they can, as far as known

	mu         sync.Mutex
	dispatched bool // links has all that the Secrets name
	links      map[federation.ClusterName]*link
}

// NewStore checks the options and registers metrics. It does no IO and starts no
// goroutine. The client is the local cluster's, and needs the right to list and watch
// Secrets in the namespace.
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
			starts:     newStarts(),
			setLink:    o.Table.SetLink,
			exports:    o.Exports,
			namespace:  o.Namespace,
			network:    o.Network,
			ipv6:       o.IPv6,
			looks:      kube.NewTurns(),
			probes:     newProbes(),
			guard:      &gateway.Guard{Routable: o.Rules.GatewayRoutable, Local: o.LocalCluster},
		},
		settled: make(chan struct{}),
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

// newCluster makes a Cluster that is read with these credentials.
func (s *Store) newCluster(from *rest.Config, cfg cluster.Config) (Cluster, error) {
	client, err := kube.New(cfg.Name, from, s.metrics.Requests())
	if err != nil {
		return nil, fmt.Errorf("cluster %s: %w", cfg.Name, err)
	}
	cfg.Client = client
	cfg.Memory = follow.NewMemoryCap(s.opts.Memory) // a successor has a cap of its own
	return cluster.New(cfg)
}

// Run watches the Secrets until ctx ends. When it returns, all clusters have
// stopped. The table keeps what it has, so that proxies lose no endpoint while the
// gateway shuts down. Call it once.
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

// watchSecrets keeps s.secrets up to date until ctx ends. Secrets are selected by
// type only, so that one without the label can be reported. While they can't be
// read, the last snapshot stays.
func (s *Store) watchSecrets(ctx context.Context) {
	known := make(follow.Map[*credentials])
	options := follow.Options{Printable: s.client.Printable, Trouble: func(_, text string) {
		s.log.Info("link Secrets have to be requested again and again", zap.String("reason", text))
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
		Same:    (*credentials).same,
		Applied: func() { s.secrets.Set(snapshotOf(known)) },
		Report:  s.reportReadable,
	})).Run(ctx, nil)
}

// snapshot has all link Secrets at one time. It is immutable.
type snapshot struct {
	listed  bool           // false: they have not been listed yet
	secrets []*credentials // oldest first
}

func snapshotOf(all follow.Map[*credentials]) snapshot {
	list := slices.Collect(maps.Values(all))
	sortCredentials(list)
	return snapshot{listed: true, secrets: list}
}

// reportReadable records whether link Secrets can be read (err is nil), and logs when
// that changes.
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
		log.Error("link Secrets can't be read; links stay as they are", zap.Error(err))
	}
}

// logRefused logs which Secrets can't be used, once for each reason. logged has, by
// Secret, the reason that was logged last.
func (s *Store) logRefused(now snapshot, logged map[string]string) {
	refused := make(map[string]bool)
	for _, c := range now.secrets {
		if c.refused == nil {
			continue
		}
		refused[c.secret] = true
		if why := c.refused.Error(); logged[c.secret] != why {
			logged[c.secret] = why
			s.log.Warn("link Secret can't be used", zap.String("secret", c.secret),
				zap.Stringer("cluster", c.cluster), zap.Error(c.refused))
			s.report(cluster.Change{
				Cluster: c.cluster,
				Text:    fmt.Sprintf("link Secret %s can't be used: %s", c.secret, why),
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

// dispatch gives every link its Secrets, oldest first, and starts links for new names.
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
		s.links[name] = l
		start(l)
	}
	s.dispatched = true
	s.checkSettled()
	s.LookAgain()
}

// removeIfUnused removes a link that has no Secrets, unless it has got some meanwhile.
func (s *Store) removeIfUnused(l *link) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if list, _ := l.mailbox.Get(); len(list) > 0 {
		return false
	}
	delete(s.links, l.name)
	s.checkSettled()
	s.LookAgain()
	return true
}

// markSettled records that a link is not pending, or has not been once.
func (s *Store) markSettled(l *link) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l.settled = true
	s.checkSettled()
}

// checkSettled closes settled if all links are. It is not called before the first
// dispatch. s.mu is held.
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

// Settled returns a channel that is closed once the Secrets have been listed and no
// link is pending: each has been found ready, unreachable or rejected, or has waited for
// names of its gateways for a second. Links that come later don't matter.
func (s *Store) Settled() <-chan struct{} { return s.settled }

// SecretsListed reports whether the link Secrets have been listed yet, and why they
// can't be read at the moment; nil: they can. While they can't, links stay as they
// are.
func (s *Store) SecretsListed() (listed bool, err error) {
	now, _ := s.secrets.Get()
	if why := s.readErr.Load(); why != nil {
		err = *why
	}
	return now.listed, err
}

// Namespace returns that of the link Secrets.
func (s *Store) Namespace() string { return s.namespace }

// OwnRefused returns the requests for link Secrets that the local cluster's API server has refused.
func (s *Store) OwnRefused() []adminapi.RefusedRequest { return s.client.Server().Refused }

// Status returns one entry for every Secret of the link type, used or not, the oldest
// first.
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
	st.State, st.Since, st.Server = cluster.Rejected, c.read, c.server
	switch {
	case used != nil && used.secret == c.secret:
		v.describe(&st)
		if v.serving != nil && v.serving.creds.secret == c.secret {
			st.SecretVersion = v.serving.creds.version
		}
		if c.refused != nil {
			st.Warnings = append(st.Warnings, fmt.Sprintf(
				"the Secret as it is now can't be used: %v; its previous version is used", c.refused,
			))
		}
	case c.refused != nil:
		st.Reason = c.refused.Error()
	case used != nil:
		st.Reason = fmt.Sprintf(
			"duplicate: Secret %s is used for cluster %s until it is deleted", used.secret, c.cluster,
		)
	default:
		st.State = cluster.Pending // just read: its link has not published yet
	}
	return st
}

// rejected counts the Secrets that can't be used, by reason, and returns the clusters
// that have no others. Every reason has an entry.
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

// publishedLinks returns the links that have published something.
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

// Followed returns the cluster that a link is served from and the link's state. The state is
// empty if there is no such link, and the cluster is nil if none is served from.
func (s *Store) Followed(name federation.ClusterName) (*cluster.Cluster, cluster.State) {
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
	if at := v.shown(); at != nil {
		c, _ := at.cluster.(*cluster.Cluster)
		return c, v.state
	}
	return nil, v.state
}

// Look makes all clusters that are ready read trust anchors and Pod networks again. It returns once all have
// read them, or ctx ends. Status then shows the facts with their age.
func (s *Store) Look(ctx context.Context) {
	var looks []<-chan struct{}
	for _, v := range s.publishedLinks() {
		looks = append(looks, v.look())
	}
	await(ctx, looks...)
}

// await returns once all channels that are not nil are closed, or ctx ends.
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

// closed reports whether a channel that is never sent on is closed.
func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
