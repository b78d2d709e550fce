package federation

import (
	"hash/fnv"
	"net/netip"
	"slices"
	"time"
)

// Link is the current state of a cluster's link, as the table uses it. The zero value means that
// the cluster is not linked.
type Link struct {
	State  LinkState
	Source Source // nil unless State is Ready; sources must be comparable, such as pointers
	Within Ranges // the addresses that a linked cluster may offer; nil means all
	Region string // the cluster's region; empty if unknown

	// Cordon is the standing that a user has set for the cluster. The first Link of a cluster takes
	// effect at once. A later change of Cordon takes effect in about ten equal steps over
	// CordonOver. If CordonOver is zero, the change takes effect at once.
	Cordon     Standing
	CordonOver time.Duration
	// Lost is the standing of the cluster while its API cannot be watched. A change of Lost takes
	// effect at once.
	Lost Standing
}

// equal reports whether two links have the same content. It compares the prefixes of Within.
func (l Link) equal(o Link) bool {
	return l.State == o.State && l.Source == o.Source && l.Region == o.Region &&
		l.Cordon == o.Cordon && l.CordonOver == o.CordonOver && l.Lost == o.Lost &&
		(l.Within == nil) == (o.Within == nil) && slices.Equal(l.Within, o.Within)
}

// LinkState says whether the table can read a cluster, and if not, whether waiting for the cluster
// makes sense.
type LinkState uint8

const (
	// Unlinked means that no usable link names the cluster.
	Unlinked LinkState = iota
	// Pending means that the link is still starting. Waiting for the cluster makes sense.
	Pending
	// Unreachable means that the cluster is linked, but no objects are cached. Waiting for the
	// cluster does not make sense.
	Unreachable
	// Ready means that the objects of the cluster are cached. The link stays ready if the API
	// server becomes unreachable later.
	Ready
)

func (s LinkState) String() string {
	return [...]string{"unlinked", "pending", "unreachable", "ready"}[s]
}

// Standing says to what extent the endpoints of a cluster are taken out of all services. If two
// standings apply to a cluster, the greater one wins.
type Standing uint8

const (
	// InService means that the endpoints are served normally.
	InService Standing = iota
	// LastResort means that the endpoints are served only while a service has no other ready
	// endpoint.
	LastResort
	// Withdrawn means that the endpoints are not served.
	Withdrawn
)

func (s Standing) String() string { return [...]string{"in-service", "last-resort", "withdrawn"}[s] }

// Ranges contains the prefixes whose addresses a linked cluster may offer. The prefixes are sorted
// and do not overlap. If Ranges is nil, all addresses are allowed.
type Ranges []netip.Prefix

// NewRanges returns the ranges that cover the prefixes, which may be in any order. The prefixes
// must be valid and must not be IPv4-mapped. Without prefixes, NewRanges returns nil, which allows
// all addresses.
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

// Contains reports whether any prefix contains the address. It takes logarithmic time.
func (r Ranges) Contains(a netip.Addr) bool {
	if r == nil {
		return true
	}
	i, found := slices.BinarySearchFunc(r, a, func(p netip.Prefix, a netip.Addr) int { return p.Addr().Compare(a) })
	return found || i > 0 && r[i-1].Contains(a)
}

// tableLink is a Link together with the state that the table derives from it.
type tableLink struct {
	Link
	within *Ranges // Link.Within; the pointer changes only if the content does; nil allows all addresses
	cordon spread  // the gradual change to Link.Cordon
}

// replace returns the state of the link after the change to by.
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

// takesOut reports whether any endpoint of the cluster is taken out, or was taken out since the
// cordon was last set.
func (l tableLink) takesOut() bool { return l.Lost != InService || l.cordon != spread{} }

// standings returns the standing of each part of the cluster, and the time of the next gradual
// change. The time is zero if no gradual change is due.
func (l *tableLink) standings(now time.Time) (standings, time.Time) {
	list, next := l.cordon.at(now)
	return list.atLeast(l.Lost), next
}

// bounds returns the bounds for the endpoints of cluster c. The local cluster has no bounds.
func (l tableLink) bounds(c ClusterName, owners AddressOwners) bounds {
	if c == Local {
		return bounds{}
	}
	return bounds{l.within, owners}
}

// status reports whether the cluster's Service of this name serves, according to the current state
// of its source.
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

// spread is a change of standing that takes effect one part at a time.
type spread struct {
	from  standings // the standings when the change began
	to    Standing
	start time.Time
	step  time.Duration // time between two parts; zero means that all parts have changed
}

// changeTo returns a change from the current standings to another standing, which begins now. The
// change takes less time than over if some parts already have the new standing.
func (s *spread) changeTo(to Standing, over time.Duration, now time.Time) spread {
	from, _ := s.at(now)
	if from == uniform(to) {
		return spread{to: to}
	}
	return spread{from: from, to: to, start: now, step: over / parts}
}

// at returns the standings at the given time, and the time when the next part changes. That time is
// zero if all parts have changed.
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

// standings contains the standing of each part of a cluster's endpoints.
type standings [parts]Standing

// uniform returns standings that are s for all parts.
func uniform(s Standing) (list standings) {
	for i := range list {
		list[i] = s
	}
	return list
}

// atLeast raises all standings below s to s.
func (list standings) atLeast(s Standing) standings {
	for i := range list {
		list[i] = max(list[i], s)
	}
	return list
}

// parts is the number of parts, of about equal size, that a cluster's endpoints are divided into.
// Endpoints that leave or come back gradually do so one part at a time.
const parts = 10

// partOf returns the part that an endpoint belongs to. The part is a hash of the Pod's name, or of
// the address if there is no Pod. So all replicas agree on the part, and all addresses and ports of
// a Pod are in the same part.
func partOf(e *Endpoint) int {
	hash := fnv.New64a()
	if e.Twin == "" {
		addr := e.Addr.Addr().As16()
		_, _ = hash.Write(addr[:])
	}
	_, _ = hash.Write([]byte(e.Twin))
	_, _ = hash.Write([]byte(e.Cluster))
	h := hash.Sum64()
	h ^= h >> 33 // FNV's low bits are similar for similar texts
	h *= 0xff51afd7ed558ccd
	return int((h >> 33) % parts)
}
