package clusterstore

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"k8s.io/client-go/rest"

	"isthmus/clusterstore/cluster"
	"isthmus/clusterstore/gateway"
	"isthmus/clusterstore/kube"
	"isthmus/federation"
	"isthmus/internal/pace"
	"isthmus/internal/panics"
)

// linkEnv contains the dependencies of links. All linked clusters share the linkEnv that [NewStore]
// creates. The local cluster uses a separate linkEnv, which [NewLocalLink] creates. The fields of a
// linkEnv do not change after the first link has started.
type linkEnv struct {
	rules      cluster.Rules
	table      *federation.Table
	log        *zap.Logger
	metrics    *cluster.Metrics
	supervisor *panics.Supervisor
	report     func(cluster.Change)
	starts     starts

	create  func(*rest.Config, cluster.Config) (Cluster, error)
	setLink func(federation.ClusterName, federation.Link) // sets the link in the table

	exports        *ExportOptions               // nil if exports are not cached
	exportsChanged *federation.Latest[struct{}] // shared by all clusters; nil if exports are not cached

	// The following fields are used only for linked clusters.
	namespace string // namespace of the link Secrets
	network   string // network of Isthmus
	ipv6      bool
	looks     kube.Turns
	probes    *prometheus.HistogramVec
	lookUp    func(context.Context, string) ([]netip.Addr, error)    // nil for the resolver of the host
	probe     func(context.Context, netip.Addr, cluster.Probe) error // nil for HTTP probes
	filter    *gateway.AddressFilter
}

func (e *linkEnv) notifyExports() {
	if e.exportsChanged != nil {
		e.exportsChanged.Set(struct{}{})
	}
}

// newLink returns a link without Secrets. The link uses the given log level for messages about a
// stale or unreachable cluster.
func (e *linkEnv) newLink(name federation.ClusterName, level zapcore.Level) *link {
	l := &link{
		env:     e,
		name:    name,
		log:     e.log.With(zap.Stringer("cluster", name)),
		level:   level,
		changed: pace.NewSignal(),
		probed:  pace.NewSignal(),
	}
	l.copy.link = l
	return l
}

// link represents the local cluster or a linked cluster. All link Secrets with the same cluster
// name belong to one link. One goroutine runs the link, and only that goroutine writes the fields
// of the link. The link receives lists of Secrets through its mailbox.
//
// A link has up to two [Cluster] values. The [federation.Table] reads endpoints from the serving
// Cluster. If l.next is set, it contains a new Cluster, which replaces the serving Cluster once the
// new Cluster has synced. Before its first sync, a link has no serving Cluster. While its
// credentials are being rotated, a link has two Clusters: the serving Cluster and its successor.
//
// If a linked cluster cannot sync when the replica starts, the table may read from a copy of the
// cluster's cache until the cluster has synced.
type link struct {
	env   *linkEnv
	store *Store     // nil for the local cluster
	local *LocalLink // nil for a linked cluster
	name  federation.ClusterName
	log   *zap.Logger
	level zapcore.Level // for messages about a stale or unreachable cluster

	mailbox federation.Latest[[]*credentials] // all Secrets with this cluster name, oldest first
	changed *pace.Signal                      // set when the region or the gateways of a cluster change
	// This signal is set when the addresses or the health of gateways change. A [pace.Signal]
	// reports at most one change per second. If the link used a single signal, the discovery of a
	// gateway would delay the first report of the gateway's health.
	probed    *pace.Signal
	published atomic.Pointer[linkStatus] // for status and metrics
	// This field becomes true when the link is no longer pending, or when gateway names have not
	// been resolved within namesTimeout. It is guarded by store.mu.
	settled bool

	linkStatus
	duplicates []string // names of Secrets logged as duplicates
	failures   int      // number of clusters that failed in quick succession; see noteFailures
}

// run reconciles the link until its last Secret is removed or ctx is done, and then stops its
// clusters. If ctx is done while the link still has Secrets, the table keeps the link.
func (l *link) run(ctx context.Context) {
	defer func() { l.next.stop(); l.serving.stop(); l.copy.end(); l.gateways.end() }()
	for ctx.Err() == nil {
		list, newer := l.mailbox.Get()
		l.reconcile(ctx, list, newer)
		if len(list) == 0 && l.store.removeIfUnused(l) {
			return
		}
		l.wait(ctx, newer)
	}
}

