package federation

import (
	"hash/fnv"
	"net/netip"
	"slices"
	"time"
)

// Link is what a cluster's link is now, for the table. The zero value: not linked.
type Link struct {
	State  LinkState
	Source Source // with Ready, otherwise nil. Sources must be comparable (pointers)
	Within Ranges // of a linked cluster, only endpoints within these addresses are taken; nil: all addresses
	Region string // where the cluster is; empty: not known

	// Cordon is how far the cluster's endpoints are taken out by hand. A change takes
	// effect in about ten equal steps over CordonOver; 0: at once. The first Link of a
	// cluster takes effect at once.
	Cordon     Standing
	CordonOver time.Duration
	// Lost is how far they are taken out because the cluster's API is not followed. It
	// takes effect at once.
	Lost Standing
}

// equal compares ranges by content.
func (l Link) equal(o Link) bool {
	return l.State == o.State && l.Source == o.Source && l.Region == o.Region &&
		l.Cordon == o.Cordon && l.CordonOver == o.CordonOver && l.Lost == o.Lost &&
		(l.Within == nil) == (o.Within == nil) && slices.Equal(l.Within, o.Within)
}

// LinkState is whether the table can read a cluster, and if not, whether to wait.
type LinkState uint8

const (
	// Unlinked: no usable link names this cluster.
	Unlinked LinkState = iota
	// Pending: linked and still starting; worth waiting for.
	Pending
	// Unreachable: linked, nothing known yet, and not worth waiting for.
	Unreachable
	// Ready: its objects are known. It stays ready when its API server can't be
	// reached any more.
	Ready
)

func (s LinkState) String() string {
	return [...]string{"unlinked", "pending", "unreachable", "ready"}[s]
}

// Standing is how far a cluster's endpoints are taken out of all services. Of two that
// apply to a cluster, the greater wins.
type Standing uint8

const (
	// InService: they are not taken out.
	InService Standing = iota
	// LastResort: they are served only while a service has no other ready endpoint.
	LastResort
	// Withdrawn: they are not served.
	Withdrawn
)

func (s Standing) String() string { return [...]string{"in-service", "last-resort", "withdrawn"}[s] }

// Ranges are the addresses that a linked cluster may offer: prefixes, sorted and
// without those that are part of another. nil: all addresses.
type Ranges []netip.Prefix

// NewRanges returns the ranges that the prefixes, in any order, cover. They must be
// valid and not IPv4-mapped. Without prefixes it returns nil: all addresses.
func NewRanges(prefixes ...netip.Prefix) Ranges {
	var r Ranges
	for _, p := range prefixes {
		r = append(r, p.Masked())
	}
	slices.SortFunc(r, netip.Prefix.Compare) // a prefix comes before those that are part of it
	n := 0
	for _, p := range r {
		if n > 0 && r[n-1].Contains(p.Addr()) {
			continue
		}
		r[n] = p
		n++
	}
	return r[:n:n]
}

// Contains reports whether the ranges have the address, in time logarithmic in their
// number.
func (r Ranges) Contains(a netip.Addr) bool {
	if r == nil {
		return true
	}
	i, found := slices.BinarySearchFunc(r, a, func(p netip.Prefix, a netip.Addr) int { return p.Addr().Compare(a) })
	return found || i > 0 && r[i-1].Contains(a)
}

// tableLink is a Link as the table has it.
type tableLink struct {
	Link
	within *Ranges // of Link.Within, the same pointer while that is equal; nil: all addresses
	cordon spread  // how Link.Cordon takes effect
}

// replace returns the link with other content from now on.
func (l tableLink) replace(by Link, now func() time.Time) tableLink {
	next := tableLink{Link: by, within: l.within, cordon: l.cordon}
	switch {
	case by.Within == nil:
		next.within = nil
	case l.within == nil || !slices.Equal(*l.within, by.Within):
		next.within = &by.Within
	}
	switch {
	case l.State == Unlinked:
		next.cordon = spread{to: by.Cordon}
	case l.Cordon != by.Cordon || l.CordonOver != by.CordonOver:
		next.cordon = l.cordon.changeTo(by.Cordon, by.CordonOver, now())
	}
	return next
}

// takesOut reports whether anything of the cluster is taken out, or has been since its
// cordon was set.
func (l tableLink) takesOut() bool { return l.Lost != InService || l.cordon != spread{} }

// standings returns those of the cluster at a time, and when they change next; zero:
// not by themselves.
func (l *tableLink) standings(now time.Time) (standings, time.Time) {
	list, next := l.cordon.at(now)
	return list.atLeast(l.Lost), next
}

// bounds returns the bounds for endpoints of that cluster. The local one has none.
func (l tableLink) bounds(c ClusterName, owners AddressOwners) bounds {
	if c == Local {
		return bounds{}
	}
	return bounds{l.within, owners}
}

// status returns whether the cluster's Service of that name can serve, as its source says now.
func (l tableLink) status(id ServiceID) (s MemberStatus) {
	if s.Link = l.State; s.Link == Ready {
		s.Service = l.Source.State(id)
	}
	if s.Serving() {
		r, ok := l.Source.(Reachable)
		s.Unreached = ok && !r.Reachable()
	}
	return s
}

// spread is a change of standing that takes effect part by part.
type spread struct {
	from  standings // at start
	to    Standing
	start time.Time
	step  time.Duration // from part to part; 0: all have changed
}

// changeTo returns the change to another standing that begins now, where this one has come to. It takes
// that time if all parts change, and less if some have the standing already.
func (s *spread) changeTo(to Standing, over time.Duration, now time.Time) spread {
	from, _ := s.at(now)
	if from == uniform(to) {
		return spread{to: to}
	}
	return spread{from: from, to: to, start: now, step: over / parts}
}

// at returns the standings at a time, and when the next part changes; zero: none does.
func (s *spread) at(now time.Time) (list standings, next time.Time) {
	if s.step <= 0 {
		return uniform(s.to), time.Time{}
	}
	list = s.from
	done := max(0, now.Sub(s.start)) / s.step
	at := s.start
	for i := range list {
		if list[i] == s.to {
			continue
		}
		at = at.Add(s.step)
		if done == 0 {
			return list, at
		}
		list[i] = s.to
		done--
	}
	return list, time.Time{}
}

// standings are those of each part of a cluster's endpoints.
type standings [parts]Standing

// uniform is the same standing for all parts.
func uniform(s Standing) (list standings) {
	for i := range list {
		list[i] = s
	}
	return list
}

// atLeast raises those that are below s.
func (list standings) atLeast(s Standing) standings {
	for i := range list {
		list[i] = max(list[i], s)
	}
	return list
}

// parts is into how many parts, about equal, a cluster's endpoints are divided when they
// leave or come back one part after the other.
const parts = 10

// partOf is the part that an endpoint belongs to. It follows from a hash of the Pod's
// name or, without a Pod, of the address: so it is the same in all replicas, and all
// addresses and ports of a Pod are in one part.
func partOf(e *Endpoint) int {
	hash := fnv.New64a()
	if e.Twin == "" {
		addr := e.Addr.Addr().As16()
		_, _ = hash.Write(addr[:])
	}
	_, _ = hash.Write([]byte(e.Twin))
	_, _ = hash.Write([]byte(e.Cluster))
	h := hash.Sum64()
	h ^= h >> 33 // FNV's low bits are alike for texts that are alike
	h *= 0xff51afd7ed558ccd
	return int((h >> 33) % parts)
}
