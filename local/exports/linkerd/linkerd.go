package linkerd

import (
	"context"
	"fmt"
	"sync"
	"time"

	coordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"

	"isthmus/clusterstore/decode"
	"isthmus/internal/pace"
	"isthmus/local/exports/plan"
)

const (
	// pollEvery is how often Leases are read. Those of Linkerd's service mirrors last 30 s.
	pollEvery = 5 * time.Second
	// settleTime is how long nothing of linked clusters is added or removed after a cluster has got other selectors:
	// what was asked for before may be selected by the ones before.
	settleTime = time.Second
)

// Options are a Mirrors'. All are needed.
type Options struct {
	Sources       decode.Sources // of the own cluster
	Leases        func(namespace string) coordinationv1.LeaseInterface
	Printable     func(error) error // cleans what is shown of errors
	Namespace     string            // where the Links and Leases are
	UnlinkedAfter time.Duration
	// SelectorsChanged is called when [Mirrors.Selectors] returns others for a cluster than before. It must not block.
	SelectorsChanged func(cluster string)
	// Changed is called when Complete may do something else than before. It is called within 5 s for what time alone
	// changes. It must not block.
	Changed func()
}

// Mirrors is what is known of Linkerd's service mirrors.
type Mirrors struct {
	o Options // fixed

	mu        sync.Mutex // guards the rest
	leases    map[string]lease
	leasesErr error
	// since when Leases are read, without a gap in which one may have been held; zero: they never
	// were
	readSince time.Time
	lastRead  time.Time        // when they were last
	there     map[string]*link // by key
	links     []*link          // those, the oldest first, and then those that have gone, the newest of these first
	linksErr  error
	listed    bool      // links are those that there are, or were
	known     bool      // they are, or it is known that they may not be read
	settled   time.Time // when selectors have changed
}

// New returns a Mirrors that knows nothing yet.
func New(o Options) *Mirrors { return &Mirrors{o: o} }

// Run reads Leases and Links until ctx ends.
func (m *Mirrors) Run(ctx context.Context) {
	m.readLeases(ctx)
	var links sync.WaitGroup
	links.Go(func() { m.followLinks(ctx) })
	for pace.Sleep(ctx, pollEvery) {
		m.readLeases(ctx)
	}
	links.Wait()
}

// update makes a change, and calls Changed if there is a difference.
func (m *Mirrors) update(change func(now time.Time) (tell bool)) {
	m.mu.Lock()
	now := time.Now()
	tell := change(now)
	selectors := m.choose(now)
	if len(selectors) > 0 {
		m.settled = now.Add(settleTime)
		time.AfterFunc(settleTime, m.o.Changed)
	}
	m.mu.Unlock()
	for _, cluster := range selectors {
		m.o.SelectorsChanged(cluster)
	}
	if tell {
		m.o.Changed()
	}
}

// Selectors returns those of a linked cluster.
func (m *Mirrors) Selectors(cluster string) plan.Selectors {
	m.mu.Lock()
	defer m.mu.Unlock()
	return deciding(m.links, cluster).selectors
}

// Complete sets of a cluster what Linkerd's objects have: its Lease, its Age if it has a Link, and that it is
// Unreadable what it joins.
func (m *Mirrors) Complete(c *plan.Cluster) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	if c.Name == "" {
		c.Lease = m.lease(ownLease, now)
		return
	}
	c.Lease = m.lease(linkLease+c.Name, now)
	for _, l := range m.links {
		if l.cluster == c.Name {
			c.Lease = max(c.Lease, m.lease(linkLease+l.name, now))
		}
	}
	l := deciding(m.links, c.Name)
	if l != defaults {
		c.Age = l.created
	}
	if (!m.known || l.unread || now.Before(m.settled)) && c.Joins != plan.JoinsNone {
		c.Joins = plan.Unreadable
	}
}

// Notes are for people: what can't be read.
func (m *Mirrors) Notes() (all []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.leasesErr != nil {
		all = append(all, fmt.Sprintf(
			"the Leases of Linkerd's service mirrors in namespace %s can't be read, so what these wrote is left "+
				"alone: %v",
			m.o.Namespace,
			m.o.Printable(m.leasesErr),
		))
	}
	if m.linksErr != nil {
		instead := "nothing of linked clusters is added or removed"
		if m.known {
			instead = "what was read before, or else Linkerd's own labels, select exports"
		}
		all = append(all, fmt.Sprintf(
			"Linkerd's Links in namespace %s can't be read, so %s: %v",
			m.o.Namespace,
			instead,
			m.o.Printable(m.linksErr),
		))
	}
	for _, l := range m.links {
		if l.problem != "" {
			all = append(all, fmt.Sprintf(
				"Link %s/%s can't be read, so what was read before selects exports of cluster %s, or else nothing "+
					"of it is added or removed: %s",
				m.o.Namespace,
				l.name,
				l.cluster,
				l.problem,
			))
		}
	}
	return all
}
