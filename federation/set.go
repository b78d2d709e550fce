package federation

import (
	"net/netip"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// Client is the part of a request that changes the answer. An empty field is
// unknown, or not part of the request.
type Client struct {
	Zone     string // the client's zone: topology.kubernetes.io/zone of its node
	Node     string // the client's node
	Instance string // the requested hostname, as in <hostname>.<service>.<namespace>
}

// Key is a service port and the part of a client that changes the answer. Watches
// of equal keys get the same sets.
type Key struct {
	Service ServiceID
	Port    uint16
	Client  Client
}

func (k Key) String() string { return k.Service.String() + ":" + strconv.Itoa(int(k.Port)) }

// Set is what one kind of client sees of one service port. It never changes
// once published.
type Set struct {
	Version  uint64 // one more than the Set it replaced
	Exists   bool   // the service is defined and, for remote discovery, its remote Service too
	Complete bool   // no member's cluster is pending
	// ByNode is set if internalTrafficPolicy is Local. If the Key in use has no node, and the client has one, call
	// Table.Key again.
	ByNode     bool
	Hinted     bool        // node hints have chosen the endpoints, for the node of the Key
	Undeclared bool        // all members are known, one of them serves, and none declares the port
	Reason     Reason      // None unless Endpoints is empty
	Cluster    ClusterName // with NotLinked: the cluster that is not linked
	Changed    time.Time   // when the newest change happened in its cluster, for metrics; zero: not known
	Origin     ClusterName // with Changed: the cluster
	Endpoints  []*Endpoint // sorted by Addr, one per Addr; unchanged endpoints keep their pointer
	// Members is how many members the service has, serving or not. A set that differs in nothing else is not
	// published.
	Members int

	hinted   map[string][]*Endpoint // if the Key has no node: the nodes for which node hints choose endpoints
	steering *Latest[*steering]     // see Tiers
}

// Reason is why a set has no endpoints, if the service is more than just empty.
type Reason uint8

const (
	// None: the set has endpoints, or the service exists and is empty.
	None Reason = iota
	// Undefined: no such service is defined.
	Undefined
	// NoRemoteService: a mirror without the name of its remote Service.
	NoRemoteService
	// NotLinked: its only cluster is not linked.
	NotLinked
	// External: the service, or the one that a mirror names, is of type
	// ExternalName.
	External
	// Unknown: a member's cluster is pending or unreachable, and no other member
	// offers endpoints. The service may have some.
	Unknown
	// TooManyPorts: MaxUndeclaredPorts other ports of the service are watched, and no
	// member is known to declare this one. The set is not for a client that is served
	// already, and no other set follows.
	TooManyPorts
)

// newTooManyPorts returns a set that is never replaced, with the reason TooManyPorts. ByNode
// keeps its client from looking for another Key.
func newTooManyPorts(c Client) *Latest[*Set] {
	latest := new(Latest[*Set])
	latest.Set(&Set{
		Version: 1, Exists: true, Complete: true, ByNode: c.Node != "", Reason: TooManyPorts,
		steering: new(Latest[*steering]),
	})
	return latest
}

// HintedTo reports whether node hints choose endpoints for the clients on a node. If the Key of the set has a
// node, it must be that one. If HintedTo or ByNode is true, the Key of these clients has their node. While
// the table publishes a change, the set of the Key without node is the first of the two that is right.
func (s *Set) HintedTo(node string) bool {
	return s.Hinted || node != "" && s.hinted[node] != nil
}

// Tiers returns those of the set's service now, and a channel that is closed once they
// change: that changes no set.
func (s *Set) Tiers() (Tiers, <-chan struct{}) {
	st, changed := s.steering.Get()
	return Tiers{st}, changed
}

// Tiers knows which tier of the service's preference each endpoint of a set belongs to.
// The zero value knows none. Values are comparable: they differ if any tier or standing
// does.
type Tiers struct{ by *steering }

// Of returns the tier, in words, for which clients in that zone get an endpoint, and its
// cluster's standing. It is not ok if clients simply get everything.
func (t Tiers) Of(e *Endpoint, zone string) (tier string, standing Standing, ok bool) {
	if t.by == nil {
		return "", InService, false
	}
	i := t.by.tierOf(e, zone)
	if i == t.by.unnamed() {
		return "", InService, false // the set is about to be replaced
	}
	return t.by.preference.tierName(i), t.by.byCluster[e.Cluster].standingOf(e), true
}

// equal reports whether two sets have the same content for clients. Members and the cause of the change do not count.
func (s *Set) equal(o *Set) bool {
	return s.Exists == o.Exists &&
		s.Complete == o.Complete &&
		s.ByNode == o.ByNode &&
		s.Hinted == o.Hinted &&
		sameNodes(s.hinted, o.hinted) &&
		s.Undeclared == o.Undeclared &&
		s.Reason == o.Reason &&
		s.Cluster == o.Cluster &&
		same(s.Endpoints, o.Endpoints)
}

// Diff returns the step from one set's endpoints to another's: the endpoints to
// add, which are new or have changed, and the addresses to remove. A nil from is an
// empty set. Both results are sorted by address and share memory with neither set.
// Exists and Reason may differ while Diff is empty.
func Diff(from, to *Set) (added []*Endpoint, removed []netip.AddrPort) {
	var before []*Endpoint
	if from != nil {
		before = from.Endpoints
	}
	forEachChange(before, to.Endpoints, func(old, new *Endpoint) {
		switch {
		case new == nil:
			removed = append(removed, old.Addr)
		case old == nil || !old.Equal(new):
			added = append(added, new)
		}
	})
	return added, removed
}

// sameNodes reports whether two maps have the same nodes.
func sameNodes(a, b map[string][]*Endpoint) bool {
	if len(a) != len(b) {
		return false
	}
	for node := range a {
		if _, ok := b[node]; !ok {
			return false
		}
	}
	return true
}

// Latest holds the newest value of something. Its zero value holds T's zero
// value. All methods may be called at any time by any goroutine; none blocks.
type Latest[T any] struct {
	p atomic.Pointer[cell[T]]
}

type cell[T any] struct {
	value    T
	replaced chan struct{}
}

// Get returns the newest value, and a channel that is closed once that value has
// been replaced.
func (l *Latest[T]) Get() (T, <-chan struct{}) {
	c := l.p.Load()
	for c == nil {
		l.p.CompareAndSwap(nil, &cell[T]{replaced: make(chan struct{})})
		c = l.p.Load()
	}
	return c.value, c.replaced
}

// Set replaces the value, and then wakes all goroutines that wait on the channel
// of the old one. They find v, or a newer value.
func (l *Latest[T]) Set(v T) {
	if old := l.p.Swap(&cell[T]{value: v, replaced: make(chan struct{})}); old != nil {
		close(old.replaced)
	}
}

// Watch reads the newest value of something that is kept up to date only while
// it is watched. All methods may be called at any time by any goroutine.
type Watch[T any] struct {
	latest *Latest[T]
	once   sync.Once
	close  func()
}

// NewWatch returns a watch of latest. The first Close calls closed.
func NewWatch[T any](latest *Latest[T], closed func()) *Watch[T] {
	return &Watch[T]{latest: latest, close: closed}
}

// Get returns the newest value, and a channel that is closed once that value has
// been replaced. After Close it goes on returning the last value.
func (w *Watch[T]) Get() (T, <-chan struct{}) { return w.latest.Get() }

// Close ends the watch. It may be called more than once. It does not wake
// goroutines that wait on a channel from Get.
func (w *Watch[T]) Close() { w.once.Do(w.close) }
