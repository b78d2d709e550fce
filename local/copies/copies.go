package copies

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"golang.org/x/time/rate"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"isthmus/clusterstore"
	"isthmus/clusterstore/cluster"
	"isthmus/clusterstore/decode"
	"isthmus/clusterstore/kube"
	"isthmus/federation"
	"isthmus/internal/adminapi"
	"isthmus/internal/pace"
	"isthmus/local/lease"
)

const (
	leaseName = "isthmus-cache"

	lostFor        = 10 * time.Second // how long a cluster is stale before it is copied
	readyFor       = time.Minute      // how long a cluster is ready before its copy is deleted
	lookEvery      = time.Second      // how often a replica checks its links
	listEvery      = 30 * time.Second // how often a replica lists the copies
	failedPause    = time.Minute      // how long a replica waits after a failed list or deletion
	leadTime       = time.Minute      // how long a replica tries to become the leader and to do the leader's work
	requestTimeout = 10 * time.Second // limits a request
	maxAttempts    = 3                // to write or to delete a ConfigMap
	attemptPause   = time.Second      // before a failed request is retried
	writeRate      = 4                // ConfigMaps written per second

	maxClockDifference = time.Minute // between replicas

	firstRetry, maxRetry = 10 * time.Second, 10 * time.Minute // pauses after a copy could not be written
)

// Options configure Copies. All fields except MaxAge are required.
type Options struct {
	Client    *kube.Client // of the local cluster, with typed clients
	Namespace string       // of the ConfigMaps and the Lease
	Identity  string       // holder of the Lease; unique among replicas
	// MaxAge is how long a copy may be used after the start of the outage. Zero disables copies and
	// deletes existing copies.
	MaxAge time.Duration
	Log    *zap.Logger
}

// Caches returns the caches of all links. If the second result is false, links may be missing from
// the list.
type Caches func() (list []clusterstore.LinkedCache, listed bool)

// Copies reads and writes the copies of stale clusters. [Copies.Read] and [Copies.Status] are safe
// for concurrent use.
type Copies struct {
	// The following fields do not change after SetCaches has returned.
	o         Options
	caches    Caches
	candidate *lease.Candidate[lease.Leadership]
	limiter   *rate.Limiter

	// Only the goroutine that calls Run may use the following fields.
	outages map[federation.ClusterName]*outage
	next    time.Time // when to list the copies again, even if no cluster has to be copied
	problem error     // why copies can't be listed

	status atomic.Pointer[adminapi.CacheCopies] // without LeaseError
}

type outage struct {
	lost    time.Time
	copied  bool          // a complete copy of this outage exists
	pause   time.Duration // after the next failed attempt to write
	next    time.Time     // when to write; zero means immediately
	problem string        // why the last attempt failed
}

func (o *outage) due() bool { return !o.copied && !time.Now().Before(o.next) }

func (o *outage) postpone() {
	o.next = time.Now().Add(o.pause)
	o.pause = min(2*o.pause, maxRetry)
}

// New returns Copies with the given options. New sends no requests and starts no goroutines.
func New(o Options) *Copies {
	c := &Copies{
		o: o,
		candidate: lease.NewCandidate[lease.Leadership]("copies of stale clusters", lease.Config{
			Leases: o.Client.Leases, Namespace: o.Namespace, Name: leaseName, Identity: o.Identity,
		}, o.Log),
		limiter: rate.NewLimiter(writeRate, writeRate),
	}
	c.publish()
	return c
}

// SetCaches must be called once, before Run.
func (c *Copies) SetCaches(caches Caches) { c.caches = caches }

// Read returns the newest usable copy of a linked cluster's cached objects. If the cluster has no
// copy, both results are nil. If the copies cannot be listed, or if none of them can be used, Read
// returns an error. An error of type [clusterstore.UnusableCopy] means that no copy is expected to
// become usable.
func (c *Copies) Read(ctx context.Context, name federation.ClusterName) (*clusterstore.Copy, error) {
	all, err := c.list(ctx, clusterLabel+"="+slug(name), newest)
	if apierrors.IsForbidden(err) {
		err = clusterstore.UnusableCopy(err.Error())
	}
	for _, g := range all {
		found, why := c.readOne(ctx, g)
		if why == nil {
			return found, nil
		}
		if err == nil || !isUnusable(why) {
			err = why
		}
	}
	return nil, err
}

