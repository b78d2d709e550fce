package federation

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// MaxUndeclaredPorts is how many ports of a service may be watched that no member is known to
// declare. A client may ask for any port, and each port is read and merged by itself.
const MaxUndeclaredPorts = 64

// watchedService is a service that has at least one watch.
type watchedService struct {
	table  *Table // fixed, as are id, number and again
	id     ServiceID
	number uint32 // in Table.numbered
	again  func() // rebuilds the service, under supervision

	refs   int         // under table.mu: its watches
	byNode atomic.Bool // its sets depend on the client's node

	// mu is held while sources are read, and while the result is merged and
	// published.
	mu      sync.Mutex
	ports   map[uint16]*port
	broken  bool // a panic has left ports half changed: see restore
	steered bool // a port is, or has been when settle was called last
	tiers   tierReport
}

// port is one watched port of a service: what its members offer, the merged list,
// and the sets published from it.
type port struct {
	number    uint16
	members   []contribution // in definition order
	steering  *steering      // nil: clients get everything
	offers    offers         // of the members, without what is refused or withdrawn: see steering.offers
	merged    []*Endpoint
	unready   []*Endpoint // known besides merged, if that makes a difference
	contested contested   // among the offers
	summary   summary
	hinted    hintIndex               // of merged, or of what is in use of it
	audiences map[string]audience     // by the name of the instance that clients ask for; empty: the whole service
	returning map[*published]struct{} // clients for whom a tier leaves by itself: see tierView.due
}

func newPort(number uint16) *port {
	return &port{number: number, audiences: make(map[string]audience), returning: make(map[*published]struct{})}
}

// origin is the cluster and the time of the change that causes sets to be
// published. The zero value: not one cluster's change, but a definition or a link.
type origin struct {
	cluster ClusterName
	at      time.Time
}

// summary is what all sets of a port have in common.
type summary struct {
	exists, complete, byNode, undeclared bool
	reason                               Reason      // of sets without endpoints
	cluster                              ClusterName // that the reason is about
}

func newWatchedService(t *Table, id ServiceID, number uint32) *watchedService {
	s := &watchedService{table: t, id: id, number: number, ports: make(map[uint16]*port)}
	s.again = func() { t.rebuild(s) }
	return s
}

// locked calls f with s.mu held. If f panics, the service is broken.
func (s *watchedService) locked(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	done := false
	defer func() { s.broken = s.broken || !done }()
	f()
	done = true
}

// isBroken reports whether the service is broken. It waits for the end of an update.
func (s *watchedService) isBroken() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.broken
}

// publishLocked calls f, which publishes a change, with s.mu held. If the service is broken,
// publishLocked restores the service instead, which publishes all changes.
func (s *watchedService) publishLocked(f func()) {
	s.locked(func() {
		if s.broken {
			f = s.restore
		}
		f()
	})
}

// restore rebuilds a broken service from scratch. It uses only the watches and the sets that were
// published last, because a panic may have left everything else half changed.
func (s *watchedService) restore() {
	s.table.offered.forget(s.number)
	in := s.table.inputs(s.id)
	for number, p := range s.ports {
		p.removeUnwatched()
		if len(p.audiences) == 0 {
			delete(s.ports, number)
			s.table.countUpdates(number, p.members, nil)
			continue
		}
		for _, to := range p.all() {
			to.tiers = nil // it begins anew, with what clients have
		}
		clear(p.returning)
		p.hinted = hintIndex{}
		s.rebuildPort(p, in, true)
	}
	s.steered = true // settle finds out
	s.settle()
	s.broken = false
}

// watch returns the sets published for the key, and whether unwatch must be called. If nobody
// watches the key yet, watch adds it. If the service is broken, a watched key keeps its set, which
// may be out of date. For a new key, watch restores the service first. If the port is undeclared
// and MaxUndeclaredPorts is reached, watch adds nothing and returns a set with the reason
// TooManyPorts.
func (s *watchedService) watch(k Key) (latest *Latest[*Set], added bool) {
	s.locked(func() {
		to := s.published(k)
		if to == nil {
			to = s.publishFirst(k)
		}
		if to == nil {
			latest = newTooManyPorts(k.Client)
			return
		}
		to.refs++
		latest, added = &to.latest, true
	})
	return latest, added
}

// published returns what is published for a watched key. If the key is not watched, it returns nil.
func (s *watchedService) published(k Key) *published {
	p := s.ports[k.Port]
	if p == nil {
		return nil
	}
	if to := p.audiences[k.Client.Instance].find(k.Client); to != nil && to.refs > 0 {
		return to
	}
	return nil
}

