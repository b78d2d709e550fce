package copies

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
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
	refusedPause   = 5 * time.Minute  // how long a replica waits after a list or a deletion is forbidden
	campaignTime   = 30 * time.Second // how long a replica tries to become the leader
	requestTimeout = 10 * time.Second // limits a request
	writeRate      = 4                // ConfigMaps written per second

	firstRetry, maxRetry = 10 * time.Second, 10 * time.Minute // pauses after failed writes
)

// Options configure Copies. All fields except MaxAge are required.
type Options struct {
	Client    *kube.Client // of the local cluster, with typed clients
	Namespace string       // of the ConfigMaps and the Lease
	Identity  string       // holder of the Lease; unique among replicas
	// MaxAge is the time for which a copy is used after its cluster was lost. If MaxAge is zero,
	// clusters are not copied, copies are not read, and existing copies are deleted.
	MaxAge time.Duration
	Log    *zap.Logger
}

// Caches returns the caches of all links. If some links may not be known yet, the listed result is
// false.
type Caches func() (list []clusterstore.LinkedCache, listed bool)

// Copies reads and writes the copies of lost clusters. [Copies.Read] and [Copies.Status] are safe
// for concurrent use.
type Copies struct {
	// The following fields do not change after SetCaches has returned.
	o         Options
	caches    Caches
	candidate *lease.Candidate[lease.Leadership]
	limiter   *rate.Limiter

	read atomic.Int64 // bytes of the copies that Read has returned or is reading

	// The following fields are used only by the goroutine that executes Run.
	outages map[federation.ClusterName]*outage
	next    time.Time // when to list the copies again, even if no cluster has to be copied

	mu      sync.Mutex
	problem error                             // guarded by mu; why copies can't be listed
	missing map[federation.ClusterName]string // guarded by mu; why lost clusters have no copy
}

// outage is the period since a cluster was lost that this replica has in its cache.
type outage struct {
	lost     time.Time
	copied   bool      // a complete generation of this outage exists
	failures int       // of attempts to write
	next     time.Time // when to write; zero means at once
	problem  string    // why the last attempt failed
}

// New returns Copies with the given options. New does not send requests and does not start
// goroutines.
func New(o Options) *Copies {
	return &Copies{
		o: o,
		candidate: lease.NewCandidate[lease.Leadership]("copies of lost clusters", lease.Config{
			Leases: o.Client.Leases, Namespace: o.Namespace, Name: leaseName, Identity: o.Identity,
		}, o.Log),
		limiter: rate.NewLimiter(writeRate, writeRate),
		outages: make(map[federation.ClusterName]*outage),
	}
}

// SetCaches sets the function that returns the caches. Call SetCaches once, before Run.
func (c *Copies) SetCaches(links Caches) { c.caches = links }

// Read returns the newest usable copy of a cluster, or nil if no copy exists. If the cluster has
// copies, but none of them can be used, Read returns an error. If a request fails, or if a copy is
// still being written, Read retries until ctx ends.
func (c *Copies) Read(ctx context.Context, name federation.ClusterName) (*clusterstore.Copy, error) {
	for {
		found, err := c.readNewest(ctx, name)
		if err == nil || isFinal(err) || !pace.Sleep(ctx, time.Second) {
			return found, err
		}
	}
}

// isFinal reports whether a retry of Read would fail with the same error.
func isFinal(err error) bool { return errors.As(err, new(unusable)) || apierrors.IsForbidden(err) }

// readNewest returns the newest usable copy of a cluster. If no copy can be used, readNewest
// returns an error that is not final. If all errors are final, readNewest returns the error for the
// newest copy.
func (c *Copies) readNewest(ctx context.Context, name federation.ClusterName) (*clusterstore.Copy, error) {
	all, err := c.list(ctx, clusterLabel+"="+slug(name), newest)
	if err != nil {
		return nil, err
	}
	var why error
	for _, g := range all {
		found, err := c.readOne(ctx, g)
		switch {
		case err == nil && found.Cluster == name:
			return found, nil
		case err != nil && (why == nil || isFinal(why) && !isFinal(err)):
			why = err
		}
	}
	return nil, why
}

// maxRead limits the memory that forged copies can use when a replica starts. Because Read may read
// several generations of a cluster, maxRead is larger than maxAll.
const maxRead = 2 * maxAll

