package exports

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/utils/ptr"

	"isthmus/clusterstore/decode"
	"isthmus/clusterstore/follow"
	"isthmus/internal/pace"
	"isthmus/local/exports/plan"
)

const (
	// pollEvery is the time between reads of Leases. The Leases of Linkerd's service mirrors expire
	// after 30 s.
	pollEvery = 5 * time.Second
	// After selectors change, Isthmus neither adds nor removes objects for linked clusters until
	// settleTime has passed. Exports that were read before the selectors changed may match only the
	// previous selectors.
	settleTime = time.Second

	pollTimeout     = 10 * time.Second
	maxLeases       = 5_000
	mirrorLeaseTime = 30 * time.Second // duration of the Leases of Linkerd's service mirrors
	maxLinks        = 64 << 20         // maximum memory for all Links, in bytes

	localLease = "local-service-mirror-write"
	linkLease  = "service-mirror-write-" // followed by the name of the Link or link
)

type MirrorsOptions struct {
	Sources       decode.Sources // of the local cluster
	Leases        func(namespace string) coordinationv1.LeaseInterface
	Printable     func(error) error // makes an error safe to display
	Namespace     string            // namespace of the Links and Leases
	UnlinkedAfter time.Duration
	// SelectorsChanged is called when the result of [Mirrors.Selectors] changes for a cluster.
	// SelectorsChanged must not block.
	SelectorsChanged func(cluster string)
	// Changed is called when the values that [Mirrors.Complete] sets for a cluster may have
	// changed. If the values change merely because time has passed, Changed is called within 5 s.
	// Changed must not block.
	Changed func()
}

type mirrorLease struct {
	renewed metav1.MicroTime // by the holder's clock
	until   time.Time        // end of the Lease without another renewal
}

// Mirrors holds the state of Linkerd's service mirrors, which it reads from their Leases and Links.
// Call Run once. Methods other than Run are safe for concurrent use and do not block.
type Mirrors struct {
	o MirrorsOptions // fixed after construction

	mu        sync.Mutex // guards the rest
	leases    map[string]mirrorLease
	leasesErr error
	// readSince is the time since which Leases have been read without a long gap. If Leases have
	// never been read, readSince is zero. If two reads are far apart, a service mirror can acquire
	// and release a Lease between the reads without being noticed.
	readSince time.Time
	lastRead  time.Time               // last read of Leases
	there     map[string]*linkerdLink // existing Links by key
	links     []*linkerdLink          // existing Links, oldest first, then deleted Links, latest deletion first
	linksErr  error
	listed    bool      // Links have been listed, or the kind does not exist
	known     bool      // listed is true, or permission is missing
	settled   time.Time // when the last change of selectors has been applied
}

func NewMirrors(o MirrorsOptions) *Mirrors { return &Mirrors{o: o} }

func (m *Mirrors) Run(ctx context.Context) {
	m.readLeases(ctx)
	var links sync.WaitGroup
	links.Go(func() { m.followLinks(ctx) })
	for pace.Sleep(ctx, pollEvery) {
		m.readLeases(ctx)
	}
	links.Wait()
}

// The given function is called while m.mu is locked. SelectorsChanged and Changed are called after
// m.mu has been unlocked.
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

func (m *Mirrors) readLeases(ctx context.Context) {
	ctx, stop := context.WithTimeout(ctx, pollTimeout)
	defer stop()
	list, err := m.o.Leases(m.o.Namespace).List(ctx, metav1.ListOptions{Limit: maxLeases})
	if err == nil && list.Continue != "" {
		err = fmt.Errorf("there are more than %d", maxLeases)
	}
	m.update(func(now time.Time) bool {
		switch m.leasesErr = err; {
		case err != nil:
			return true
		case now.Sub(m.lastRead) > mirrorLeaseTime: // a Lease may have been held and have ended in between
			m.readSince = now
		}
		m.lastRead = now
		seen := make(map[string]mirrorLease)
		for i := range list.Items {
			l, s := m.leases[list.Items[i].Name], &list.Items[i].Spec
			if held := ptr.Deref(s.HolderIdentity, "") != "" &&
				s.RenewTime != nil; held && !l.renewed.Equal(s.RenewTime) {
				l = mirrorLease{
					*s.RenewTime,
					now.Add(max(2*pollEvery, time.Duration(ptr.Deref(s.LeaseDurationSeconds, 0))*time.Second)),
				}
			} else if !held {
				continue
			}
			seen[list.Items[i].Name] = l
		}
		past := now.Add(-m.o.UnlinkedAfter - 2*pollEvery) // Leases that ended earlier have no effect
		for name, l := range m.leases {
			if _, ok := seen[name]; !ok && l.until.After(past) {
				if l.until.After(now) { // the Lease was released
					l.until = now
				}
				seen[name] = l
			}
		}
		m.leases = seen
		tell := m.readSince.After(past)
		for _, l := range seen {
			tell = tell || l.until.After(past)
		}
		return tell
	})
}