// reconcile is idempotent. The last argument is a channel that is closed when the list is out of
// date.
func (l *link) reconcile(ctx context.Context, list []*credentials, newer <-chan struct{}) {
	want := pick(list, l.accepted)
	l.useSettings(list, want)
	l.useCredentials(ctx, want)
	if l.copy.use(ctx, newer) {
		return // run passes the newer Secrets to reconcile
	}
	l.useGateways(ctx)
	l.copy.serve()
	l.promote(ctx)
	l.useGateways(ctx) // again, because promote may have replaced the serving cluster
	l.updateState()
	l.noteFailures()
	l.setLink()
	l.logStanding()
	l.logGateways()
	l.logDuplicates(list)
	l.publish()
	if l.store != nil && (l.state != cluster.Pending || l.gateways.late()) {
		l.store.markSettled(l)
	}
	if l.local != nil && l.serving != nil && !closed(l.local.synced) {
		close(l.local.synced)
	}
}

// useSettings reads the settings from the newest version of the Secret that the link uses. The
// credentials that the link uses may come from an older version of the Secret. A cordon takes
// effect even if the kubeconfig in the Secret has become invalid. If inUse is nil, useSettings
// resets the standing.
func (l *link) useSettings(list []*credentials, inUse *credentials) {
	s := &l.standing
	if inUse == nil {
		*s = linkStanding{}
		return
	}
	c := inUse
	if i := slices.IndexFunc(list, func(c *credentials) bool { return c.secret == inUse.secret }); i >= 0 {
		c = list[i]
	}
	if w := c.settings.warnings; len(w) > 0 && !slices.Equal(w, s.settings.warnings) {
		l.log.Warn(
			"annotations of a link Secret are invalid", zap.String("secret", c.secret), zap.Strings("warnings", w),
		)
	}
	s.settings = c.settings
	s.secret = l.env.namespace + "/" + c.secret
}

// useCredentials ensures that one of the link's clusters uses the given credentials. If the
// credentials are nil, useCredentials removes the link's clusters.
func (l *link) useCredentials(ctx context.Context, want *credentials) {
	before := l.accepted
	l.accepted = want
	if before != nil && want != nil && (before.hash != want.hash || before.identity != want.identity) {
		l.copy.retry()
	}
	switch {
	case want == nil:
		l.unlink()
	case l.mustReplace(want):
		l.start(ctx, want)
	case l.replacing() && l.next.creds.hash == want.hash:
		l.next.creds = want
		l.useRanges(want)
	case l.serving != nil && l.serving.creds.hash == want.hash:
		l.next.stop() // the Secret was changed and changed back
		l.next = nil
		l.useRanges(want)
	case l.next != nil && l.next.creds.hash == want.hash:
		l.next.creds = want
	default:
		l.start(ctx, want)
	}
}

// useRanges makes the serving cluster use the address ranges from a newer version of the link
// Secret, without restarting the cluster. The caller must check that both versions of the Secret
// contain the same kubeconfig, trust domain and cluster domain.
func (l *link) useRanges(want *credentials) {
	before := l.serving.creds
	l.serving.creds = want
	if slices.Equal(before.ranges, want.ranges) {
		return
	}
	l.log.Info("address ranges changed", zap.String("secret", want.secret), zap.Int("ranges", len(want.ranges)))
}

// The start method creates a new Cluster, stores it in l.next, and starts it. While a link is
// pending, each new Cluster inherits the deadline of the previous Cluster, so edits to the Secret
// do not extend the deadline. A Cluster has no deadline while it waits for its turn to start.
func (l *link) start(ctx context.Context, creds *credentials) {
	l.next.stop()
	var deadline time.Time
	if l.state == cluster.Pending && l.next != nil {
		deadline = l.next.deadline
	}
	admit := make(chan struct{})
	if l.serving == nil {
		close(admit) // without a serving cluster, no cached objects can be lost
	}
	cfg := l.config(creds)
	cfg.Admit = admit
	made, err := l.env.create(creds.rest, cfg)
	if err != nil {
		made = failedCluster{err}
	}
	l.next = &runningCluster{cluster: made, creds: creds, deadline: deadline, admit: admit}
	if l.served() == nil && l.state != cluster.Pending {
		l.setState(cluster.Pending, nil)
		l.logLinked(creds)
	}
	l.publish() // before the cluster lists Services, so that RelistServices finds it
	l.next.start(ctx, l.env.starts)
}

