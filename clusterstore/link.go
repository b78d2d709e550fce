package clusterstore

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"isthmus/clusterstore/cluster"
	"isthmus/federation"
)

// link is one cluster name's life, from the first Secret that carries the name
// to the last. One goroutine runs it and alone writes its fields; Secrets reach
// it as lists in the mailbox.
//
// It has up to two clusters: the serving one, which the table reads, and the
// next one, which is to become that. Next is the first attempt of a new link, or
// the second one of a rotation, beside the serving one.
type link struct {
	store *Store                 // fixed
	name  federation.ClusterName // fixed
	log   *zap.Logger            // fixed

	mailbox federation.Latest[[]*credentials] // what Secrets there are for it, oldest first
	shown   atomic.Pointer[published]         // what others may see of it
	settled bool                              // under store.mu: has been something else than pending

	accepted *credentials // what next or, without one, serving is made from
	serving  *attempt
	next     *attempt
	standing cluster.Standing
	since    time.Time
	losers   []string // Secrets reported as duplicates
}

// run lives as long as there are Secrets of the link's name. When ctx ends, its
// clusters are stopped and the table is left as it is.
func (l *link) run(ctx context.Context) {
	defer func() { l.next.stop(); l.serving.stop() }()
	for ctx.Err() == nil {
		list, newer := l.mailbox.Get()
		l.reconcile(ctx, list)
		if len(list) == 0 && l.store.retire(l) {
			return
		}
		l.wait(ctx, newer)
	}
}

// reconcile brings the link to where its Secrets and its clusters say it should
// be. Doing it again changes nothing.
func (l *link) reconcile(ctx context.Context, list []*credentials) {
	l.accept(ctx, pick(list, l.accepted))
	l.promote()
	l.judge()
	l.reportDuplicates(list)
	l.publish()
	if l.standing != cluster.Pending {
		l.store.settle(l)
	}
}

// wait returns when there may be something to reconcile.
func (l *link) wait(ctx context.Context, newer <-chan struct{}) {
	var synced, next, serving <-chan struct{}
	var overdue <-chan time.Time
	if l.next != nil {
		synced, next = l.next.cluster.Synced(), l.next.changed
		if left := time.Until(l.next.deadline); left > 0 {
			overdue = time.After(left)
		}
	}
	if l.serving != nil {
		serving = l.serving.changed
	}
	select {
	case <-ctx.Done():
	case <-newer:
	case <-synced:
	case <-next:
	case <-serving:
	case <-overdue:
	}
}

// accept makes sure that there is a cluster, or an attempt at one, made from
// these credentials; from nil: none at all.
func (l *link) accept(ctx context.Context, want *credentials) {
	l.accepted = want
	switch {
	case want == nil:
		l.unlink()
	case l.serving != nil && l.serving.creds.hash == want.hash:
		l.next.stop() // they were changed, and changed back
		l.next = nil
	case l.next != nil && l.next.creds.hash == want.hash:
	default:
		l.start(ctx, want)
	}
}

// start makes a new attempt, in place of the one that there may be. An attempt
// that replaces a pending one inherits its deadline: edits don't prolong the
// grace.
func (l *link) start(ctx context.Context, creds *credentials) {
	l.next.stop()
	deadline := time.Now().Add(l.store.opts.Grace)
	if l.standing == cluster.Pending && l.next != nil {
		deadline = l.next.deadline
	}
	made, err := l.store.create(creds.rest, cluster.Config{
		Name:        l.name,
		TrustDomain: creds.trustDomain,
		Rules:       l.store.opts.Rules,
		Log:         l.log,
		Metrics:     l.store.opts.Metrics,
		Changed: func(svc federation.ServiceID, at time.Time) {
			l.store.opts.Table.Changed(l.name, svc, at)
		},
	})
	if err != nil {
		made = unusable{err}
	}
	l.next = &attempt{cluster: made, creds: creds, grace: l.store.opts.Grace, deadline: deadline}
	if l.serving == nil {
		l.enter(cluster.Pending, nil)
	}
	l.next.run(ctx, l.log)
}

