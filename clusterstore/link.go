package clusterstore

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"isthmus/clusterstore/cluster"
	"isthmus/federation"
	"isthmus/internal/pace"
)

// link stands for one cluster name while there are Secrets with that name, or for the
// own cluster. One goroutine runs it, the only one that writes its fields; it gets the
// Secrets as lists in the mailbox.
//
// It has up to two clusters: serving, which the table reads, and next, which becomes
// the serving one once it has synced. A new link has only next; during a rotation a
// link has both.
type link struct {
	store *Store                 // fixed
	name  federation.ClusterName // fixed
	own   *Own                   // fixed; nil: it is a linked cluster
	log   *zap.Logger            // fixed
	level zapcore.Level          // fixed; of lines about problems of the state

	mailbox   federation.Latest[[]*credentials] // all Secrets with its name, oldest first
	changed   *pace.Signal                      // its clusters' region or gateways
	probed    *pace.Signal                      // what is known of the gateways: it must not wait for what has just made them known
	published atomic.Pointer[linkState]         // for status and metrics
	settled   bool                              // under store.mu: it has been something else than pending, or waits for names of gateways only

	linkState
	duplicates []string // names of Secrets logged as duplicates
	failures   int      // clusters that have failed, one soon after the other: see noteFailures
}

// linkState is what others see copies of.
type linkState struct {
	accepted *credentials // what next or, without next, serving is made from
	serving  *runningCluster
	next     *runningCluster
	gateways linkGateways
	state    cluster.State // empty: it has had none
	since    time.Time     // since when it has that state
	standing linkStanding
}

// newLink makes a link without Secrets. That its cluster is stale or unreachable is logged at that level.
func (s *Store) newLink(name federation.ClusterName, level zapcore.Level) *link {
	return &link{
		store: s, name: name, log: s.opts.Log.With(zap.Stringer("cluster", name)), level: level, changed: pace.NewSignal(), probed: pace.NewSignal(),
	}
}

// run returns when there are no more Secrets with the link's name, or ctx ends: then
// it stops its clusters, and the table keeps what it has.
func (l *link) run(ctx context.Context) {
	defer func() { l.next.stop(); l.serving.stop(); l.gateways.end() }()
	for ctx.Err() == nil {
		list, newer := l.mailbox.Get()
		l.reconcile(ctx, list)
		if len(list) == 0 && l.store.removeIfUnused(l) {
			return
		}
		l.wait(ctx, newer)
	}
}

// reconcile makes the link what its Secrets and the health of its clusters ask for.
// It is idempotent.
func (l *link) reconcile(ctx context.Context, list []*credentials) {
	want := pick(list, l.accepted)
	l.useSettings(list, want)
	l.useCredentials(ctx, want)
	l.useGateways(ctx)
	l.promote(ctx)
	l.useGateways(ctx) // again: the serving cluster may be another one
	l.updateState()
	l.noteFailures()
	l.setLink()
	l.logStanding()
	l.logGateways()
	l.logDuplicates(list)
	l.publish()
	if l.state != cluster.Pending || l.gateways.late() {
		l.store.markSettled(l)
	}
	if l.own != nil && l.serving != nil && !closed(l.own.synced) {
		close(l.own.synced)
	}
}

// wait returns when there may be something to reconcile: newer is closed, a cluster
// has its turn, is listed or has synced, a cluster's health or region has changed, the grace is over,
// a successor's kinds are to be looked at again, or the cluster is lost.
func (l *link) wait(ctx context.Context, newer <-chan struct{}) {
	var began, listed, synced, next, serving <-chan struct{}
	var overdue, again <-chan time.Time
	if l.next != nil {
		next = l.next.healthChanged
		if l.gateways.settled() { // otherwise it waits for its gateways
			synced = l.next.cluster.Synced()
		}
		if l.next.waits {
			began = l.next.began
		}
		switch {
		case closed(l.next.admit):
		case len(l.next.awaits) > 0:
			again = time.After(awaitedPause)
		default: // admitSuccessor has not seen it closed, though it may be by now
			listed = l.next.cluster.Listed()
		}
		if !l.next.deadline.IsZero() && !l.next.overdue {
			overdue = time.After(time.Until(l.next.deadline))
		}
	}
	if l.serving != nil {
		serving = l.serving.healthChanged
	}
	select {
	case <-ctx.Done():
	case <-newer:
	case <-listed:
	case <-synced:
	case <-again:
	case <-next:
	case <-serving:
	case <-began:
	case <-overdue:
	case <-l.untilReplaced():
	case <-l.standing.untilLost():
	case <-l.gateways.untilLate():
	case <-l.changed.C:
	case <-l.probed.C:
	}
}

// useCredentials makes sure that a cluster made from these credentials serves or is
// next; nil: that there is no cluster.
func (l *link) useCredentials(ctx context.Context, want *credentials) {
	l.accepted = want
	switch {
	case want == nil:
		l.unlink()
	case l.mustReplace(want):
		l.start(ctx, want)
	case l.replacing() && l.next.creds.hash == want.hash:
		l.next.creds = want
		l.useRanges(want)
	case l.serving != nil && l.serving.creds.hash == want.hash:
		l.next.stop() // the Secret was changed, and changed back
		l.next = nil
		l.useRanges(want)
	case l.next != nil && l.next.creds.hash == want.hash:
		l.next.creds = want
	default:
		l.start(ctx, want)
	}
}

