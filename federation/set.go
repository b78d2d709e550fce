package federation

import (
	"net/netip"
	"time"
)

// Reason says why a set has no endpoints, where that is more than "there are
// none".
type Reason uint8

const (
	// None: there is nothing more to say.
	None Reason = iota
	// Undefined: no such service is defined.
	Undefined
	// NoRemoteService: a mirror that does not say of which remote Service.
	NoRemoteService
	// NotLinked: its only cluster is not linked.
	NotLinked
	// External: the service, or the one that a mirror names, is of type
	// ExternalName.
	External
	// Unknown: a member's cluster is pending or unreachable, and nobody else
	// offers anything. Unknown is not empty.
	Unknown
)

// Set is what one kind of client sees of one service port. It never changes
// once published.
type Set struct {
	Version   uint64      // one more than the Set it replaced
	Exists    bool        // the service is defined and, for remote discovery, its remote Service too
	Complete  bool        // no member's cluster is pending
	ByNode    bool        // the answer depends on the client's node: ask Table.Key again if the Key in use has none, or has one and this is false
	Reason    Reason      // None unless Endpoints is empty
	Cluster   ClusterName // with NotLinked: the cluster that is not
	Changed   time.Time   // when its newest change happened in its cluster; zero: not known. Only measured
	Origin    ClusterName // with Changed: that cluster
	Endpoints []*Endpoint // sorted by Addr, one per Addr; unchanged endpoints keep their pointer
}

// Diff tells how to get from one set's endpoints to another's: what to put (new
// or changed) and what to take out. A nil from is an empty set. Both results are
// sorted by address and share memory with neither set. Exists and Reason may
// differ while Diff is empty.
func Diff(from, to *Set) (put []*Endpoint, gone []netip.AddrPort) {
	var a []*Endpoint
	if from != nil {
		a = from.Endpoints
	}
	walk(a, to.Endpoints, func(old, new *Endpoint) {
		switch {
		case new == nil:
			gone = append(gone, old.Addr)
		case old == nil || !old.Equal(new):
			put = append(put, new)
		}
	})
	return put, gone
}

// walk calls f for every address at which the two sorted lists hold different
// pointers; the side that does not have the address is nil.
func walk(a, b []*Endpoint, f func(a, b *Endpoint)) {
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