// The caller holds m.mu.
func (m *Mirrors) lease(name string, now time.Time) plan.Lease {
	until := m.leases[name].until
	switch {
	// A mirror releases its Lease when it restarts.
	case now.Before(until), !until.IsZero() && now.Sub(until) < m.o.UnlinkedAfter:
		return plan.Held
	case m.leasesErr != nil || m.readSince.IsZero() || !m.listed || now.Sub(m.readSince) < m.o.UnlinkedAfter:
		return plan.Unknown
	}
	return plan.Free
}

func (m *Mirrors) followLinks(ctx context.Context) {
	all := make(follow.Map[*linkerdLink])
	limit := follow.NewMemoryCap(maxLinks)
	follow.NewGroup(follow.Options{Memory: limit}, follow.New(follow.Kind[*decode.Link, *linkerdLink]{
		Name:    "links",
		Source:  m.o.Sources.Links(m.o.Namespace),
		Serves:  m.servesLinks,
		Compact: readLink,
		Into:    all,
		Size:    (*linkerdLink).size,
		Same:    func(a, b *linkerdLink) bool { return a.version == b.version && a.version != "" },
		Applied: func() {
			m.update(func(time.Time) bool {
				was, first := m.there, !m.listed
				m.there = maps.Clone(all)
				m.listed = true
				m.known = true
				return first || !maps.Equal(was, all)
			})
		},
		Report: func(err error) {
			m.update(func(time.Time) bool {
				tell := (err == nil) != (m.linksErr == nil) || !m.known
				m.linksErr = err // Applied follows and brings the Links
				m.known = m.known || apierrors.IsForbidden(err)
				return tell
			})
		},
	})).Run(ctx, nil)
}

func (m *Mirrors) servesLinks(ctx context.Context) (bool, error) {
	there, err := m.o.Sources.Serves(ctx, "links", decode.LinkVersions...)
	if !there && err == nil {
		m.update(func(time.Time) bool {
			m.known = true
			m.listed = true
			return true
		})
	}
	return there, err
}

// The choose method updates the selectors in force and returns the clusters whose selectors have
// changed. The caller holds m.mu.
func (m *Mirrors) choose(now time.Time) (changed []string) {
	before := m.links
	byName := make(map[string]*linkerdLink)
	for _, l := range before {
		byName[l.name] = l
	}
	m.links = nil
	for _, l := range m.there {
		old := cmp.Or(byName[l.name], defaultLink)
		if l.problem != "" && old != l {
			l.spec = old.spec
			l.selectors = old.selectors
			l.unread = old.unread || old == defaultLink
		}
		m.links = append(m.links, l)
		delete(byName, l.name)
	}
	slices.SortFunc(m.links, func(a, b *linkerdLink) int {
		return cmp.Or(a.created.Compare(b.created), cmp.Compare(a.name, b.name))
	})
	for _, l := range before {
		if byName[l.name] == l && l.gone.IsZero() {
			l.gone = now
		}
		if byName[l.name] == l && now.Sub(l.gone) < m.o.UnlinkedAfter {
			m.links = append(m.links, l)
		}
	}
	for _, l := range slices.Concat(before, m.links) {
		if is := decidingLink(m.links, l.cluster); !reflect.DeepEqual(is.spec, decidingLink(before, l.cluster).spec) &&
			!slices.Contains(changed, l.cluster) {
			changed = append(changed, l.cluster)
		}
	}
	return changed
}

func (m *Mirrors) Selectors(cluster string) plan.Selectors {
	m.mu.Lock()
	defer m.mu.Unlock()
	return decidingLink(m.links, cluster).selectors
}

// Complete fills in the Lease field of a cluster. If the cluster has a Link, Complete also stores
// the Link's creation time in the Age field. If the cluster's selectors are unknown, or if the
// selectors of any cluster changed less than a second ago, Complete also sets Joins to
// plan.Unreadable, unless Joins is plan.JoinsNone.
func (m *Mirrors) Complete(c *plan.Cluster) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	if c.Name == "" {
		c.Lease = m.lease(localLease, now)
		return
	}
	c.Lease = m.lease(linkLease+c.Name, now)
	for _, l := range m.links {
		if l.cluster == c.Name {
			c.Lease = max(c.Lease, m.lease(linkLease+l.name, now))
		}
	}
	l := decidingLink(m.links, c.Name)
	if l != defaultLink {
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
			instead = "exports are selected by previously read Links or by Linkerd's default labels"
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
				"Link %s/%s cannot be read, so its last valid version selects the exports of cluster %s; "+
					"if this replica has read no valid version, no objects for the cluster are added or removed: %s",
				m.o.Namespace,
				l.name,
				l.cluster,
				l.problem,
			))
		}
	}
	return all
}
