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

// linkEnv is what links need from the Store that runs them or, for the local cluster, from [NewLocalLink]. Its fields
// are fixed before the first link runs.
type linkEnv struct {
	rules      cluster.Rules
	table      *federation.Table
	log        *zap.Logger
	metrics    *cluster.Metrics
	supervisor *panics.Supervisor
	report     func(cluster.Change)
	starts     starts

	create  func(*rest.Config, cluster.Config) (Cluster, error)
	setLink func(federation.ClusterName, federation.Link) // the table's

	exports        *ExportOptions               // nil: exports are not cached
	exportsChanged *federation.Latest[struct{}] // one for the local and all linked clusters; nil without exports

	// For linked clusters only.
	namespace string // of the link Secrets
	network   string // the network that Isthmus is on
	ipv6      bool
	looks     kube.Turns
	probes    *prometheus.HistogramVec
	lookUp    func(context.Context, string) ([]netip.Addr, error)    // nil: the host's resolver
	probe     func(context.Context, netip.Addr, cluster.Probe) error // nil: HTTP
	guard     *gateway.Guard
}

// lookAgain closes the channel of [Store.ExportsChanged].
func (e *linkEnv) lookAgain() {
	if e.exportsChanged != nil {
		e.exportsChanged.Set(struct{}{})
	}
}

// newLink makes a link without Secrets. level is the level of log lines that say that its cluster is stale or
// unreachable.
func (e *linkEnv) newLink(name federation.ClusterName, level zapcore.Level) *link {
	return &link{
		env:     e,
		name:    name,
		log:     e.log.With(zap.Stringer("cluster", name)),
		level:   level,
		changed: pace.NewSignal(),
		probed:  pace.NewSignal(),
	}
}

// link stands for one cluster name while there are Secrets with that name, or for the local cluster. One goroutine
// runs a link and is the only one that writes its fields. The link gets its Secrets as lists in the mailbox.
//
// A link has up to two clusters: serving, which the table reads, and next, which becomes the serving one once it has
// synced. A new link has only next; during a rotation a link has both.
type link struct {
	env   *linkEnv               // fixed
	store *Store                 // fixed; nil for the local cluster
	local *LocalLink             // fixed; nil for a linked cluster
	name  federation.ClusterName // fixed
	log   *zap.Logger            // fixed
	level zapcore.Level          // fixed; of log lines about problems of the state

	mailbox federation.Latest[[]*credentials] // all Secrets with its name, oldest first
	changed *pace.Signal                      // its clusters' region or gateways
	// probed is set when the gateways' addresses or health change. It is separate from changed, so that it does not
	// wait for the change of the cluster that made the gateways known.
	probed    *pace.Signal
	published atomic.Pointer[linkStatus] // for status and metrics
	// settled is guarded by store.mu. It is true once the link's state was not pending, or the link waited only for
	// the names of gateways.
	settled bool

	linkStatus
	duplicates []string // names of Secrets logged as duplicates
	failures   int      // clusters that have failed, one soon after the other: see noteFailures
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
	if l.store != nil && (l.state != cluster.Pending || l.gateways.late()) {
		l.store.markSettled(l)
	}
	if l.local != nil && l.serving != nil && !closed(l.local.synced) {
		close(l.local.synced)
	}
}

// useSettings makes the standing follow the newest version of the Secret whose credentials
// are in use, even if these are of an older version: a Secret with content that can't be
// used may have a cordon. nil: there are no credentials.
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
			"annotations of a link Secret can't be read", zap.String("secret", c.secret), zap.Strings("warnings", w),
		)
	}
	s.settings, s.secret = c.settings, l.env.namespace+"/"+c.secret
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
	made, err := l.env.create(creds.rest, cfg)
	if err != nil {
		made = failedCluster{err}
	}
	l.next = &runningCluster{cluster: made, creds: creds, deadline: deadline, admit: admit}
	if l.serving == nil && l.state != cluster.Pending {
		l.setState(cluster.Pending, nil)
		l.logLinked(creds)
	}
	l.publish() // before it reads Services, so that SelectorsChanged finds it
	l.next.start(ctx, l.env.starts)
}

// config is what a cluster is made of, besides what it is reached by.
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

