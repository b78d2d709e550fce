package federation

import (
	"hash/fnv"
	"net/netip"
	"slices"
	"time"
)

// Link describes the current state of a cluster's link. The zero value means that the cluster is
// not linked.
type Link struct {
	State  LinkState
	Source Source // nil unless State is Ready; sources must be comparable, such as pointers
	Within Ranges // the addresses that a linked cluster may offer; nil means all
	Region string // the cluster's region; empty if unknown

	// Cordon says to what extent a user has taken the cluster out of service. For a new link, the
	// value of Cordon takes effect immediately. Later changes to Cordon take effect in about ten
	// equal steps, spread over CordonOver. If CordonOver is zero, all changes take effect
	// immediately.
	Cordon     Standing
	CordonOver time.Duration
	// Lost is the standing that results from a failure of the cluster: its API cannot be watched,
	// or all its Linkerd gateways are unresponsive. If there is no such failure, Lost is InService.
	// Changes to Lost take effect immediately.
	Lost Standing
}

func (l Link) equal(o Link) bool {
	return l.State == o.State && l.Source == o.Source && l.Region == o.Region &&
		l.Cordon == o.Cordon && l.CordonOver == o.CordonOver && l.Lost == o.Lost &&
		(l.Within == nil) == (o.Within == nil) && slices.Equal(l.Within, o.Within)
}

// LinkState says whether the table can read a cluster, and whether clients should wait until it
// can.
type LinkState uint8

const (
	// Unlinked means that the cluster does not have a usable link.
	Unlinked LinkState = iota
	// Pending means that the link is starting, so clients should wait for the cluster.
	Pending
	// Unreachable means that the cluster is linked, but its objects are not cached. Clients should
	// not wait for an unreachable cluster.
	Unreachable
	// Ready means that the objects of the cluster are cached. A link remains ready even if the
	// cluster's API server becomes unreachable later.
	Ready
)

func (s LinkState) String() string {
	return [...]string{"unlinked", "pending", "unreachable", "ready"}[s]
}

// Standing says to what extent a cluster is out of service. A cluster's standing affects all
// services that have a member in the cluster. If two standings apply to a cluster, the higher value
// wins.
type Standing uint8

const (
	InService Standing = iota
	// LastResort means that a service's endpoints in the cluster are served only while no other
	// endpoint of the service is ready.
	LastResort
	// Withdrawn means that the endpoints in the cluster are not served.
	Withdrawn
)

func (s Standing) String() string { return [...]string{"in-service", "last-resort", "withdrawn"}[s] }

// Ranges contains the prefixes whose addresses a linked cluster may offer. The prefixes are sorted
// and do not overlap. A nil Ranges allows all addresses.
type Ranges []netip.Prefix

// NewRanges returns the ranges that cover the given prefixes, which may be in any order. The
// prefixes must be valid and must not be IPv4-mapped. Without prefixes, NewRanges returns nil,
// which allows all addresses.
func NewRanges(prefixes ...netip.Prefix) Ranges {
	var r Ranges
	for _, p := range prefixes {
		r = append(r, p.Masked())
	}
	slices.SortFunc(r, netip.Prefix.Compare) // a prefix comes before the prefixes that it contains
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

// Contains reports whether the linked cluster may offer the address.
func (r Ranges) Contains(a netip.Addr) bool {
	if r == nil {
		return true
	}
	i, found := slices.BinarySearchFunc(r, a, func(p netip.Prefix, a netip.Addr) int { return p.Addr().Compare(a) })
	return found || i > 0 && r[i-1].Contains(a)
}

type tableLink struct {
	Link
	within *Ranges // Link.Within; the pointer changes only if the content does; nil allows all addresses
	cordon spread  // the gradual change to Link.Cordon
}

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

// takesOut reports whether any endpoint of the cluster is out of service, or whether a gradual
// change is in progress.
func (l tableLink) takesOut() bool { return l.Lost != InService || l.cordon != spread{} }

// The standings method returns the standing of each part of the cluster, and the time of the next
// step of a gradual change. If no gradual change is in progress, the time is zero.
func (l *tableLink) standings(now time.Time) (standings, time.Time) {
	list, next := l.cordon.at(now)
	return list.atLeast(l.Lost), next
}

func (l tableLink) bounds(c ClusterName, owners AddressOwners) bounds {
	if c == Local {
		return bounds{}
	}
	return bounds{l.within, owners}
}

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

type spread struct {
	from  standings // the standings when the change began
	to    Standing
	start time.Time
	step  time.Duration // time between two parts; zero if the change is complete
}

// changeTo returns a spread that starts to change now, and gradually reaches the new standing. If
// some parts of the cluster already have the new standing, the change takes less time than the
// given duration.
func (s *spread) changeTo(to Standing, over time.Duration, now time.Time) spread {
	from, _ := s.at(now)
	if from == uniform(to) {
		return spread{to: to}
	}
	return spread{from: from, to: to, start: now, step: over / parts}
}

// spread.at returns the standing of each part of the cluster at the given time, and the time at
// which the standing of a part changes next. If all parts have reached the new standing, the
// returned time is zero.
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

type standings [parts]Standing

func uniform(s Standing) (list standings) {
	for i := range list {
		list[i] = s
	}
	return list
}

func (list standings) atLeast(s Standing) standings {
	for i := range list {
		list[i] = max(list[i], s)
	}
	return list
}

// parts is the number of parts into which a cluster's endpoints are divided. All parts are about
// the same size. Each step of a gradual change affects the endpoints of one part.
const parts = 10

// partOf returns the part that an endpoint belongs to. The part is derived from a hash, so that all
// replicas divide the endpoints in the same way. All addresses and ports of a Pod are in the same
// part.
func partOf(e *Endpoint) int {
	hash := fnv.New64a()
	if e.Twin == "" {
		addr := e.Addr.Addr().As16()
		_, _ = hash.Write(addr[:])
	}
	_, _ = hash.Write([]byte(e.Twin))
	_, _ = hash.Write([]byte(e.Cluster))
	h := hash.Sum64()
	h ^= h >> 33 // FNV's low bits are similar for similar strings
	h *= 0xff51afd7ed558ccd
	return int((h >> 33) % parts)
}
