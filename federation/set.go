package federation

import (
	"net/netip"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// Client contains the properties of a client that affect which endpoints the client receives. If a
// property is unknown or not part of the request, its field is empty.
type Client struct {
	Zone     string // value of topology.kubernetes.io/zone of the client's node
	Node     string // name of the client's node
	Instance string // requested hostname, as in <hostname>.<service>.<namespace>
}

// Key identifies one kind of client of a service port. Watches with the same key receive the same
// sets.
type Key struct {
	Service ServiceID
	Port    uint16
	Client  Client
}

func (k Key) String() string { return k.Service.String() + ":" + strconv.Itoa(int(k.Port)) }

// concernsService reports whether opening or closing a watch on the key may affect the reported
// tiers or the schedule of the service. Watching an additional instance affects neither the
// reported tiers nor the schedule.
func (k Key) concernsService(p *port) bool {
	return k.Client.Instance == "" || len(p.audiences[""]) == 0 && len(p.audiences) <= 1
}

// Set contains the endpoints that one kind of client receives for one service port. A Set is
// immutable.
type Set struct {
	Version  uint64 // one more than the version of the previous Set
	Exists   bool   // whether the service is defined; for a mirror, whether its remote Service exists too
	Complete bool   // whether no member's cluster is pending
	// If ByNode is true, the Key must include the client's node (see Table.Key). If the
	// internalTrafficPolicy of a member in the local cluster is Local, ByNode is true.
	ByNode     bool
	Hinted     bool        // whether node hints determined the endpoints for the Key's node
	Undeclared bool        // whether no member declares the port, although all are known and at least one serves
	Reason     Reason      // None unless Endpoints is empty
	Cluster    ClusterName // the cluster that is not linked, if Reason is NotLinked
	Changed    time.Time   // when the newest change happened in its cluster, for metrics; zero if unknown
	Origin     ClusterName // the cluster of the newest change, if Changed is set
	Endpoints  []*Endpoint // sorted by Addr, one per Addr; pointers to unchanged endpoints stay the same
	// Members is the number of members of the service, including members that are not serving. If
	// only Members changes, the table does not publish a new Set.
	Members int

	hinted   map[string][]*Endpoint // by node with endpoints determined by node hints; nil if the Key has a node
	steering *Latest[*steering]     // see Tiers
}

// Reason says why a set contains no endpoints.
type Reason uint8

const (
	// The reason of a set is None if the set contains endpoints, or if no other reason applies. If
	// a set without endpoints has the reason None, Set.Exists says whether the service exists.
	None Reason = iota
	Undefined
	// NoRemoteService means that the service is a mirror that does not specify its remote Service.
	NoRemoteService
	// NotLinked means that the only cluster of the service is not linked.
	NotLinked
	// External means that the service, or the remote Service of a mirror, is of type ExternalName.
	External
	// Unknown means that a member's cluster is pending or unreachable, and that the other members
	// do not offer endpoints.
	Unknown
	// TooManyPorts means that the port is undeclared, and that at least MaxUndeclaredPorts other
	// undeclared ports of the service are already watched. A set with the reason TooManyPorts never
	// changes.
	TooManyPorts
)

// newTooManyPorts returns a Latest that always holds the same set, with the reason TooManyPorts. If
// the client's Key includes a node, ByNode is true. If ByNode were false, the client would switch
// to a Key without a node.
func newTooManyPorts(c Client) *Latest[*Set] {
	latest := new(Latest[*Set])
	latest.Set(&Set{
		Version: 1, Exists: true, Complete: true, ByNode: c.Node != "", Reason: TooManyPorts,
		steering: new(Latest[*steering]),
	})
	return latest
}

// HintedTo reports whether node hints determine the endpoints for clients on the given node. If
// HintedTo returns true, or if ByNode is true, a client's Key must include the client's node.
//
// If the set's Key specifies a node, the node argument must be that node. When a change is
// published, the set for the Key without a node is updated first.
func (s *Set) HintedTo(node string) bool {
	return s.Hinted || node != "" && s.hinted[node] != nil
}

// Tiers returns the current tiers of the set's service, and a channel that is closed when the tiers
// change. If only the tiers change, the table does not publish a new Set.
func (s *Set) Tiers() (Tiers, <-chan struct{}) {
	st, changed := s.steering.Get()
	return Tiers{st}, changed
}

// Tiers records the tier of each endpoint in a set, and the standing of the endpoint's cluster. The
// zero value does not contain any tiers. Callers can compare two values with == to detect whether
// any tier or standing has changed.
type Tiers struct{ by *steering }

// Of returns the name of an endpoint's tier for clients in the given zone, and the standing of the
// endpoint's cluster. If clients of the service receive all endpoints, the last result is false.
func (t Tiers) Of(e *Endpoint, zone string) (tier string, standing Standing, ok bool) {
	if t.by == nil {
		return "", InService, false
	}
	i := t.by.tierOf(e, zone)
	if i == t.by.unnamed() {
		return "", InService, false // the table is about to replace the set
	}
	return t.by.preference.tierName(i), t.by.byCluster[e.Cluster].standingOf(e), true
}

// equal reports whether two sets are equivalent for clients. The fields Members, Changed and Origin
// are ignored.
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

// Diff returns the endpoints that are new or changed in the second set, and the addresses of the
// removed endpoints. Both results are sorted by address. A nil set counts as empty. Diff does not
// compare the fields Exists and Reason.
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

// Latest holds the newest version of a value. The zero Latest holds the zero value of T. All
// methods are safe for concurrent use and never block.
type Latest[T any] struct {
	p atomic.Pointer[cell[T]]
}

type cell[T any] struct {
	value    T
	replaced chan struct{}
}

// Get returns the newest value, and a channel that is closed when that value is replaced.
func (l *Latest[T]) Get() (T, <-chan struct{}) {
	c := l.p.Load()
	for c == nil {
		l.p.CompareAndSwap(nil, &cell[T]{replaced: make(chan struct{})})
		c = l.p.Load()
	}
	return c.value, c.replaced
}

// Set replaces the value, and then closes the channel that Get returned together with the previous
// value.
func (l *Latest[T]) Set(v T) {
	if old := l.p.Swap(&cell[T]{value: v, replaced: make(chan struct{})}); old != nil {
		close(old.replaced)
	}
}

// Watch provides a value that is updated only while it is watched. All methods are safe for
// concurrent use.
type Watch[T any] struct {
	latest *Latest[T]
	once   sync.Once
	close  func()
}

// NewWatch returns a watch on the given Latest. The first call to Close calls the given function.
func NewWatch[T any](latest *Latest[T], closed func()) *Watch[T] {
	return &Watch[T]{latest: latest, close: closed}
}

// Get returns the newest value, and a channel that is closed when that value is replaced. After
// Close, Get returns the last value.
func (w *Watch[T]) Get() (T, <-chan struct{}) { return w.latest.Get() }

// Close ends the watch. Close may be called more than once. Close does not wake goroutines that
// wait on a channel returned by Get.
func (w *Watch[T]) Close() { w.once.Do(w.close) }