// useRanges makes the serving cluster's credentials another version of the same, which
// may differ in the address ranges only.
func (l *link) useRanges(want *credentials) {
	before := l.serving.creds
	l.serving.creds = want
	if slices.Equal(before.ranges, want.ranges) {
		return
	}
	l.log.Info("address ranges changed", zap.String("secret", want.secret), zap.Int("ranges", len(want.ranges)))
}

// start makes a new next, in place of the one that there may be. If that is pending,
// the new one inherits its deadline, if it has had its turn: edits don't prolong the grace.
func (l *link) start(ctx context.Context, creds *credentials) {
	l.next.stop()
	var deadline time.Time
	if l.state == cluster.Pending && l.next != nil {
		deadline = l.next.deadline
	}
	admit := make(chan struct{})
	if l.serving == nil {
		close(admit) // nothing is lost if it replaces nothing
	}
	cfg := l.config(creds)
	cfg.Admit = admit
	made, err := l.store.create(creds.rest, cfg)
	if err != nil {
		made = failedCluster{err}
	}
	l.next = &runningCluster{cluster: made, creds: creds, deadline: deadline, admit: admit}
	if l.serving == nil && l.state != cluster.Pending {
		l.setState(cluster.Pending, nil)
		l.logLinked(creds)
	}
	l.publish() // before it reads Services, so that SelectorsChanged finds it
	l.next.start(ctx, l.store.starts)
}

// config is what a cluster is made of, besides what it is reached by.
func (l *link) config(creds *credentials) cluster.Config {
	return cluster.Config{
		Exports:     l.exports(),
		Name:        l.name,
		TrustDomain: creds.trustDomain,
		Rules:       l.store.opts.Rules,
		Log:         l.log,
		Metrics:     l.store.opts.Metrics,
		Looks:       l.store.looks,
		Supervisor:  l.store.opts.Supervisor,
		Changed: func(svc federation.ServiceID, at time.Time) {
			l.store.opts.Table.Changed(l.name, svc, at)
		},
		LinkChanged: l.changed.Changed,
	}
}

func (l *link) logLinked(creds *credentials) {
	if l.own != nil {
		return
	}
	warnings := zap.Skip()
	if len(creds.warnings) > 0 {
		warnings = zap.Strings("warnings", creds.warnings)
	}
	l.log.Info("cluster linked", zap.String("server", creds.server), zap.String("secret", creds.secret), warnings)
}

// promote makes next the serving cluster once it has synced, which admitSuccessor may delay. The table gets it in one
// step; only then is the cluster that served before stopped.
func (l *link) promote(ctx context.Context) {
	if l.next == nil || !closed(l.next.cluster.Synced()) || l.serving == nil && l.elsewhere() && (l.gateways.tracker == nil || !l.gateways.settled()) {
		return
	}
	if l.own != nil {
		if l.own.prepare(ctx); ctx.Err() != nil {
			return
		}
	}
	old := l.serving
	if old != nil && l.otherCluster() {
		l.standing.nodesRegion = ""
	}
	l.serving, l.next = l.next, nil
	l.serving.awaits, l.serving.failed = nil, nil
	l.setLink()
	switch {
	case old == nil:
	case old.creds.hash == l.serving.creds.hash:
		l.log.Info("the cluster that a panic had ended is replaced")
		old.stop()
	default:
		l.log.Info("credentials rotated", zap.String("secret", l.serving.creds.secret))
		l.report(cluster.CredentialsChanged, "new credentials are in use", false)
		old.stop()
	}
}

// unlink removes the link from the table and stops its clusters.
func (l *link) unlink() {
	if l.next == nil && l.serving == nil {
		return
	}
	next, serving := l.next, l.serving
	l.next, l.serving = nil, nil
	l.setLink()
	l.log.Info("cluster unlinked")
	l.report(cluster.StateChanged, "unlinked", false)
	next.stop()
	serving.stop()
	l.store.opts.Metrics.Requests().Forget(l.name)
	if l.gateways.end() {
		l.store.probes.DeleteLabelValues(string(l.name))
	}
}

// report reports a change.
func (l *link) report(kind cluster.ChangeKind, text string, problem bool) {
	l.store.opts.Report(cluster.Change{Cluster: l.name, Kind: kind, Text: text, Problem: problem})
}

// logDuplicates logs once which Secrets are not used because an older one has the
// same cluster name.
func (l *link) logDuplicates(list []*credentials) {
	var duplicates []string
	for _, c := range list {
		if l.accepted == nil || c.refused != nil || c.secret == l.accepted.secret {
			continue
		}
		duplicates = append(duplicates, c.secret)
		if !slices.Contains(l.duplicates, c.secret) {
			l.log.Warn("two link Secrets name the same cluster: the older one is used",
				zap.String("secret", l.accepted.secret), zap.String("unused", c.secret))
		}
	}
	l.duplicates = duplicates
}