// readOne returns the copy that one generation contains.
func (c *Copies) readOne(ctx context.Context, g *generation) (found *clusterstore.Copy, err error) {
	switch {
	case g.count == 0:
		return nil, unusable("its labels or its annotation " + headAnnotation + " can't be read")
	case time.Since(g.Lost) > c.o.MaxAge:
		return nil, unusable(fmt.Sprintf("the cluster was lost more than %v ago (--cache-max-age), at %s",
			c.o.MaxAge, g.Lost.UTC().Format(time.RFC3339)))
	case !g.complete() && time.Since(g.Written) < readyFor:
		return nil, errors.New("it is being written")
	case !g.complete():
		return nil, errIncomplete
	}
	var parts []*corev1.ConfigMap
	read := 0
	defer func() {
		if err != nil { // the parts become garbage
			c.read.Add(-int64(read))
		}
	}()
	for _, name := range g.names {
		m, err := c.o.Client.ConfigMaps(c.o.Namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		for _, data := range m.BinaryData {
			read += len(data)
			if c.read.Add(int64(len(data))) > maxRead {
				return nil, unusable(fmt.Sprintf("all copies together are larger than %d MiB", maxAll>>20))
			}
		}
		parts = append(parts, m)
	}
	return unpack(parts)
}

// These constants are resource versions for list requests. For a cached list, the API server does
// not have to read all copies from its storage, but the list may be out of date.
const newest, cached = "", "0"

// list returns the selected generations, newest first.
func (c *Copies) list(ctx context.Context, selector, version string) ([]*generation, error) {
	ctx, stop := context.WithTimeout(ctx, requestTimeout)
	defer stop()
	source := c.o.Client.Sources.ConfigMaps(c.o.Namespace)
	options := metav1.ListOptions{LabelSelector: selector, Limit: pageSize, ResourceVersion: version}
	all := make(generations)
	for range maxPages {
		page, err := source.List(ctx, options, func(o *metav1.PartialObjectMetadata, refused *decode.Refused) error {
			if refused == nil {
				all.add(o)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
		if options.Continue = page.Continue; options.Continue == "" {
			break
		}
		options.ResourceVersion = "" // the API server rejects it in later pages
	}
	return all.newestFirst(), nil
}

// At most pageSize*maxPages ConfigMaps are listed. The number of ConfigMaps that maxAll allows is
// smaller.
const pageSize, maxPages = 500, 10

// Run writes and deletes copies until ctx ends.
func (c *Copies) Run(ctx context.Context) error {
	for pace.Sleep(ctx, lookEvery) {
		links, listed := c.caches()
		due := c.note(links) && c.currentProblem() == nil || !time.Now().Before(c.next)
		if !listed || !due || c.plan(ctx, links, cached).empty() {
			continue
		}
		if err := c.campaign(ctx); err != nil {
			return err
		}
	}
	return nil
}

// note updates the outages, and reports whether any cluster has to be copied now.
func (c *Copies) note(links []clusterstore.LinkedCache) (due bool) {
	lost := make(map[federation.ClusterName]bool)
	for _, l := range links {
		age := time.Since(l.Lost)
		if l.State != cluster.Stale || l.Write == nil || age < lostFor || age >= c.o.MaxAge {
			continue
		}
		lost[l.Cluster] = true
		o := c.outages[l.Cluster]
		if o == nil || !o.lost.Equal(l.Lost) {
			o = &outage{lost: l.Lost}
			c.outages[l.Cluster] = o
		}
		due = due || o.due()
	}
	for name := range c.outages {
		if !lost[name] {
			delete(c.outages, name)
		}
	}
	return due
}

func (o *outage) due() bool { return !o.copied && !time.Now().Before(o.next) }

// failed schedules another attempt to copy the lost cluster.
func (o *outage) failed(problem string) {
	o.problem = problem
	o.next = time.Now().Add(min(firstRetry<<min(o.failures, 10), maxRetry))
	o.failures++
}

// work contains the tasks of the leader.
type work struct {
	write  []clusterstore.LinkedCache
	remove []*generation
	kept   map[federation.ClusterName]int64 // bytes of the generations that stay
}

// room returns how many bytes a new generation of a cluster may have. The older generations of the
// cluster do not count, because they are deleted once the new one is complete.
func (w *work) room(name federation.ClusterName) int64 {
	room := int64(maxAll)
	for other, n := range w.kept {
		if other != name {
			room -= n
		}
	}
	return room
}

func (w *work) empty() bool { return len(w.write)+len(w.remove) == 0 }

// plan lists the copies, and decides which copies to write and which copies to delete. The version
// argument is the resource version for the list request.
func (c *Copies) plan(ctx context.Context, links []clusterstore.LinkedCache, version string) *work {
	all, err := c.list(ctx, clusterLabel, version)
	if ctx.Err() == nil { // otherwise err is not a problem of the API server
		c.setProblem(err)
	}
	w := &work{kept: make(map[federation.ClusterName]int64)}
	if err != nil {
		c.pauseAfter(err)
		return w
	}
	c.next = time.Now().Add(listEvery)
	c.decide(w, all, links)
	c.setMissing()
	return w
}

// decide compares the generations, the newest first, with the links. A generation is up to date if it
// was written during the present outage, of the cluster that the link has now.
func (c *Copies) decide(w *work, all []*generation, links []clusterstore.LinkedCache) {
	known := make(map[federation.ClusterName]*clusterstore.LinkedCache)
	for i := range links {
		known[links[i].Cluster] = &links[i]
	}
	for _, o := range c.outages {
		o.copied = false
	}
	complete := make(map[federation.ClusterName]bool) // clusters with a complete generation
	for _, g := range all {
		l := known[g.Cluster]
		superseded := complete[g.Cluster] || !g.complete() && time.Since(g.Written) > readyFor
		complete[g.Cluster] = complete[g.Cluster] || g.complete()
		if l == nil || superseded || time.Since(g.Lost) >= c.o.MaxAge || isOver(g, l) {
			w.remove = append(w.remove, g)
			continue
		}
		w.kept[g.Cluster] += g.Bytes
		o := c.outages[g.Cluster]
		if o == nil || !g.complete() || g.Identity != l.Identity || g.Server != l.Server {
			continue
		}
		o.copied = !g.Written.Before(o.lost)
		if next := g.Written.Add(readyFor); next.After(o.next) { // the cluster may come and go
			o.next = next
		}
	}
	for _, l := range links {
		if o := c.outages[l.Cluster]; o != nil && o.due() {
			w.write = append(w.write, l)
		}
	}
}

// isOver reports whether the outage that led to a generation is over. If the cluster was ready in
// this replica when the copy was written, the replica cannot know, because another replica had lost
// the cluster.
func isOver(g *generation, l *clusterstore.LinkedCache) bool {
	return l.State == cluster.Ready && time.Since(l.Since) >= readyFor && l.Since.After(g.Written)
}

// pauseAfter schedules the next list after a failed request.
func (c *Copies) pauseAfter(err error) {
	pause := firstRetry
	if apierrors.IsForbidden(err) {
		pause = refusedPause
	}
	c.next = time.Now().Add(pause)
}

func (c *Copies) currentProblem() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.problem
}

// setMissing records which lost clusters have no copy, so that Status can report these clusters.
func (c *Copies) setMissing() {
	missing := make(map[federation.ClusterName]string)
	for name, o := range c.outages {
		switch {
		case o.copied:
		case o.problem != "":
			missing[name] = o.problem
		case time.Since(o.lost) > lostFor+2*campaignTime:
			missing[name] = "no replica could become the leader and write it"
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.missing = missing
}

// setProblem records why copies cannot be listed, so that Status can report the reason. If err is
// nil, copies can be listed. When err becomes nil or non-nil, setProblem logs a message.
func (c *Copies) setProblem(err error) {
	c.mu.Lock()
	before := c.problem
	c.problem = err
	c.mu.Unlock()
	switch {
	case (before == nil) == (err == nil):
	case err == nil:
		c.o.Log.Info("copies of lost clusters can be listed again")
	case c.o.MaxAge > 0:
		c.o.Log.Warn("copies of lost clusters cannot be listed, so newly started replicas "+
			"do not serve a cluster whose API is unreachable", zap.Error(err))
	}
}

// campaign tries to become the leader. As the leader, the replica does the work.
func (c *Copies) campaign(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	limit := time.AfterFunc(campaignTime, stop)
	defer limit.Stop()
	begin := func(l *lease.Leadership) *lease.Leadership { return l }
	return c.candidate.Run(ctx, begin, func(ctx context.Context, leader *lease.Leadership) {
		limit.Stop()
		c.lead(ctx, leader)
		stop()
	})
}

// lead does the work once. The lead method first makes a new plan, because another leader may have
// done the work in the meantime.
func (c *Copies) lead(ctx context.Context, leader *lease.Leadership) {
	links, _ := c.caches()
	c.note(links)
	w := c.plan(ctx, links, newest)
	for i := range w.write {
		l := &w.write[i]
		if ctx.Err() != nil {
			return
		}
		o := c.outages[l.Cluster]
		n, err := c.write(ctx, leader, l, w.room(l.Cluster))
		if err != nil {
			c.o.Log.Warn("a lost cluster could not be copied", zap.Stringer("cluster", l.Cluster), zap.Error(err))
			o.failed(err.Error())
			continue
		}
		o.copied = true
		w.kept[l.Cluster] = n
		c.o.Log.Info("saved a copy of an unreachable cluster: replicas that start now serve this copy",
			zap.Stringer("cluster", l.Cluster), zap.Int64("bytes", n))
	}
	for _, g := range w.remove {
		if err := c.remove(ctx, leader, g); err != nil {
			c.o.Log.Warn("a copy of a cluster could not be deleted",
				zap.Stringer("cluster", g.Cluster), zap.Error(err))
			c.pauseAfter(err)
		}
	}
	c.setMissing()
}

// write writes a new generation, and returns its size in bytes. The limit argument is the maximum
// size of the generation in bytes.
func (c *Copies) write(
	ctx context.Context, leader *lease.Leadership, l *clusterstore.LinkedCache, limit int64,
) (int64, error) {
	made := l.Copy
	made.Lists = make(map[string][]byte)
	room := int64(maxCopy)
	buffers := make(map[string]*buffer)
	err := l.Write(func(resource string) io.Writer {
		buffers[resource] = &buffer{room: &room}
		return buffers[resource]
	})
	if err != nil {
		return 0, err
	}
	for resource, b := range buffers {
		made.Lists[resource] = b.Bytes()
	}
	n := maxCopy - room
	if n > limit {
		return 0, fmt.Errorf("all copies together would be larger than %d MiB", maxAll>>20)
	}
	all := pack(made, time.Now())
	if len(all[0].Annotations[headAnnotation]) > maxHead { // no replica would read the copy
		return 0, errors.New("the identity or the server of the cluster is too long for a copy")
	}
	for _, m := range all {
		if err := c.limiter.Wait(ctx); err != nil {
			return 0, err
		}
		err := c.request(leader, func(ctx context.Context) error {
			_, err := c.o.Client.ConfigMaps(c.o.Namespace).Create(ctx, m, metav1.CreateOptions{})
			return err
		})
		if err != nil {
			return 0, fmt.Errorf("write ConfigMap %s: %w", m.Name, err)
		}
	}
	return n, nil
}

// remove deletes the ConfigMaps of a generation.
func (c *Copies) remove(ctx context.Context, leader *lease.Leadership, g *generation) error {
	for _, name := range g.names {
		if err := c.limiter.Wait(ctx); err != nil {
			return err
		}
		err := c.request(leader, func(ctx context.Context) error {
			return c.o.Client.ConfigMaps(c.o.Namespace).Delete(ctx, name, metav1.DeleteOptions{})
		})
		if err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	return nil
}

// request sends a single request if this replica is still the leader.
func (c *Copies) request(leader *lease.Leadership, send func(context.Context) error) error {
	return leader.Write(func(ctx context.Context) error {
		ctx, stop := context.WithTimeout(ctx, requestTimeout)
		defer stop()
		return send(ctx)
	})
}

// buffer is a writer that accepts a limited number of bytes.
type buffer struct {
	bytes.Buffer
	room *int64 // shared by the lists of a copy
}

func (b *buffer) Write(data []byte) (int, error) {
	if *b.room -= int64(len(data)); *b.room < 0 {
		return 0, fmt.Errorf("its copy would be larger than %d MiB", maxCopy>>20)
	}
	return b.Buffer.Write(data)
}

// Refused returns the requests that the API server rejects. If copies are disabled, Refused does
// not return any requests, because the rejected requests do not matter.
func (c *Copies) Refused() []adminapi.RefusedRequest {
	if c.o.MaxAge == 0 {
		return nil
	}
	return c.o.Client.Server().Refused
}

// Missing returns the metric of the number of lost clusters without a copy.
func (c *Copies) Missing() prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "isthmus_cluster_copies_missing",
		Help: "Number of lost clusters without a saved copy, which newly started replicas cannot serve.",
	}, func() float64 { return float64(len(c.Status().Missing)) })
}

// Status returns the current state of the copies.
func (c *Copies) Status() adminapi.CacheCopies {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := adminapi.CacheCopies{Off: c.o.MaxAge == 0, LeaseError: c.candidate.Status().Problem}
	if c.problem != nil {
		s.Error = c.problem.Error()
	}
	for name, why := range c.missing {
		s.Missing = append(s.Missing, adminapi.MissingCopy{Cluster: string(name), Reason: why})
	}
	slices.SortFunc(s.Missing, func(a, b adminapi.MissingCopy) int {
		return bytes.Compare([]byte(a.Cluster), []byte(b.Cluster))
	})
	return s
}
