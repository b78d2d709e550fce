package federation

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// steering is what decides which of a port's endpoints clients get: the tiers of the
// service's preference, with the clusters of its members put into them, and these
// clusters' standings. Behind the last tier comes one for clusters of last resort. A port
// whose clients get everything has none. It is immutable.
type steering struct {
	preference *Preference // never nil
	tierCount  int         // how many there are, without that of last resort; at least 1
	zone       int         // the first tier that names the client's zone; unnamed: none does
	members    []placement // in definition order
	byCluster  map[ClusterName]*placement
	next       time.Time // when a standing changes by itself; zero: none does
}

// placement is where a cluster's endpoints belong.
type placement struct {
	tier     int // the first that names the whole cluster, or unnamed
	standing Standing
	lost     bool // it would not be withdrawn if its API were followed
	// spread is set while the parts' standings differ; standing is the lowest then.
	spread *standings
	// partlyLastResort: some parts are of last resort, and others in service, on the way there or
	// back. The parts in service do not make those of last resort unneeded: where there is
	// nothing else, they would have to take all requests.
	partlyLastResort bool
	// unused: its endpoints are never served. There is no need to wait for its cluster, and
	// they take no address from others.
	unused bool
}

var noPreference = &Preference{}

// newSteering returns what steers a service's clients; nil: nothing does.
func newSteering(in inputs, now func() time.Time) *steering {
	d := in.definition
	if d == nil || len(d.Members) == 0 {
		return nil
	}
	preference := cmp.Or(d.Preference, noPreference)
	if len(preference.Tiers) == 0 && !slices.ContainsFunc(in.links, tableLink.takesOut) {
		return nil
	}
	st := &steering{preference: preference}
	if !st.placeClusters(in, now) && !st.prefers(d) {
		return nil
	}
	return st
}

// prefers reports whether the service has a preference that can make a difference. To a
// Service with one member, only zones can.
func (st *steering) prefers(d *Definition) bool {
	return len(st.preference.Tiers) > 0 && (d.Federated || st.zone < st.unnamed())
}

// placeClusters puts the members' clusters into the tiers, and reports whether any is, or is
// being, taken out.
func (st *steering) placeClusters(in inputs, now func() time.Time) (takenOut bool) {
	tiers := st.preference.Tiers
	st.tierCount = max(len(tiers), 1)
	st.zone = st.unnamed()
	namesZone := func(t Tier) bool { return slices.Contains(t, Term{Kind: ClientZone}) }
	if i := slices.IndexFunc(tiers, namesZone); i >= 0 {
		st.zone = i
	}
	st.members = make([]placement, len(in.links))
	st.byCluster = make(map[ClusterName]*placement, len(in.links))
	for i := range in.links {
		c := in.definition.Members[i].Cluster
		l := &in.links[i]
		p := &st.members[i]
		p.tier = st.tierOfCluster(c, l.Region != "" && l.Region == in.region, in.definition.Federated)
		if l.takesOut() {
			takenOut = st.setStanding(p, l, in.definition.Federated, now()) || takenOut
		}
		p.unused = p.standing == Withdrawn || p.tier == st.unnamed() && st.zone == st.unnamed()
		st.byCluster[c] = p // of two members in one cluster the placements are equal
	}
	return takenOut
}

// tierOfCluster returns the first tier that names a whole cluster, or unnamed.
func (st *steering) tierOfCluster(c ClusterName, sameRegion, federated bool) int {
	if len(st.preference.Tiers) == 0 {
		return 0
	}
	names := func(t Term) bool {
		switch t.Kind {
		case ClientZone:
			return false
		case AnyCluster:
			return true
		case LocalCluster:
			return c == Local || !federated
		case SameRegion:
			return c == Local || sameRegion || !federated
		case Remote:
			return c != Local || !federated
		}
		return t.Cluster == c && c != Local || !federated
	}
	i := slices.IndexFunc(st.preference.Tiers, func(t Tier) bool { return slices.ContainsFunc(t, names) })
	if i >= 0 {
		return i
	}
	return st.unnamed()
}

// setStanding sets a placement's standing, and reports whether it is, or will be, another than
// in service. A service that is not federated has nothing else to offer than what a cluster
// of last resort has, so that there it makes no difference.
func (st *steering) setStanding(p *placement, l *tableLink, federated bool, now time.Time) bool {
	list, next := l.standings(now)
	for i, s := range list {
		if s == LastResort && !federated {
			list[i] = InService
		}
	}
	p.standing = slices.Min(list[:])
	p.lost = l.Lost == Withdrawn && l.Cordon != Withdrawn
	if list != uniform(p.standing) {
		p.spread = &list
		p.partlyLastResort = slices.Contains(list[:], LastResort)
	}
	if !next.IsZero() && (st.next.IsZero() || next.Before(st.next)) {
		st.next = next
	}
	return list != uniform(InService) || !next.IsZero()
}