func isUnusable(err error) bool { return errors.As(err, new(clusterstore.UnusableCopy)) }

func (c *Copies) readOne(ctx context.Context, g *generation) (*clusterstore.Copy, error) {
	switch {
	case g.Parts == 0:
		return nil, clusterstore.UnusableCopy("its annotation " + headAnnotation + " can't be read")
	case g.fromFuture():
		return nil, clusterstore.UnusableCopy("its timestamp is in the future: check the clocks of the nodes")
	case g.tooOld(c.o.MaxAge):
		return nil, clusterstore.UnusableCopy(fmt.Sprintf(
			"the cluster became stale at %s, and the maximum age of a copy is %v (--cache-max-age)",
			g.Lost.UTC().Format(time.RFC3339), c.o.MaxAge))
	case g.mayGrow():
		return nil, errors.New("it is being written")
	case !g.complete():
		return nil, clusterstore.UnusableCopy("it is incomplete")
	}
	var parts [][]byte
	for _, name := range g.names {
		m, err := c.o.Client.ConfigMaps(c.o.Namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		parts = append(parts, m.BinaryData[partKey])
	}
	return g.unpack(parts)
}

// newest and cached are resource versions for list requests. A list request with resource version
// "0" costs the API server less, but the response may be out of date.
const newest, cached = "", "0"

// The list method returns the selected generations, newest first.
func (c *Copies) list(ctx context.Context, selector, version string) ([]*generation, error) {
	ctx, stop := context.WithTimeout(ctx, requestTimeout)
	defer stop()
	options := metav1.ListOptions{LabelSelector: selector, ResourceVersion: version}
	all := make(generations)
	_, err := c.o.Client.Sources.ConfigMaps(c.o.Namespace).List(ctx, options,
		func(o *metav1.PartialObjectMetadata, refused *decode.Refused) error {
			if refused == nil {
				all.add(o)
			}
			return nil
		})
	if err != nil {
		return nil, err
	}
	for _, g := range all {
		slices.Sort(g.names)
	}
	return slices.SortedFunc(maps.Values(all), func(a, b *generation) int { return b.Written.Compare(a.Written) }), nil
}

func (c *Copies) Run(ctx context.Context) error {
	for pace.Sleep(ctx, lookEvery) {
		links, listed := c.caches()
		due := c.note(links) && c.problem == nil || !time.Now().Before(c.next)
		if listed && due && !c.plan(ctx, links, false).empty() {
			if err := c.campaign(ctx); err != nil {
				return err
			}
		}
		c.publish()
	}
	return nil
}

// The note method updates the recorded outages, and reports whether any cluster has to be copied
// now.
func (c *Copies) note(links []clusterstore.LinkedCache) (due bool) {
	before := c.outages
	c.outages = make(map[federation.ClusterName]*outage)
	for _, l := range links {
		age := time.Since(l.Lost)
		if l.State != cluster.Stale || l.Copy == nil || age < lostFor || age >= c.o.MaxAge {
			continue
		}
		o := before[l.Cluster]
		if o == nil || !o.lost.Equal(l.Lost) {
			o = &outage{lost: l.Lost, pause: firstRetry}
		}
		c.outages[l.Cluster] = o
		due = due || o.due()
	}
	return due
}

type work struct {
	unusable []*generation // deleted before copies are written
	write    []clusterstore.LinkedCache
	remove   []*generation // deleted after copies are written
	room     int           // bytes that new copies may have
}

func (w *work) empty() bool { return len(w.unusable)+len(w.write)+len(w.remove) == 0 }

// The plan method lists all stored copies, and then decides which copies to write and which to
// delete.
func (c *Copies) plan(ctx context.Context, links []clusterstore.LinkedCache, leading bool) *work {
	version := cached
	if leading {
		version = newest
	}
	all, err := c.list(ctx, clusterLabel, version)
	if ctx.Err() != nil { // err is not a problem of the API server
		return &work{}
	}
	switch {
	case err == nil && c.problem != nil:
		c.o.Log.Info("saved caches of stale clusters can be listed again")
	case err != nil && c.problem == nil && c.o.MaxAge > 0:
		c.o.Log.Warn("saved caches of stale clusters cannot be listed, so new replicas cannot serve these clusters",
			zap.Error(err))
	}
	c.problem = err
	c.next = time.Now().Add(listEvery)
	if err != nil {
		c.next = time.Now().Add(failedPause)
		return &work{}
	}
	return c.decide(all, links, leading)
}

// The decide method compares the generations with the links, beginning with the newest generation.
// A generation is up to date if it was written during the current outage and contains the objects
// of the cluster to which the link currently points. The leader deletes even recent incomplete
// generations, because no other replica can still be writing them.
func (c *Copies) decide(all []*generation, links []clusterstore.LinkedCache, leading bool) *work {
	w := &work{room: maxAll}
	linked := make(map[federation.ClusterName]*clusterstore.LinkedCache)
	for i := range links {
		linked[links[i].Cluster] = &links[i]
	}
	current := make(map[federation.ClusterName]*generation) // the newest complete generations
	for _, g := range all {
		l := linked[g.Cluster]
		switch {
		case g.mayGrow() && !leading:
		case !g.complete(), g.fromFuture():
			w.unusable = append(w.unusable, g)
		case l == nil, current[g.Cluster] != nil, g.tooOld(c.o.MaxAge), isOver(g, l):
			w.remove = append(w.remove, g)
		default:
			current[g.Cluster] = g
		}
	}
	for _, l := range links {
		o, g := c.outages[l.Cluster], current[l.Cluster]
		if o != nil {
			o.copied = g != nil && g.SameCluster(l.Identity, l.Server) && !g.Written.Before(o.lost)
		}
		if o != nil && g != nil {
			if next := g.Written.Add(readyFor); next.After(o.next) { // the cluster may come and go
				o.next = next
			}
		}
		switch {
		case o != nil && o.due():
			w.write = append(w.write, l) // afterwards, the current generation is deleted
		case g != nil:
			w.room -= g.Bytes
		}
	}
	return w
}

// isOver reports whether the outage during which a generation was written is over. If this replica
// already considered the cluster ready when another replica wrote the generation, isOver returns
// false.
func isOver(g *generation, l *clusterstore.LinkedCache) bool {
	return l.State == cluster.Ready && time.Since(l.Since) >= readyFor && l.Since.After(g.Written)
}

var errLate = fmt.Errorf("the API server did not store the copy within %v", leadTime)

func (c *Copies) campaign(ctx context.Context) error {
	ctx, stop := context.WithTimeoutCause(ctx, leadTime, errLate)
	defer stop()
	begin := func(l *lease.Leadership) *lease.Leadership { return l }
	return c.candidate.Run(ctx, begin, func(ctx context.Context, leader *lease.Leadership) {
		c.lead(ctx, leader)
		stop()
	})
}

// When a replica becomes the leader, it makes a new plan, because other replicas may have written
// or deleted copies since its last plan.
func (c *Copies) lead(ctx context.Context, leader *lease.Leadership) {
	links, listed := c.caches()
	if !listed {
		return
	}
	c.note(links)
	w := c.plan(ctx, links, true)
	w.room -= c.remove(ctx, leader, w.unusable)
	for _, l := range w.write {
		links, _ = c.caches()
		c.note(links)
		o := c.outages[l.Cluster]
		if o == nil || !o.lost.Equal(l.Lost) { // the outage has ended since the plan was made
			continue
		}
		n, err := c.write(ctx, leader, &l, w.room)
		w.room -= n
		switch {
		case errors.Is(context.Cause(ctx), context.Canceled): // the replica stops
			return
		case err != nil:
			c.o.Log.Warn("a stale cluster could not be copied", zap.Stringer("cluster", l.Cluster), zap.Error(err))
			o.problem = cmp.Or(context.Cause(ctx), err).Error()
			o.postpone()
		default:
			c.o.Log.Info("saved a copy of an unreachable cluster's cache: newly started replicas serve this copy",
				zap.Stringer("cluster", l.Cluster), zap.Int("bytes", n))
			o.copied = true
		}
		if ctx.Err() != nil {
			return
		}
	}
	c.remove(ctx, leader, w.remove)
}

// The write method stores a copy of a linked cluster. The result n is the number of bytes that may
// have been stored, even if err is not nil. If the size of the copy exceeds the room argument, the
// method stores nothing and returns an error.
func (c *Copies) write(
	ctx context.Context, leader *lease.Leadership, l *clusterstore.LinkedCache, room int,
) (n int, err error) {
	written := time.Now() // if the outage ends during Copy, isOver compares with an earlier time
	lists, err := l.Copy(maxCopy)
	if err != nil {
		return 0, err
	}
	h, parts := pack(&clusterstore.Copy{CopiedCluster: l.CopiedCluster, Lists: lists}, written)
	switch {
	case len(parts[0].Annotations[headAnnotation]) > maxHead:
		return 0, errors.New("the address of the API server or the identity of the cluster is too long")
	case h.Bytes > room:
		return 0, fmt.Errorf("all copies together would be larger than %d MiB", maxAll>>20)
	}
	for _, m := range parts {
		n += len(m.BinaryData[partKey])
		err := c.request(ctx, leader, func(ctx context.Context) error {
			_, err := c.o.Client.ConfigMaps(c.o.Namespace).Create(ctx, m, metav1.CreateOptions{})
			return err
		})
		if err != nil && !apierrors.IsAlreadyExists(err) { // a failed attempt may have stored the ConfigMap
			return n, fmt.Errorf("write ConfigMap %s: %w", m.Name, err)
		}
	}
	return n, nil
}

// The remove method deletes generations, and returns the total size, in bytes, of the generations
// that could not be deleted.
func (c *Copies) remove(ctx context.Context, leader *lease.Leadership, list []*generation) (remaining int) {
	for _, g := range list {
		if err := c.removeOne(ctx, leader, g); err != nil {
			c.o.Log.Warn("the saved cache of a cluster could not be deleted",
				zap.Stringer("cluster", g.Cluster), zap.Error(err))
			c.next = time.Now().Add(failedPause)
			remaining += g.Bytes
		}
	}
	return remaining
}

func (c *Copies) removeOne(ctx context.Context, leader *lease.Leadership, g *generation) error {
	for _, name := range g.names {
		err := c.request(ctx, leader, func(ctx context.Context) error {
			return c.o.Client.ConfigMaps(c.o.Namespace).Delete(ctx, name, metav1.DeleteOptions{})
		})
		if err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	return nil
}

func (c *Copies) request(ctx context.Context, leader *lease.Leadership, send func(context.Context) error) (err error) {
	for range maxAttempts {
		if err := c.limiter.Wait(ctx); err != nil {
			return err
		}
		err = leader.Write(func(ctx context.Context) error {
			ctx, stop := context.WithTimeout(ctx, requestTimeout)
			defer stop()
			return send(ctx)
		})
		if err == nil || apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err) || !pace.Sleep(ctx, attemptPause) {
			break
		}
	}
	return err
}

func (c *Copies) publish() {
	s := &adminapi.CacheCopies{Off: c.o.MaxAge == 0}
	if c.problem != nil {
		s.Error = c.problem.Error()
	}
	for _, name := range slices.Sorted(maps.Keys(c.outages)) {
		o := c.outages[name]
		why := o.problem
		if why == "" && time.Since(o.lost) > lostFor+2*leadTime {
			why = "no replica could become the leader and write the copy"
		}
		if why != "" && !o.copied {
			s.Missing = append(s.Missing, adminapi.MissingCopy{Cluster: string(name), Reason: why})
		}
	}
	c.status.Store(s)
}

func (c *Copies) Status() adminapi.CacheCopies {
	s := *c.status.Load()
	s.LeaseError = c.candidate.Status().Problem
	return s
}

// Missing returns a metric with the number of stale clusters that have no copy.
func (c *Copies) Missing() prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "isthmus_cluster_copies_missing",
		Help: "Number of stale clusters that newly started replicas cannot serve, because their caches are not saved.",
	}, func() float64 { return float64(len(c.Status().Missing)) })
}

// Refused returns the requests that the API server rejects. If copies are disabled, Refused returns
// nil, because the rejected requests do not matter.
func (c *Copies) Refused() []adminapi.RefusedRequest {
	if c.o.MaxAge == 0 {
		return nil
	}
	return c.o.Client.Server().Refused
}
