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
	// pollEvery is the time between reads of Leases. The Leases of Linkerd's service mirrors expire
	// after 30 s.
	pollEvery = 5 * time.Second
	// settleTime is how long after a change of selectors Isthmus neither adds nor removes objects
	// for linked clusters. Exports that were read before the change may match the previous
	// selectors.
	settleTime = time.Second
)

// Options configure a Mirrors. All fields are required.
type Options struct {
	Sources       decode.Sources // of the local cluster
	Leases        func(namespace string) coordinationv1.LeaseInterface
	Printable     func(error) error // makes an error safe to display
	Namespace     string            // namespace of the Links and Leases
	UnlinkedAfter time.Duration
	// SelectorsChanged is called when the result of [Mirrors.Selectors] changes for a cluster. It
	// must not block.
	SelectorsChanged func(cluster string)
	// Changed is called when the effect of Complete may have changed. If the effect changes only
	// because time passes, Changed is called within 5 s. It must not block.
	Changed func()
}

// Mirrors holds the state of Linkerd's service mirrors.
type Mirrors struct {
	o Options // fixed after construction

	mu        sync.Mutex // guards the rest
	leases    map[string]lease
	leasesErr error
	// readSince is the start of the period in which Leases were read without a long gap. Zero means
	// that Leases were never read. During a long gap, a mirror can acquire and release a Lease
	// unnoticed.
	readSince time.Time
	lastRead  time.Time        // last read of Leases
	there     map[string]*link // existing Links by key
	links     []*link          // existing Links, oldest first, then deleted Links, latest deletion first
	linksErr  error
	listed    bool      // Links have been listed, or the kind does not exist
	known     bool      // listed is true, or permission is missing
	settled   time.Time // when the last change of selectors has been applied
}

// New returns a Mirrors that has read nothing yet.
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

// update calls the function change with m.mu held. Afterwards, update calls Options.Changed and
// Options.SelectorsChanged as needed.
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

// Selectors returns the selectors of a linked cluster.
func (m *Mirrors) Selectors(cluster string) plan.Selectors {
	m.mu.Lock()
	defer m.mu.Unlock()
	return deciding(m.links, cluster).selectors
}

// Complete sets the fields of a cluster that depend on Linkerd's objects. Complete sets the
// cluster's Lease and, if the cluster has a Link, its Age. While Isthmus must not add or remove
// exports of the cluster, Complete sets Joins to plan.Unreadable.
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

// Notes returns messages for users about objects that cannot be read.
func (m *Mirrors) Notes() (all []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.leasesErr != nil {
		all = append(all, fmt.Sprintf(
			"the Leases of Linkerd's service mirrors in namespace %s cannot be read, "+
				"so the Services that the service mirrors wrote stay unchanged: %v",
			m.o.Namespace,
			m.o.Printable(m.leasesErr),
		))
	}
	if m.linksErr != nil {
		instead := "objects for linked clusters are neither added nor removed"
		if m.known {
			instead = "the Links read before, or else Linkerd's default labels, select exports"
		}
		all = append(all, fmt.Sprintf(
			"Linkerd's Links in namespace %s cannot be read, so %s: %v",
			m.o.Namespace,
			instead,
			m.o.Printable(m.linksErr),
		))
	}
	for _, l := range m.links {
		if l.problem != "" {
			all = append(all, fmt.Sprintf(
				"Link %s/%s cannot be read, so its previous version selects the exports of cluster %s; without a "+
					"previous version, objects for the cluster are neither added nor removed: %s",
				m.o.Namespace,
				l.name,
				l.cluster,
				l.problem,
			))
		}
	}
	return all
}
