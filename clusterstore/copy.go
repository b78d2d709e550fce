package clusterstore

import (
	"context"
	"errors"
	"io"
	"time"

	"go.uber.org/zap"

	"isthmus/clusterstore/cluster"
	"isthmus/federation"
)

// If a replica starts while the API of a linked cluster is unreachable, the replica cannot fill a
// cache of the cluster. Another replica may have stored a copy of its cache in the local cluster
// (package local/copies). In this case, the link serves the copy like a stale cluster until the
// cluster in the next field has synced. A copy does not have credentials, so a rotation never
// involves a copy.

// Copy is a copy of a linked cluster's cache, written after the cluster's API became unreachable.
type Copy struct {
	Cluster  federation.ClusterName `json:"cluster"`
	Identity string                 `json:"identity,omitempty"` // LinkedClusterAnnotation; empty if unknown
	Server   string                 `json:"server"`             // host, port and path of the cluster's API
	Lost     time.Time              `json:"lost"`               // since when the API can't be listed or watched
	Lists    map[string][]byte      `json:"-"`                  // as in [cluster.Copied]
}

// isOf reports whether the given credentials belong to the copied cluster.
func (c *Copy) isOf(creds *credentials) bool {
	if c.Identity != "" && creds.identity != "" {
		return c.Identity == creds.identity
	}
	return c.Server == creds.server
}

// otherCluster returns the error of a copy that is not used, because it is of another cluster.
func (c *Copy) otherCluster() error { return errors.New("it is of another cluster, at " + c.Server) }

// LinkedCache is the cache of a linked cluster, for the writer of copies.
type LinkedCache struct {
	Copy  // without Lists; Lost is zero unless the cluster is stale
	State cluster.State
	Since time.Time // start of the state
	// Write writes the cached objects as gzipped lists, with a separate writer for each resource.
	// If this replica has not listed the cluster, Write is nil.
	Write func(to func(resource string) io.Writer) error
}

// Caches returns the caches of all links. If the link Secrets have not been listed yet, the listed
// result is false.
func (s *Store) Caches() (list []LinkedCache, listed bool) {
	s.mu.Lock()
	listed = s.dispatched
	names := make(map[federation.ClusterName]*link, len(s.links))
	for name, l := range s.links {
		names[name] = l
	}
	s.mu.Unlock()
	for name, l := range names {
		one := LinkedCache{Copy: Copy{Cluster: name}}
		if v := l.published.Load(); v != nil {
			one.State = v.state
			one.Since = v.since
			if v.serving != nil {
				one.Identity = v.serving.creds.identity
				one.Server = v.serving.creds.server
				one.Lost = v.standing.lostSince
				one.Write = v.serving.write
			}
		}
		list = append(list, one)
	}
	return list, listed
}

const (
	// silence is the time after which a link reads its copy, if the starting cluster has not sent
	// anything.
	silence = 5 * time.Second
	// copyPatience is how long reading and loading a copy may delay readiness.
	copyPatience = 10 * time.Second
)

// linkCopy is the copy of a link's cluster. Only the link's goroutine writes to a linkCopy.
type linkCopy struct {
	allowed bool            // a copy may be read; set for links that exist when the replica starts
	until   time.Time       // until when the copy delays readiness
	read    *copyRead       // nil unless the copy is being read
	cluster *runningCluster // loads the copy and then serves it; nil without a copy
	of      *Copy           // without Lists; set with cluster
	served  bool            // the table reads cluster
	release time.Time       // until when next waits for kinds of the copy; zero until next has synced
}

// copyRead is one attempt to read a copy.
type copyRead struct {
	cancel context.CancelFunc
	done   chan struct{} // closed once the fields below are set
	copy   *Copy         // nil if there is none
	err    error
}

// delays reports whether the link waits for its copy.
func (c *linkCopy) delays() bool {
	return (c.read != nil || c.cluster != nil && !c.served) && time.Now().Before(c.until)
}

// loaded returns the cluster that serves the copy, or nil if the copy has not been loaded.
func (c *linkCopy) loaded() *runningCluster {
	if c.cluster == nil || !closed(c.cluster.cluster.Synced()) {
		return nil
	}
	return c.cluster
}

// end drops the copy and its cluster, and waits until the read of the copy and the cluster have
// stopped.
func (c *linkCopy) end() {
	if c.read != nil {
		c.read.cancel()
		<-c.read.done
	}
	c.cluster.stop()
	*c = linkCopy{}
}