func (l *link) config(creds *credentials) cluster.Config {
	return cluster.Config{
		Exports:     l.exports(),
		Name:        l.name,
		TrustDomain: creds.trustDomain,
		Rules:       l.env.rules,
		Log:         l.log,
		Metrics:     l.env.metrics,
		Looks:       l.env.looks,
		Supervisor:  l.env.supervisor,
		Changed: func(svc federation.ServiceID, at time.Time) {
			l.env.table.Changed(l.name, svc, at)
		},
		LinkChanged: l.changed.Changed,
	}
}

func (l *link) logLinked(creds *credentials) {
	if l.local != nil {
		return
	}
	warnings := zap.Skip()
	if len(creds.warnings) > 0 {
		warnings = zap.Strings("warnings", creds.warnings)
	}
	l.log.Info("cluster linked", zap.String("server", creds.server), zap.String("secret", creds.secret), warnings)
}

// useGateways makes the tracker follow the gateways of the cluster. If Isthmus can reach the Pods
// of the cluster directly, useGateways stops the tracker.
func (l *link) useGateways(ctx context.Context) {
	g := &l.gateways
	from := cmp.Or(l.serving, l.copy.cluster, l.next)
	if from == nil || !l.onOtherNetwork() {
		if g.end() {
			l.env.probes.DeleteLabelValues(string(l.name))
		}
		return
	}
	if l.serving == nil && !closed(from.cluster.Synced()) {
		return // the gateways of the cluster are not known yet
	}
	if g.tracker == nil {
		g.start(ctx, gateway.Config{
			Changed: l.probed.Changed,
			Probed:  func(took time.Duration) { l.env.probes.WithLabelValues(string(l.name)).Observe(took.Seconds()) },
			Resolve: l.env.lookUp, Probe: l.env.probe,
			Filter: l.env.filter, IPv4Only: !l.env.ipv6,
		})
	}
	g.follow(&l.standing.settings, from, l.env.rules.GatewayRoutable)
}

// onOtherNetwork reports whether the cluster and Isthmus are on different networks.
func (l *link) onOtherNetwork() bool { return l.standing.settings.network != l.env.network }

// awaitsGateways reports whether Isthmus must reach the cluster through gateways whose addresses
// are still unknown.
func (l *link) awaitsGateways() bool {
	return l.onOtherNetwork() && (l.gateways.tracker == nil || !l.gateways.settled())
}

func (l *link) readable(from *runningCluster) federation.Source {
	g := &l.gateways
	switch {
	case g.tracker == nil:
		g.source = nil
		return from.cluster
	case !g.settled(): // the cluster was on the network of Isthmus until now
		return from.cluster
	}
	now := &gateway.Source{
		Cluster:   from.cluster,
		Name:      l.name,
		Domain:    from.creds.domain,
		Addresses: g.tracker.Addresses(),
	}
	if !g.source.Same(now) {
		g.source = now
	}
	return g.source
}

// Once the new Cluster has synced, promote makes it the serving Cluster. The admitSuccessor method
// may delay the sync of the new Cluster. The table switches from the old Cluster to the new one in
// one step. After the switch, promote stops the old Cluster.
func (l *link) promote(ctx context.Context) {
	if l.next == nil || !closed(l.next.cluster.Synced()) || l.copy.stays() ||
		l.serving == nil && l.awaitsGateways() {
		return
	}
	if l.local != nil {
		l.local.prepare(ctx)
		if ctx.Err() != nil {
			return
		}
	}
	old := l.serving
	if old != nil && l.otherCluster() {
		l.standing.nodesRegion = ""
	}
	l.serving, l.next = l.next, nil
	l.serving.awaits = nil
	l.serving.failed = nil
	l.setLink()
	l.copy.end()
	switch {
	case old == nil:
	case old.creds.hash == l.serving.creds.hash:
		l.log.Info("cluster replaced after a panic")
		old.stop()
	default:
		l.log.Info("credentials rotated", zap.String("secret", l.serving.creds.secret))
		l.report(cluster.CredentialsChanged, "new credentials are in use", false)
		old.stop()
	}
}

