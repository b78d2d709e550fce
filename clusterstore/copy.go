package clusterstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"isthmus/clusterstore/cluster"
	"isthmus/federation"
	"isthmus/internal/pace"
)

// A replica that starts while the API of a linked cluster is unreachable cannot fill its cache for
// that cluster. Another replica may have stored a copy of its cache in the local cluster (package
// local/copies). If a copy exists, the link serves endpoints from the copy until the cluster has
// synced. A link that serves a copy is in the Stale state. A copy contains no credentials.

// CopiedCluster describes the linked cluster whose cache was copied.
type CopiedCluster struct {
	Cluster  federation.ClusterName `json:"cluster"`
	Identity string                 `json:"identity,omitempty"` // LinkedClusterAnnotation; empty if unknown
	Server   string                 `json:"server"`             // host, port and path of the cluster's API
	Lost     time.Time              `json:"lost"`               // since when the API can't be listed or watched
}

// SameCluster reports whether credentials with the given identity and server belong to the copied
// cluster.
func (c *CopiedCluster) SameCluster(identity, server string) bool {
	if c.Identity != "" && identity != "" {
		return c.Identity == identity
	}
	return c.Server == server
}

// Copy is a copy of a linked cluster's cache, written after the API of the cluster became
// unreachable.
type Copy struct {
	CopiedCluster
	Lists map[string][]byte // as in [cluster.Copied]
}

// UnusableCopy is the reason why a copy can never be used.
type UnusableCopy string

func (u UnusableCopy) Error() string { return string(u) }

// LinkedCache describes the cache of a linked cluster, for code that stores copies of caches.
type LinkedCache struct {
	CopiedCluster // Lost is zero unless the cluster is stale
	State         cluster.State
	Since         time.Time // start of the state
	// Copy is the method [cluster.Cluster.Copy]. Copy is nil if this replica has not yet listed the
	// cluster's objects. Copy is also nil if the link Secret now names another cluster, because a
	// copy of the previous cluster cannot be used for the new cluster.
	Copy func(limit int) (map[string][]byte, error)
}

const (
	// silence is how long a link waits for a silent API server before it reads a copy of the
	// cluster.
	silence = 5 * time.Second
	// copyPatience limits how long a copy may delay readiness, even if new Secrets interrupt
	// loading. copyPatience also limits how long a link retries a failed read of its copy.
	copyPatience = 10 * time.Second
	// maxLoads is the maximum number of copies that are read and loaded at the same time. This
	// limit bounds the memory that copies use. With a limit of two, a replica would start more
	// slowly from copies than from API servers (make bench BENCH=copies).
	maxLoads = 4
)

// linkCopy reads the stored copy of a linked cluster's cache, and holds the Cluster value that
// contains the loaded copy. Only the link's goroutine calls the methods of a linkCopy.
type linkCopy struct {
	link    *link
	allowed bool            // the copy may be read; set for links that exist when the replica starts
	began   time.Time       // start of the first load; zero before the first load
	problem error           // why the copy cannot be used
	cluster *runningCluster // has loaded the copy; nil without a copy
	of      CopiedCluster   // set with cluster
	served  bool            // the table reads cluster
	release time.Time       // until when next waits for kinds of the copy; zero until next has synced
}

// The use method reads and loads the copy if the cluster cannot be reached. If the cluster
// completes its first sync while the copy is being loaded, loading stops, because the copy is no
// longer needed. If new Secrets arrive while the copy is being loaded, loading stops, and the next
// call to the use method loads the copy again.
func (c *linkCopy) use(ctx context.Context, newer <-chan struct{}) (interrupted bool) {
	l := c.link
	if c.isNeeded() {
		if c.began.IsZero() {
			c.began = time.Now()
		}
		late := time.AfterFunc(time.Until(c.began.Add(copyPatience)), func() { l.store.markSettled(l) })
		loading, stop := whileOpen(ctx, l.next.cluster.Synced(), newer)
		err := c.load(loading)
		interrupted = closed(newer) && c.cluster == nil
		c.allowed = interrupted
		if err != nil && loading.Err() == nil {
			c.problem = err
			l.log.Warn("the copy of a cluster cannot be used", zap.Error(err))
		}
		stop()
		late.Stop()
	}
	if c.cluster != nil && c.cluster.creds.hash == l.accepted.hash {
		c.cluster.creds = l.accepted // the address ranges may have changed
	}
	return interrupted
}

// whileOpen returns a copy of ctx that is also canceled when one of the channels is closed. The
// caller must call stop.
func whileOpen(ctx context.Context, a, b <-chan struct{}) (open context.Context, stop context.CancelFunc) {
	open, stop = context.WithCancel(ctx)
	go func() {
		select {
		case <-a:
			stop()
		case <-b:
			stop()
		case <-open.Done():
		}
	}()
	return open, stop
}

// The retry method allows another attempt to load a copy that was unusable. If the link's Secret
// contains new credentials or identifies another cluster, the copy may now be usable, so the link
// calls retry.
func (c *linkCopy) retry() {
	if c.problem != nil {
		c.problem = nil
		c.allowed = true
	}
}