// publishFirst publishes the first set for a key. If the port is undeclared and MaxUndeclaredPorts
// is reached, it returns nil. After a panic in it, restore removes what it has added, which has no
// watches.
func (s *watchedService) publishFirst(k Key) *published {
	if s.broken {
		s.restore()
	}
	p := s.ports[k.Port]
	if p == nil {
		in := s.table.inputs(s.id)
		if in.definition != nil && !in.declare(k.Port) && s.undeclaredPorts() >= MaxUndeclaredPorts {
			return nil
		}
		p = newPort(k.Port)
		s.ports[k.Port] = p
		s.rebuildPort(p, in, false)
	}
	to := p.join(k.Client)
	newPass(p, s.table.opts.IPv6, to).publish(to, s.table.opts.Now(), origin{})
	if k.concernsService(p) {
		s.settle()
	}
	return to
}

// undeclaredPorts counts the watched ports that no member is known to declare. Ports of a pending
// cluster count: the cluster may turn out to declare none of them, and their streams stay open. At
// a start proxies are served once no cluster is pending, so only new links are affected.
func (s *watchedService) undeclaredPorts() (n int) {
	for _, p := range s.ports {
		if !slices.ContainsFunc(p.members, contribution.declares) {
			n++
		}
	}
	return n
}

// unwatch ends one watch of the key, and reports whether settle must be called. A broken service is left to restore.
func (s *watchedService) unwatch(k Key) (unsettled bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.ports[k.Port]
	p.leave(k.Client)
	if s.broken {
		return false
	}
	if len(p.audiences) == 0 {
		delete(s.ports, k.Port)
		s.countOffered(p.members, nil)
		s.table.countUpdates(k.Port, p.members, nil)
	}
	return s.steered && k.concernsService(p)
}

func (s *watchedService) settleLocked() { s.publishLocked(s.settle) }

// concernsService reports whether a watch that begins or has ended may change when the
// service is due, or what is reported of it. Those of one more instance do not: there may be
// any number, and they are due only after something else has changed.
func (k Key) concernsService(p *port) bool {
	return k.Client.Instance == "" || len(p.audiences[""]) == 0 && len(p.audiences) <= 1
}

// rebuild publishes what a new definition, or another link of a member's cluster,
// changes.
func (s *watchedService) rebuild() {
	s.publishLocked(func() {
		in := s.table.inputs(s.id)
		for _, p := range s.ports {
			s.rebuildPort(p, in, false)
		}
		s.settle()
	})
}

// update stores a port's merged list and summary, and publishes what that changes; whole:
// for all clients.
func (s *watchedService) update(p *port, d *Definition, merged []*Endpoint, whole bool, why origin) {
	sum := summarize(d, p.members, p.steering)
	before, unready, all := p.merged, p.unready, whole || sum != p.summary
	if sum.undeclared != p.summary.undeclared {
		s.table.countUpdates(p.number, slices.Clone(p.members), p.members)
	}
	p.merged, p.summary = merged, sum
	s.byNode.Store(sum.byNode)
	p.unready = p.steering.unready(p.offers, merged)
	switch {
	case all:
		s.publish(p, p.all(), why)
	case !same(before, merged) || !same(unready, p.unready):
		s.publish(p, p.concerned(before, unready), why)
	}
}

// same reports whether two lists have the same pointers.
func same(a, b []*Endpoint) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0] || slices.Equal(a, b))
}

// undeclared reports whether no member declares the port, as far as is known.
func undeclared(members []contribution) bool {
	serving := false
	for _, c := range members {
		if c.status.Link == Pending || c.declares() {
			return false
		}
		serving = serving || c.status.Serving()
	}
	return serving
}

// summarize derives a port's summary from its members. A service that is not
// federated is treated as a list of one member or none. While its cluster is withdrawn it
// exists, and is empty, unless it has nothing to withdraw: an ExternalName is elsewhere.
func summarize(d *Definition, members []contribution, st *steering) summary {
	switch {
	case d == nil:
		return summary{complete: true, reason: Undefined}
	case !d.Federated && len(members) == 0:
		return summary{exists: true, complete: true, reason: NoRemoteService}
	}
	sum := summary{exists: true, complete: true, undeclared: undeclared(members)}
	if !d.Federated && st.withdrawn(0) && members[0].status.Service != ExternalName {
		return sum
	}
	for i, c := range members {
		switch {
		case st.unused(i):
		case c.status.Link == Pending:
			sum.complete, sum.reason = false, Unknown
		case c.status.Link == Unreachable:
			sum.reason = Unknown
		case c.member.Cluster == Local && c.status.Service == Present:
			sum.byNode = c.nodeLocal
		}
	}
	if !d.Federated {
		switch s := members[0].status; {
		case s.Link == Unlinked:
			sum.exists, sum.reason, sum.cluster = false, NotLinked, members[0].member.Cluster
		case s.Link == Ready && s.Service == Missing:
			sum.exists = false
		case s.Link == Ready && s.Service == ExternalName:
			sum.reason = External
		}
	}
	return sum
}
