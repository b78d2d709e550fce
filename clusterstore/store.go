package clusterstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"k8s.io/client-go/rest"

	"isthmus/clusterstore/cluster"
	"isthmus/clusterstore/kube"
	"isthmus/federation"
)

// DefaultGrace is how long a new link may take to sync before it counts as
// unreachable.
const DefaultGrace = 30 * time.Second

// Options are a Store's.
type Options struct {
	Namespace  string                // where the link Secrets are: the control plane's
	Rules      cluster.Rules         // for all clusters
	Table      *federation.Table     // what the links are entered into
	Log        *zap.Logger           // nil: no logs
	Registerer prometheus.Registerer // of the Store's own metrics; nil: none
	Metrics    *cluster.Metrics      // of its clusters; nil: none
	Grace      time.Duration         // 0: DefaultGrace
}

func (o *Options) validate() error {
	if o.Grace == 0 {
		o.Grace = DefaultGrace
	}
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	switch {
	case o.Namespace == "":
		return errors.New("clusterstore: no namespace to find link Secrets in")
	case o.Table == nil:
		return errors.New("clusterstore: no table")
	case o.Grace < 0:
		return errors.New("clusterstore: negative grace")
	}
	return nil
}

// Store follows the link Secrets of a namespace: for every cluster name that
// they name there is a Cluster, entered into the table for as long as there are
// Secrets for it.
//
// What happens to one cluster concerns no other: each name has a goroutine of
// its own, and Secrets are only handed to it. Of several Secrets for one name the
// oldest that can be used counts. An edit that makes a Secret unusable changes
// nothing but its status. New credentials start a second Cluster beside the
// first, which takes its place once it has synced, and never if it does not.
type Store struct {
	// fixed
	client  *kube.Client
	opts    Options
	create  func(*rest.Config, cluster.Config) (follower, error)
	settled chan struct{}

	secrets federation.Latest[snapshot]
	unread  atomic.Pointer[error] // why Secrets can't be read; nil: they can, as far as known

	mu    sync.Mutex
	links map[federation.ClusterName]*link
}

// NewStore checks the options. It does no IO and starts nothing. The client is
// the local cluster's, and needs to read Secrets in the namespace.
func NewStore(client *kube.Client, o Options) (*Store, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	s := &Store{
		client:  client,
		opts:    o,
		settled: make(chan struct{}),
		links:   make(map[federation.ClusterName]*link),
	}
	s.create = s.newCluster
	if o.Registerer != nil {
		if err := registerStore(s, o.Registerer); err != nil {
			return nil, fmt.Errorf("clusterstore: metrics: %w", err)
		}
	}
	return s, nil
}

// newCluster makes the Cluster that these credentials lead to.
func (s *Store) newCluster(from *rest.Config, cfg cluster.Config) (follower, error) {
	client, err := kube.New(cfg.Name, from, s.opts.Metrics.Requests())
	if err != nil {
		return nil, fmt.Errorf("cluster %s: %w", cfg.Name, err)
	}
	cfg.Client = client
	return cluster.New(cfg)
}

// Run follows the Secrets until ctx ends. When it returns, all clusters have
// stopped; the table is left as it is, so that nothing is withdrawn on the way
// out. It is called once.
func (s *Store) Run(ctx context.Context) error {
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() { s.followSecrets(ctx) })
	told := make(map[string]string)
	for {
		now, newer := s.secrets.Get()
		if now.listed {
			s.reportRefused(now, told)
			s.dispatch(now, func(l *link) { running.Go(func() { l.run(ctx) }) })
		}
		select {
		case <-ctx.Done():
			return nil
		case <-newer:
		}
	}
}

// Settled is closed once the Secrets have been listed and no link is pending any
// more: each has been found ready, unreachable or not usable. Once closed it
// stays closed.
func (s *Store) Settled() <-chan struct{} { return s.settled }

// dispatch hands every link its Secrets, oldest first, and starts the links that
// are missing.
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
		l := &link{store: s, name: name, log: s.opts.Log.With(zap.Stringer("cluster", name))}
		l.mailbox.Set(list)
		s.links[name] = l
		start(l)
	}
	s.checkSettled()
}

// retire takes out a link that has no Secrets, unless it has got some meanwhile.
func (s *Store) retire(l *link) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if list, _ := l.mailbox.Get(); len(list) > 0 {
		return false
	}
	delete(s.links, l.name)
	s.checkSettled()
	return true
}

// settle notes that a link is not pending.
func (s *Store) settle(l *link) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l.settled = true
	s.checkSettled()
}

// checkSettled closes settled when it is time, which is not before the first
// dispatch: nothing asks earlier. s.mu is held.
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

// reportRefused logs once per reason which Secrets can't be used. told holds
// what has been said, by Secret.
func (s *Store) reportRefused(now snapshot, told map[string]string) {
	refused := make(map[string]bool)
	for _, c := range now.secrets {
		if c.refused == nil {
			continue
		}
		refused[c.secret] = true
		if why := c.refused.Error(); told[c.secret] != why {
			told[c.secret] = why
			s.opts.Log.Warn("link Secret can't be used", zap.String("secret", c.secret),
				zap.Stringer("cluster", c.cluster), zap.Error(c.refused))
		}
	}
	for secret := range told {
		if !refused[secret] {
			delete(told, secret)
		}
	}
}

// closed tells whether a channel that nothing is sent on is closed.
func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