// useGateways makes the tracker follow what leads to the cluster, if its Pods can't be
// reached.
func (l *link) useGateways(ctx context.Context) {
	g := &l.gateways
	from := cmp.Or(l.serving, l.next)
	if from == nil || !l.elsewhere() {
		if g.end() {
			l.env.probes.DeleteLabelValues(string(l.name))
		}
		return
	}
	if l.serving == nil && !closed(from.cluster.Synced()) {
		return // what it has is not known yet
	}
	if g.tracker == nil {
		g.start(ctx, gateway.Config{
			Changed: l.probed.Changed,
			Probed:  func(took time.Duration) { l.env.probes.WithLabelValues(string(l.name)).Observe(took.Seconds()) },
			Resolve: l.env.lookUp, Probe: l.env.probe,
			Guard: l.env.guard, IPv4Only: !l.env.ipv6,
		})
	}
	g.follow(&l.standing.settings, from, l.env.rules.GatewayRoutable)
}

// elsewhere reports whether the cluster is on another network than the gateway.
func (l *link) elsewhere() bool { return l.standing.settings.network != l.env.network }

// readable returns what the table reads of the serving cluster.
func (l *link) readable() federation.Source {
	g := &l.gateways
	switch {
	case g.tracker == nil:
		g.source = nil
		return l.serving.cluster
	case !g.settled(): // it was on the gateway's network so far
		return l.serving.cluster
	}
	now := &gateway.Source{
		Cluster:   l.serving.cluster,
		Name:      l.name,
		Domain:    l.serving.creds.domain,
		Addresses: g.tracker.Addresses(),
	}
	if !g.source.Same(now) {
		g.source = now
	}
	return g.source
}

// promote makes next the serving cluster once it has synced, which admitSuccessor may delay. The table gets it in one
// step; only then is the cluster that served before stopped.
func (l *link) promote(ctx context.Context) {
	if l.next == nil || !closed(l.next.cluster.Synced()) ||
		l.serving == nil && l.elsewhere() && (l.gateways.tracker == nil || !l.gateways.settled()) {
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

// setLink gives the table the link as it is now. It is called whenever that may have
// changed.
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
	switch {
	case l.serving != nil:
		now.State, now.Source, now.Within = federation.Ready, l.readable(), l.serving.creds.ranges
		s.lostSince = l.serving.cluster.Health().StaleSince
	case l.state == cluster.Unreachable:
		now.State = federation.Unreachable
	}
	s.lost = federation.InService
	if s.mayBeLost() && !time.Now().Before(s.dueAt()) {
		s.lost = s.settings.whenLost
	}
	s.dead = l.gateways.allDead()
	now.Region, now.Cordon, now.CordonOver, now.Lost = s.region, s.settings.cordon, s.settings.cordonOver, s.notByHand()
	l.env.setLink(l.name, now)
}

// setRegion notes where the cluster is, and logs that if it was elsewhere. New credentials that can't read Nodes leave
// the region as it was.
func (l *link) setRegion() {
	s, before := &l.standing, l.standing.region
	if region, known := cmp.Or(l.serving, l.next).cluster.Region(); known {
		s.nodesRegion = region
	}
	s.region = cmp.Or(s.settings.region, s.nodesRegion)
	if before != "" && before != s.region {
		l.log.Info("region of a cluster changed", zap.String("region", s.region), zap.String("before", before))
	}
}

// updateState sets the state that follows from the clusters' health, and decides whether a successor may replace the
// serving cluster.
func (l *link) updateState() {
	switch {
	case l.serving == nil && l.next == nil:
		l.setState(cluster.Rejected, nil)
		return
	case l.serving == nil:
		// Without a problem the state stays as start has set it, or unreachable until the cluster has synced.
		l.next.noteProgress()
		if problem := l.next.problem(l.next.noteHealth()); problem != nil {
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

// setState sets the state, and logs and reports a change of it; why is what is behind it, or nil.
func (l *link) setState(s cluster.State, why error) {
	before := l.state
	if before == s {
		return
	}
	l.state, l.since = s, time.Now()
	if s != cluster.Rejected { // unlink has reported that
		l.report(cluster.StateChanged, because(string(s), why), s == cluster.Unreachable || s == cluster.Stale)
	}
	switch {
	case s == cluster.Unreachable:
		l.log.Log(l.level, "cluster unreachable; it is retried", zap.Error(why))
	case s == cluster.Stale:
		l.log.Log(
			l.level, "cluster is stale: its API is not followed, and its endpoints stay as they were", zap.Error(why),
		)
	case s == cluster.Ready && before == cluster.Stale:
		l.log.Info("cluster is back")
	case s == cluster.Ready:
		l.log.Info("cluster ready")
	}
}

// because appends an error to a text for people; nil: none.
func because(text string, why error) string {
	if why == nil {
		return text
	}
	return text + ": " + why.Error()
}

// admitSuccessor lets the successor finish its first sync once it waits for no kind. The arguments are the present
// health of both clusters.
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
		l.log.Warn("new credentials are used without all kinds of objects",
			zap.String("secret", n.creds.secret), zap.String("reason", why), zap.Error(awaitedError(n.awaits)))
		n.awaits = nil
	}
	close(n.admit)
}

// whyNotWait returns why a successor waits for no kind, whatever it has not listed; empty: it waits.
func (l *link) whyNotWait(serving, next cluster.Health) string {
	switch {
	case l.otherCluster():
		return "they are of another cluster (" + LinkedClusterAnnotation + ")"
	case revoked(serving) && l.next.isBetter(maxRevoked):
		return "the API server no longer accepts the old credentials"
	case !l.next.isBetter(maxStale):
	case !overBudget(serving): // if it is, the successor has the same cap and no advantage
		return fmt.Sprintf("with the old credentials the cluster has been stale for %v", maxStale)
	}
	return ""
}

// otherCluster reports whether the Secrets of the successor and the serving cluster name different clusters.
func (l *link) otherCluster() bool {
	before, now := l.serving.creds.identity, l.next.creds.identity
	return before != "" && now != "" && before != now
}

// noteProblem records why a successor can't replace the serving cluster, and logs and reports when that begins.
func (l *link) noteProblem(problem error) {
	if l.replacing() { // the credentials are the same
		return
	}
	before := l.next.failed
	l.next.failed = problem
	if problem == nil || before != nil {
		return
	}
	const text = "new credentials do not work; the old ones stay in use"
	l.log.Warn(text, zap.String("secret", l.next.creds.secret), zap.Error(problem))
	l.report(cluster.CredentialsChanged, because(text, problem), true)
}

// A panic in the lists or watches of a linked cluster ends all of them for good, and may leave the
// cache half changed. The link then starts another cluster with the same credentials, as a rotation
// does. Until that cluster has synced, the failed cluster's cache is served as stale.

// noteFailures schedules the replacement of clusters that have failed. The pauses are those of a
// Supervisor. They start over if the cluster ran for MaxPause.
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
		l.log.Warn("a panic ended the lists and watches of a cluster: "+
			"a successor is started, and the cache is served until then", zap.Time("at", r.replaceAt))
	}
}