// untilNeeded returns how long the link must still wait before it reads the copy. If the link does
// not need the copy, untilNeeded returns 0 and false. If the link has not tried to load its copy by
// the time the Store settles, the link never loads the copy.
func (c *linkCopy) untilNeeded() (wait time.Duration, needed bool) {
	next := c.link.next
	if !c.allowed || next == nil || c.began.IsZero() && closed(c.link.store.settled) {
		return 0, false
	}
	h := next.cluster.Health()
	switch {
	case h.Err != nil:
		return 0, true
	case next.deadline.IsZero(): // the cluster waits for its turn
		return 0, false
	}
	last := next.deadline.Add(-syncGrace) // start of the turn
	if h.LastEvent.After(last) {
		last = h.LastEvent
	}
	return time.Until(last.Add(silence)), true
}

// isNeeded reports whether the link must read the copy now.
func (c *linkCopy) isNeeded() bool {
	wait, needed := c.untilNeeded()
	return needed && wait <= 0
}

// If the copy cannot be read, the load method calls tryLoad again every second for up to
// copyPatience.
func (c *linkCopy) load(ctx context.Context) error {
	for began := time.Now(); ; {
		err := c.tryLoad(ctx)
		if err == nil || errors.As(err, new(UnusableCopy)) || time.Since(began) >= copyPatience ||
			!pace.Sleep(ctx, time.Second) {
			return err
		}
	}
}

// tryLoad makes one attempt to read and load the copy. If no copy exists, tryLoad does nothing.
func (c *linkCopy) tryLoad(ctx context.Context) error {
	l := c.link
	if !l.store.loads.take(ctx) {
		return ctx.Err()
	}
	defer l.store.loads.Release(1)
	reading, stop := context.WithTimeout(ctx, copyPatience)
	defer stop()
	found, err := l.store.opts.ReadCopy(reading, l.name)
	if err != nil || found == nil {
		return err
	}
	if !found.SameCluster(l.accepted.identity, l.accepted.server) {
		return UnusableCopy("it is of another cluster, at " + found.Server)
	}
	cfg := l.config(l.accepted)
	cfg.Exports = nil
	cfg.Copied = &cluster.Copied{Lost: found.Lost, Lists: found.Lists}
	made, err := l.env.create(nil, cfg)
	if err != nil {
		return err
	}
	loaded := &runningCluster{cluster: made, creds: l.accepted}
	loaded.start(context.WithoutCancel(ctx), newStarts(1)) // ends with linkCopy.end
	for !closed(made.Synced()) {
		changed := made.HealthChanged()
		// After the copy has been loaded, Health.Err means only that the API server has not been
		// reached.
		if h := made.Health(); ctx.Err() != nil || h.Err != nil && !h.StaleSince.Equal(found.Lost) {
			loaded.stop()
			return UnusableCopy(fmt.Sprint(cmp.Or(ctx.Err(), h.Err)))
		}
		select {
		case <-changed:
		case <-made.Synced():
		case <-ctx.Done():
		}
	}
	c.cluster = loaded
	c.of = found.CopiedCluster
	return nil
}

// If the cluster itself has not synced yet, the serve method lets the [federation.Table] read from
// the loaded copy.
func (c *linkCopy) serve() {
	l := c.link
	if c.served || c.cluster == nil || closed(l.next.cluster.Synced()) || l.awaitsGateways() {
		return
	}
	c.served = true
	l.log.Warn("serving the cluster from a saved copy of its cache, because the cluster's API cannot be reached",
		zap.Time("lost", c.of.Lost))
	l.setState(cluster.Stale, l.next.problem(l.next.noteHealth()))
	l.since = c.of.Lost
}

// The stays method reports whether the link must keep serving the copy even though the cluster
// itself has synced. The link serves the copy until the cluster has listed each kind of object that
// the copy contains, or until a time limit expires. An API server that is still starting up may
// reject requests for optional kinds of objects. Isthmus retries a rejected list request only after
// a pause, so a cluster may complete its first sync before its optional kinds of objects have been
// listed. Without the time limit, credentials that lack permission to list some kinds of objects
// would keep the copy in use forever.
func (c *linkCopy) stays() bool {
	if !c.served || len(awaitedKinds(c.cluster.cluster.Health(), c.link.next.cluster.Health())) == 0 {
		return false
	}
	if c.release.IsZero() {
		c.release = time.Now().Add(syncGrace)
	}
	return time.Now().Before(c.release)
}

// The due method returns a channel that receives a value when the link must read its copy or stop
// serving the copy. If the link is neither waiting to read its copy nor serving the copy for a
// limited time, the channel is nil.
func (c *linkCopy) due() <-chan time.Time {
	if wait, needed := c.untilNeeded(); needed {
		return time.After(wait)
	}
	if time.Now().Before(c.release) {
		return time.After(time.Until(c.release))
	}
	return nil
}

func (c *linkCopy) end() {
	c.cluster.stop()
	*c = linkCopy{link: c.link}
}