// setLink passes the current state of the link to the table. setLink must be called after each
// change that may affect the table.
func (l *link) setLink() {
	s := &l.standing
	switch {
	case l.next == nil && l.serving == nil:
		l.env.setLink(l.name, federation.Link{})
		s.linkedAt = time.Time{}
		return
	case s.linkedAt.IsZero():
		s.linkedAt = time.Now()
	}
	s.lostSince = s.linkedAt
	l.setRegion()
	now := federation.Link{State: federation.Pending}
	from := l.served()
	switch {
	case from != nil:
		now.State = federation.Ready
		now.Source = l.readable(from)
		now.Within = from.creds.ranges
		s.lostSince = from.cluster.Health().StaleSince
	case l.state == cluster.Unreachable:
		now.State = federation.Unreachable
	}
	s.lost = federation.InService
	if s.mayBeLost() && !time.Now().Before(s.dueAt()) {
		s.lost = s.settings.whenLost
	}
	s.dead = l.gateways.allDead()
	now.Region = s.region
	now.Cordon = s.settings.cordon
	now.CordonOver = s.settings.cordonOver
	now.Lost = s.notByHand()
	l.env.setLink(l.name, now)
}

// setRegion records the region of the cluster and logs changes. If new credentials do not include
// permission to list Nodes, the previous region stays in use.
func (l *link) setRegion() {
	s, before := &l.standing, l.standing.region
	if region, known := cmp.Or(l.served(), l.next).cluster.Region(); known {
		s.nodesRegion = region
	}
	s.region = cmp.Or(s.settings.region, s.nodesRegion)
	if before != "" && before != s.region {
		l.log.Info("region of a cluster changed", zap.String("region", s.region), zap.String("before", before))
	}
}

// updateState derives the state of the link from the health of its clusters, and checks whether a
// successor may replace the serving cluster.
func (l *link) updateState() {
	switch {
	case l.serving == nil && l.next == nil:
		l.setState(cluster.Rejected, nil)
		return
	case l.serving == nil:
		// Until a link has synced, its state changes only if a problem occurs. Even after the
		// problem has been fixed, a link stays in the Unreachable state until its cluster has
		// synced. If the cluster has failed since linkCopy.use returned, the link stays pending
		// until the next call to linkCopy.use has read the copy.
		l.next.noteProgress()
		problem := l.next.problem(l.next.noteHealth())
		if problem != nil && l.copy.cluster == nil && !l.copy.isNeeded() {
			l.setState(cluster.Unreachable, problem)
		}
		return
	}
	serving := l.serving.noteHealth()
	if serving.StaleSince.IsZero() {
		l.setState(cluster.Ready, nil)
	} else {
		l.setState(cluster.Stale, serving.Err)
	}
	if l.next != nil {
		next := l.next.noteHealth()
		l.admitSuccessor(serving, next)
		l.next.noteProgress()
		l.noteProblem(l.next.problem(next))
	}
}

// setState sets the state of the link, and logs and reports changes. The error is the reason for
// the state, and may be nil.
func (l *link) setState(s cluster.State, why error) {
	before := l.state
	if before == s {
		return
	}
	l.state = s
	l.since = time.Now()
	if s != cluster.Rejected { // unlink has reported this change
		l.report(cluster.StateChanged, because(string(s), why), s == cluster.Unreachable || s == cluster.Stale)
	}
	switch {
	case s == cluster.Unreachable:
		l.log.Log(l.level, "cluster unreachable; it is retried", zap.Error(why))
	case s == cluster.Stale:
		l.log.Log(
			l.level,
			"cluster is stale: its API cannot be watched, and its cached endpoints stay in use",
			zap.Error(why),
		)
	case s == cluster.Ready && before == cluster.Stale:
		l.log.Info("cluster is back")
	case s == cluster.Ready:
		l.log.Info("cluster ready")
	}
}

func because(text string, why error) string {
	if why == nil {
		return text
	}
	return text + ": " + why.Error()
}

// admitSuccessor lets the successor complete its first sync once the successor has listed all
// awaited kinds of objects. If whyNotWait returns a reason, the successor may complete its first
// sync without the missing kinds of objects. The arguments are the current health of the serving
// cluster and of the successor.
func (l *link) admitSuccessor(serving, next cluster.Health) {
	n := l.next
	n.noteAdvantage(serving, next)
	if closed(n.admit) || !closed(n.cluster.Listed()) {
		return
	}
	n.awaits = awaitedKinds(serving, next)
	if len(n.awaits) > 0 {
		why := l.whyNotWait(serving, next)
		if why == "" {
			return
		}
		l.log.Warn("the new credentials are in use, although they have not yet listed every kind of object",
			zap.String("secret", n.creds.secret), zap.String("reason", why), zap.Error(awaitedError(n.awaits)))
		n.awaits = nil
	}
	close(n.admit)
}