// promote lets a synced attempt serve. It takes the place of the cluster that
// served before in one step; only then does that one end.
func (l *link) promote() {
	if l.next == nil || !closed(l.next.cluster.Synced()) {
		return
	}
	old := l.serving
	l.serving, l.next = l.next, nil
	l.store.opts.Table.Link(l.name, federation.Ready, l.serving.cluster)
	if old != nil {
		l.log.Info("credentials rotated", zap.String("secret", l.serving.creds.secret))
		old.stop()
	}
}

// unlink ends everything that the link has.
func (l *link) unlink() {
	if l.next == nil && l.serving == nil {
		return
	}
	l.store.opts.Table.Unlink(l.name)
	l.log.Info("cluster unlinked")
	l.next.stop()
	l.serving.stop()
	l.next, l.serving = nil, nil
	l.store.opts.Metrics.Requests().Forget(l.name)
}

// judge says what standing follows from the clusters' health, and whether a
// rotation works.
func (l *link) judge() {
	var err error
	if l.next != nil {
		err = l.next.problem()
	}
	switch {
	case l.serving == nil && l.next == nil:
		l.enter(cluster.Rejected, nil)
	case l.serving == nil && err != nil:
		l.enter(cluster.Unreachable, err)
	case l.serving == nil:
		// Pending from its start on; unreachable until it has synced.
	default:
		if h := l.serving.look(); h.Lost.IsZero() {
			l.enter(cluster.Ready, nil)
		} else {
			l.enter(cluster.Stale, h.Err)
		}
		if err != nil && !l.next.failed {
			l.next.failed = true
			l.log.Warn("new credentials do not work; those of before stay in use",
				zap.String("secret", l.next.creds.secret), zap.Error(err))
		}
	}
}

// enter gives the link another standing, tells the table what it has to know of it,
// and logs the change.
func (l *link) enter(s cluster.Standing, why error) {
	if l.standing == s {
		return
	}
	before := l.standing
	l.standing, l.since = s, time.Now()
	switch s {
	case cluster.Pending:
		l.store.opts.Table.Link(l.name, federation.Pending, nil)
		c := l.next.creds
		warnings := zap.Skip()
		if len(c.warnings) > 0 {
			warnings = zap.Strings("warnings", c.warnings)
		}
		l.log.Info("cluster linked", zap.String("server", c.server), zap.String("secret", c.secret), warnings)
	case cluster.Unreachable:
		l.store.opts.Table.Link(l.name, federation.Unreachable, nil)
		l.log.Info("cluster unreachable; trying on", zap.Error(why))
	case cluster.Stale:
		l.log.Info("cluster lost; its endpoints stay", zap.Error(why))
	case cluster.Ready:
		if before == cluster.Stale {
			l.log.Info("cluster is back")
		} else {
			l.log.Info("cluster ready")
		}
	}
}

// reportDuplicates logs once which Secrets are not used because an older one
// names the same cluster.
func (l *link) reportDuplicates(list []*credentials) {
	var losers []string
	for _, c := range list {
		if l.accepted == nil || c.refused != nil || c.secret == l.accepted.secret {
			continue
		}
		losers = append(losers, c.secret)
		if !slices.Contains(l.losers, c.secret) {
			l.log.Warn("two Secrets for one cluster: the older is used",
				zap.String("secret", l.accepted.secret), zap.String("unused", c.secret))
		}
	}
	l.losers = losers
}

// published is what others may see of a link. It is immutable.
type published struct {
	standing cluster.Standing
	since    time.Time
	accepted *credentials
	cluster  follower // that serves or, before any does, is to
	next     follower // that is to replace it, in a rotation
	failed   bool     // next does not work so far
}

// publish lets others see what the link is now.
func (l *link) publish() {
	v := &published{standing: l.standing, since: l.since, accepted: l.accepted}
	switch {
	case l.serving != nil:
		v.cluster = l.serving.cluster
		if l.next != nil {
			v.next, v.failed = l.next.cluster, l.next.failed
		}
	case l.next != nil:
		v.cluster = l.next.cluster
	}
	l.shown.Store(v)
}