// standingOf returns an endpoint's.
func (p *placement) standingOf(e *Endpoint) Standing {
	if p.spread != nil {
		return p.spread[partOf(e)]
	}
	return p.standing
}

// lastResort and unnamed are the places behind all tiers: of endpoints of last resort,
// and of those that no tier names, which are not served.
func (st *steering) lastResort() int { return st.tierCount }

func (st *steering) unnamed() int { return st.tierCount + 1 }

// withdrawn reports whether all of a member's endpoints are.
func (st *steering) withdrawn(i int) bool { return st != nil && st.members[i].standing == Withdrawn }

// unused reports whether a member's endpoints are never served.
func (st *steering) unused(i int) bool { return st != nil && st.members[i].unused }

// offers lists what members offer: what is in service of all of them first, at the members'
// places, and then what is of last resort.
func (st *steering) offers(allowed []offer) offers {
	first := make(offers, 0, len(allowed))
	var last offers
	for i, o := range allowed {
		inService, lastResort := st.divide(i, o)
		first = append(first, memberOffer{i, inService})
		if st.mayBeLastResort(i) {
			last = append(last, memberOffer{i, lastResort})
		}
	}
	return append(first, last...)
}

// mayBeLastResort reports whether some of a member's endpoints can be of last resort.
func (st *steering) mayBeLastResort(i int) bool {
	return st != nil && (st.members[i].spread != nil || st.members[i].standing == LastResort)
}

// divide divides a member's offer by its endpoints' standing. What is withdrawn, or never served,
// is in neither.
func (st *steering) divide(i int, o offer) (inService, lastResort offer) {
	if st == nil {
		return o, nil
	}
	switch p := &st.members[i]; {
	case p.unused:
		return nil, nil
	case p.spread != nil:
		return p.only(o, InService), p.only(o, LastResort)
	case p.standing == InService:
		return o, nil
	}
	return nil, o
}

// only returns what of an offer has that standing.
func (p *placement) only(o offer, s Standing) offer {
	has := func(e *Endpoint) bool { return p.standingOf(e) == s }
	var list offer
	for _, l := range o {
		one := &Slice{Name: l.Name, Endpoints: filter(l.Endpoints, has), Unready: filter(l.Unready, has)}
		one.Behind = l.Behind.scale(len(one.Endpoints), len(l.Endpoints))
		if len(one.Endpoints)+len(one.Unready) > 0 {
			list = append(list, one)
		}
	}
	return list
}

// countsUnready reports whether the number of endpoints that are not ready makes a
// difference.
func (st *steering) countsUnready() bool { return st != nil && st.preference.MinReady.Percent > 0 }

// unready returns the endpoints on offer that are not ready, at addresses where no other is;
// sorted, one per address. nil: they make no difference.
func (st *steering) unready(offers offers, merged []*Endpoint) (list []*Endpoint) {
	if !st.countsUnready() {
		return nil
	}
	for _, o := range offers {
		for _, s := range o.offer {
			for _, e := range s.Unready {
				if _, ready := find(merged, e.Addr); !ready {
					list = append(list, e)
				}
			}
		}
	}
	slices.SortStableFunc(list, compareAddr)
	return slices.CompactFunc(list, func(a, b *Endpoint) bool { return a.Addr == b.Addr })
}

// tierOf returns the tier that an endpoint belongs to, lastResort or unnamed, for clients
// in a zone.
func (st *steering) tierOf(e *Endpoint, zone string) int {
	p := st.byCluster[e.Cluster]
	if p == nil {
		return st.unnamed()
	}
	tier := p.tier
	if st.zone < tier && zone != "" && e.Zone == zone {
		tier = st.zone
	}
	if tier < st.tierCount && p.standingOf(e) != InService {
		return st.lastResort()
	}
	return tier
}

// tiersOf returns the tiers that endpoints belong to: see tierOf.
func (st *steering) tiersOf(list []*Endpoint, zone string) []int {
	tiers := make([]int, len(list))
	for i, e := range list {
		tiers[i] = st.tierOf(e, zone)
	}
	return tiers
}

// countByTier counts endpoints by tier; behind the tiers comes that of last resort.
func (st *steering) countByTier(tiers []int) []int {
	n := make([]int, st.unnamed()+1)
	for _, i := range tiers {
		n[i]++
	}
	return n[:st.unnamed()]
}

// alike reports whether both have the same tiers and standings.
func (st *steering) alike(o *steering) bool {
	if st == nil || o == nil || st == o {
		return st == o
	}
	return st.zone == o.zone && sameTiers(st.preference.Tiers, o.preference.Tiers) &&
		maps.EqualFunc(st.byCluster, o.byCluster, (*placement).equal)
}

// equal compares by content.
func (p *placement) equal(o *placement) bool {
	if p.tier != o.tier || p.standing != o.standing {
		return false
	}
	if p.spread == nil || o.spread == nil {
		return p.spread == o.spread
	}
	return *p.spread == *o.spread
}