// whyNotWait returns the reason why a successor should stop waiting for the kinds of objects that
// it has not listed yet. The result is "" if the successor should keep waiting.
func (l *link) whyNotWait(serving, next cluster.Health) string {
	switch {
	case l.otherCluster():
		return "the new credentials are for another cluster (annotation " + LinkedClusterAnnotation + ")"
	case revoked(serving) && l.next.isBetter(maxRevoked):
		return "the API server no longer accepts the old credentials"
	case !l.next.isBetter(maxStale):
	case !overBudget(serving): // otherwise the successor has the same memory cap, and no advantage
		return fmt.Sprintf("with the old credentials, the cluster has been stale for %v", maxStale)
	}
	return ""
}

// otherCluster reports whether the Secrets of the successor and of the serving cluster identify
// different clusters.
func (l *link) otherCluster() bool {
	before, now := l.serving.creds.identity, l.next.creds.identity
	return before != "" && now != "" && before != now
}

// noteProblem records the reason why a successor cannot replace the serving cluster. A nil error
// clears the recorded reason. If no problem was recorded before, noteProblem also logs and reports
// the new problem.
func (l *link) noteProblem(problem error) {
	if l.replacing() { // the successor has the same credentials, so they are not the problem
		return
	}
	before := l.next.failed
	l.next.failed = problem
	if problem == nil || before != nil {
		return
	}
	const text = "new credentials do not work; the old credentials stay in use"
	l.log.Warn(text, zap.String("secret", l.next.creds.secret), zap.Error(problem))
	l.report(cluster.CredentialsChanged, because(text, problem), true)
}

// A panic during a list or watch of a linked cluster permanently stops all lists and watches of the
// Cluster value, because its cache may be inconsistent. After a panic, the link starts a new
// Cluster with the same credentials. Until the new Cluster has synced, the link is stale and serves
// the cache of the failed Cluster.

// noteFailures schedules the replacement of failed Clusters. Like the pauses of a
// [panics.Supervisor], the pause before a replacement doubles with each further failure, up to
// [panics.MaxPause]. If the failed Cluster had run for at least [panics.MaxPause], the next pause
// is [panics.MinPause].
func (l *link) noteFailures() {
	now := time.Now()
	for _, r := range [...]*runningCluster{l.next, l.serving} {
		if r == nil || !r.broken || !r.replaceAt.IsZero() {
			continue
		}
		if now.Sub(r.started) >= panics.MaxPause {
			l.failures = 0
		}
		l.failures++
		r.replaceAt = now.Add(panics.PauseAfter(l.failures))
		l.log.Warn("a panic stopped the lists and watches of a cluster; "+
			"Isthmus serves the cached endpoints until it can watch the cluster again", zap.Time("at", r.replaceAt))
	}
}

func (l *link) newest(creds *credentials) *runningCluster {
	for _, r := range [...]*runningCluster{l.next, l.serving} {
		if r != nil && creds != nil && r.creds.hash == creds.hash {
			return r
		}
	}
	return nil
}

func (l *link) mustReplace(creds *credentials) bool {
	r := l.newest(creds)
	return r != nil && !r.replaceAt.IsZero() && !time.Now().Before(r.replaceAt)
}

// untilReplaced returns a channel that receives a value when the newest cluster is due for
// replacement. The channel is nil if the newest cluster has not failed.
func (l *link) untilReplaced() <-chan time.Time {
	r := l.newest(l.accepted)
	if r == nil || r.replaceAt.IsZero() {
		return nil
	}
	return time.After(time.Until(r.replaceAt))
}

func (l *link) logStanding() {
	s := &l.standing
	now := s.effective()
	if now == s.logged {
		return
	}
	why := s.reason()
	switch {
	case why != "":
	case s.lostSince.IsZero():
		why = "the cluster is not cordoned, and its API is watched"
	default:
		why = "the cluster is not cordoned, and its when-lost and lost-after settings keep it in service"
	}
	l.log.Info(
		"standing of a cluster changed",
		zap.Stringer("standing", now),
		zap.Stringer("before", s.logged),
		zap.String("reason", why),
	)
	l.report(cluster.StandingChanged, now.String()+": "+why, now != federation.InService)
	s.logged = now
}

