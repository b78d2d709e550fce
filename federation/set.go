package federation

import (
	"net/netip"
	"time"
)

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
	Members    int         // how many members the service has, serving or not. Sets that differ in nothing else are not published

	hinted   map[string][]*Endpoint // if the Key has no node: the nodes for which node hints choose endpoints
	steering *Latest[*steering]     // see Tiers
}

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

// forEachChange calls f, in order, for every address at which the two sorted lists
// have different pointers. The side that does not have the address is nil.
func forEachChange(a, b []*Endpoint, f func(a, b *Endpoint)) {
	i, j := 0, 0
	for i < len(a) && j < len(b) {
		if a[i] == b[j] {
			i, j = i+1, j+1
			continue
		}
		switch c := compareAddr(a[i], b[j]); {
		case c < 0:
			f(a[i], nil)
			i++
		case c > 0:
			f(nil, b[j])
			j++
		default:
			f(a[i], b[j])
			i, j = i+1, j+1
		}
	}
	for ; i < len(a); i++ {
		f(a[i], nil)
	}
	for ; j < len(b); j++ {
		f(nil, b[j])
	}
}