// newest returns the newest cluster that was made from these credentials. If there is none, it returns nil.
func (l *link) newest(creds *credentials) *runningCluster {
	for _, r := range [...]*runningCluster{l.next, l.serving} {
		if r != nil && creds != nil && r.creds.hash == creds.hash {
			return r
		}
	}
	return nil
}

// mustReplace reports whether the newest cluster of these credentials has failed, and is to be replaced now.
func (l *link) mustReplace(creds *credentials) bool {
	r := l.newest(creds)
	return r != nil && !r.replaceAt.IsZero() && !time.Now().Before(r.replaceAt)
}

// untilReplaced returns a channel that gets the time when the newest cluster is replaced. If it has not failed, the
// channel is nil.
func (l *link) untilReplaced() <-chan time.Time {
	r := l.newest(l.accepted)
	if r == nil || r.replaceAt.IsZero() {
		return nil
	}
	return time.After(time.Until(r.replaceAt))
}

// logStanding logs the standing if it has changed.
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
		why = "not cordoned, and its API is followed"
	default:
		why = "not cordoned, and not lost by its when-lost and lost-after"
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

// logGateways logs which gateways have died, or answer again.
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

// publish makes the link's present fields visible to other goroutines.
func (l *link) publish() {
	v := l.linkStatus
	for _, r := range []**runningCluster{&v.serving, &v.next} {
		if *r != nil {
			*r = new(**r)
		}
	}
	l.published.Store(&v)
	l.env.lookAgain()
}

// report reports a change.
func (l *link) report(kind cluster.ChangeKind, text string, problem bool) {
	l.env.report(cluster.Change{Cluster: l.name, Kind: kind, Text: text, Problem: problem})
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
	l.env.metrics.Requests().Forget(l.name)
	if l.gateways.end() {
		l.env.probes.DeleteLabelValues(string(l.name))
	}
}