// logGateways logs and reports gateways that stop or resume responding to probes.
func (l *link) logGateways() {
	g := &l.gateways
	if g.tracker == nil {
		return
	}
	before := g.dead
	g.dead = make(map[string]bool)
	for _, a := range g.tracker.Addresses() {
		address := a.Addr.String()
		switch {
		case a.Dead:
			if g.dead[address] = true; before[address] {
				continue
			}
			l.log.Warn(
				"Linkerd gateway does not answer probes",
				zap.String("gateway", address),
				zap.String("error", a.Failure),
			)
			l.report(cluster.GatewayChanged, "Linkerd gateway "+address+" does not answer probes: "+a.Failure, true)
		case before[address]:
			l.log.Info("Linkerd gateway answers probes again", zap.String("gateway", address))
			l.report(cluster.GatewayChanged, "Linkerd gateway "+address+" answers probes again", false)
		}
	}
}

// logDuplicates logs each Secret that is unused because an older Secret has the same cluster name.
// Each unused Secret is logged only once.
func (l *link) logDuplicates(list []*credentials) {
	var duplicates []string
	for _, c := range list {
		if l.accepted == nil || c.refused != nil || c.secret == l.accepted.secret {
			continue
		}
		duplicates = append(duplicates, c.secret)
		if !slices.Contains(l.duplicates, c.secret) {
			l.log.Warn("two link Secrets name the same cluster; the older Secret is used",
				zap.String("secret", l.accepted.secret), zap.String("unused", c.secret))
		}
	}
	l.duplicates = duplicates
}

// The publish method makes the current status of the link visible to other goroutines.
func (l *link) publish() {
	v := l.linkStatus
	for _, r := range []**runningCluster{&v.serving, &v.next, &v.copy.cluster} {
		if *r != nil {
			*r = new(**r)
		}
	}
	l.published.Store(&v)
	l.env.notifyExports()
}

func (l *link) report(kind cluster.ChangeKind, text string, problem bool) {
	l.env.report(cluster.Change{Cluster: l.name, Kind: kind, Text: text, Problem: problem})
}

// The wait method blocks until the link may need to be reconciled. A link is reconciled when its
// Secrets change, when a time limit expires, and when the progress, health, region or gateways of a
// cluster change.
func (l *link) wait(ctx context.Context, newer <-chan struct{}) {
	var began, listed, synced, next, serving <-chan struct{}
	var overdue, again <-chan time.Time
	if l.next != nil {
		next = l.next.healthChanged
		// Even after a new cluster has synced, the link may have to wait for gateway names to
		// resolve, or for optional kinds of objects to be listed. During this wait, the link does
		// not receive from the cluster's Synced channel. Because the channel is already closed,
		// receiving from it would not block, and the link would run in a busy loop.
		if l.gateways.settled() && !(closed(l.next.cluster.Synced()) && time.Now().Before(l.copy.release)) {
			synced = l.next.cluster.Synced()
		}
		if l.next.waits {
			began = l.next.began
		}
		switch {
		case closed(l.next.admit):
		case len(l.next.awaits) > 0:
			again = time.After(awaitedPause)
		default: // admitSuccessor ran before Listed was closed
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
	case <-l.copy.due():
	case <-l.untilReplaced():
	case <-l.standing.untilLost():
	case <-l.gateways.untilLate():
	case <-l.changed.C:
	case <-l.probed.C:
	}
}

func (l *link) unlink() {
	if l.next == nil && l.serving == nil {
		return
	}
	next, serving := l.next, l.serving
	l.next = nil
	l.serving = nil
	l.setLink()
	l.copy.end()
	l.log.Info("cluster unlinked")
	l.report(cluster.StateChanged, "unlinked", false)
	next.stop()
	serving.stop()
	l.env.metrics.Requests().Forget(l.name)
	if l.gateways.end() {
		l.env.probes.DeleteLabelValues(string(l.name))
	}
}

func (l *link) clusterExports() ClusterExports {
	c := ClusterExports{Name: string(l.name)}
	if list, _ := l.mailbox.Get(); len(list) > 0 {
		c.Linked = list[0].created
	}
	v := l.published.Load()
	if v == nil || v.accepted == nil {
		return c
	}
	c.Domain = v.accepted.domain
	c.Linked = v.accepted.created
	c.Settings = v.standing.settings.exports
	c.OtherNetwork = v.standing.settings.network != l.env.network
	c.Exports = v.exports()
	return c
}

func (l *link) exports() *cluster.ExportHooks {
	o := l.env.exports
	if o == nil {
		return nil
	}
	hooks := o.Hooks(string(l.name))
	hooks.Changed = l.env.notifyExports
	return &hooks
}