// If the cluster turns out to be lost, useCopy reads the copy and starts a cluster that loads the
// copy.
func (l *link) useCopy(ctx context.Context) {
	c := &l.copy
	if l.next == nil || l.serving != nil {
		return
	}
	if wait, needed := l.untilCopy(); needed && wait <= 0 {
		c.allowed = false
		c.until = time.Now().Add(copyPatience)
		c.read = l.readCopy(ctx)
	}
	if c.read != nil && closed(c.read.done) {
		l.loadCopy(ctx)
	}
	if c.cluster == nil {
		return
	}
	if c.cluster.creds.hash == l.accepted.hash {
		c.cluster.creds = l.accepted // the address ranges may have changed
	}
	// Once the copy has been loaded, the Err field says that the API server was not reached.
	h := c.cluster.noteHealth()
	switch {
	case h.Err != nil && !h.StaleSince.Equal(c.of.Lost):
		l.refuseCopy(h.Err)
	case !c.served && !c.of.isOf(l.accepted): // the Secret was changed while the copy was loaded
		l.refuseCopy(c.of.otherCluster())
	}
}

// untilCopy returns the time that the link still waits before it reads the copy. If the link does
// not need the copy, the needed result is false.
func (l *link) untilCopy() (wait time.Duration, needed bool) {
	if !l.copy.allowed || l.next == nil || l.serving != nil || closed(l.store.settled) {
		return 0, false
	}
	h := l.next.cluster.Health()
	switch {
	case h.Err != nil:
		return 0, true
	case l.next.deadline.IsZero(): // the cluster waits for its turn
		return 0, false
	}
	last := l.next.deadline.Add(-syncGrace) // start of the turn
	if h.LastEvent.After(last) {
		last = h.LastEvent
	}
	return time.Until(last.Add(silence)), true
}

func (l *link) readCopy(ctx context.Context) *copyRead {
	ctx, cancel := context.WithTimeout(ctx, copyPatience)
	r := &copyRead{cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(r.done)
		defer cancel()
		r.copy, r.err = l.store.opts.ReadCopy(ctx, l.name)
	}()
	return r
}

// After the copy has been read, loadCopy starts a cluster that loads the copy.
func (l *link) loadCopy(ctx context.Context) {
	c := &l.copy
	found, err := c.read.copy, c.read.err
	c.read = nil
	switch {
	case err != nil:
		l.refuseCopy(err)
		return
	case found == nil:
		return
	case !found.isOf(l.accepted):
		l.refuseCopy(found.otherCluster())
		return
	}
	cfg := l.config(l.accepted)
	cfg.Exports = nil
	cfg.Copied = &cluster.Copied{Lost: found.Lost, Lists: found.Lists}
	made, err := l.env.create(nil, cfg)
	if err != nil {
		l.refuseCopy(err)
		return
	}
	found.Lists = nil
	c.of = found
	c.cluster = &runningCluster{cluster: made, creds: l.accepted}
	c.cluster.start(ctx, l.store.loads)
}

func (l *link) refuseCopy(why error) {
	l.log.Warn("the copy of a cluster can't be used", zap.Error(why))
	l.copy.end()
}

// serveCopy makes the table read the copy once the copy has been loaded, unless the cluster in the
// next field has synced.
func (l *link) serveCopy() {
	c := &l.copy
	if c.served || c.loaded() == nil || closed(l.next.cluster.Synced()) ||
		l.elsewhere() && (l.gateways.tracker == nil || !l.gateways.settled()) {
		return
	}
	c.served = true
	l.log.Warn("cluster is served from a copy: its API cannot be reached", zap.Time("lost", c.of.Lost))
	l.setState(cluster.Stale, l.next.problem(l.next.noteHealth()))
	l.since = c.of.Lost
}

// copyStays reports whether the link still serves the copy although the cluster in the next field
// has synced. The link does so until that cluster has listed each kind of object that the copy
// contains. An API server that is starting may reject requests, and Isthmus only requests an
// optional kind again after a pause. The wait for missing kinds is limited, because the credentials
// may lack permissions.
func (l *link) copyStays() bool {
	c := &l.copy
	if !c.served || len(awaitedKinds(c.cluster.cluster.Health(), l.next.cluster.Health())) == 0 {
		return false
	}
	if c.release.IsZero() {
		c.release = time.Now().Add(syncGrace)
	}
	return time.Now().Before(c.release)
}

// waitForCopy returns channels for the events that matter for the link's copy: the end of the read,
// the end of the load, a failed load, and the end of a time limit.
func (l *link) waitForCopy() (read, loaded, health <-chan struct{}, due <-chan time.Time) {
	c := &l.copy
	if wait, needed := l.untilCopy(); needed {
		due = time.After(wait)
	}
	if c.read != nil {
		read = c.read.done
	}
	if c.cluster != nil && c.loaded() == nil {
		loaded = c.cluster.cluster.Synced()
		health = c.cluster.healthChanged
	}
	switch {
	case c.delays():
		due = time.After(time.Until(c.until))
	case time.Now().Before(c.release):
		due = time.After(time.Until(c.release))
	}
	return read, loaded, health, due
}
