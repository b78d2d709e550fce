package federation

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// steering determines which endpoints the clients of a port receive. A value of type steering
// contains the service's preference, and the tier and standing of each member's cluster. The last
// tier is followed by an additional tier for clusters of last resort.
//
// If clients receive all endpoints of a port, the port's steering field is nil. Values of type
// steering are immutable.
type steering struct {
	preference *Preference // never nil
	tierCount  int         // number of tiers, without last resort; at least 1
	zone       int         // first tier with the term zone; unnamed() if there is none
	members    []placement // in definition order
	byCluster  map[ClusterName]*placement
	next       time.Time // when a standing next changes gradually; zero if none does
}

type placement struct {
	tier     int // first tier that includes the whole cluster, or unnamed()
	standing Standing
	lost     bool // whether the cluster is withdrawn only because its API cannot be watched
	// spread contains the standing of each part of the cluster, or is nil if all parts have the
	// same standing. If the parts have different standings, placement.standing is the lowest of
	// these standings.
	spread *standings
	// If partlyLastResort is true, some but not all parts of the cluster have the standing
	// LastResort. If no other cluster has ready endpoints, clients also use the parts with the
	// standing LastResort, because the parts in service may be too few to handle all requests.
	partlyLastResort bool
	// If unused is true, the cluster's endpoints are never served. Clients do not wait for an
	// unused cluster, and its endpoints do not compete for addresses.
	unused bool
}

var noPreference = &Preference{}

// newSteering returns nil if clients of the service receive all endpoints.
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

// steering.prefers reports whether the service has a preference that can affect clients. If the
// service is not federated, ClientZone is the only term of the preference that can affect which
// endpoints clients receive.
func (st *steering) prefers(d *Definition) bool {
	return len(st.preference.Tiers) > 0 && (d.Federated || st.zone < st.unnamed())
}

// placeClusters assigns the members' clusters to tiers. The result reports whether any cluster is
// out of service, or about to be taken out of service.
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
		st.byCluster[c] = p // two members in one cluster have equal placements
	}
	return takenOut
}

// tierOfCluster returns the first tier that includes the whole cluster, or unnamed() if there is no
// such tier.
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

// setStanding sets the standing of a placement, and reports whether the cluster is out of service,
// or about to be taken out of service. The standing LastResort affects only federated services,
// because any other service has endpoints in just one cluster.
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

func (p *placement) standingOf(e *Endpoint) Standing {
	if p.spread != nil {
		return p.spread[partOf(e)]
	}
	return p.standing
}

// lastResort returns the index of the additional tier for endpoints of last resort.
func (st *steering) lastResort() int { return st.tierCount }

// steering.unnamed returns the index for endpoints that do not belong to any tier. Endpoints that
// do not belong to any tier are not served.
func (st *steering) unnamed() int { return st.tierCount + 1 }

func (st *steering) withdrawn(i int) bool { return st != nil && st.members[i].standing == Withdrawn }

func (st *steering) unused(i int) bool { return st != nil && st.members[i].unused }

// The offers method returns the offers of all members, sorted by precedence. The list begins with
// one offer per member, in definition order, for the endpoints whose standing is InService. The
// list ends with the offers of endpoints whose standing is LastResort.
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

func (st *steering) mayBeLastResort(i int) bool {
	return st != nil && (st.members[i].spread != nil || st.members[i].standing == LastResort)
}

// divide splits a member's offer into endpoints whose standing is InService and endpoints whose
// standing is LastResort. Endpoints that are withdrawn, or that belong to an unused cluster, are
// dropped.
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

func (st *steering) countsUnready() bool { return st != nil && st.preference.MinReady.Percent > 0 }

// The unready method returns the offered endpoints that are not ready, except at addresses where
// another endpoint is ready. The list is sorted by address, with one endpoint per address. If the
// number of unready endpoints does not affect clients, the list is nil.
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

// tierOf returns the tier of an endpoint for clients in the given zone. For an endpoint of last
// resort, the result is lastResort(). For an endpoint outside all tiers, the result is unnamed().
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

func (st *steering) tiersOf(list []*Endpoint, zone string) []int {
	tiers := make([]int, len(list))
	for i, e := range list {
		tiers[i] = st.tierOf(e, zone)
	}
	return tiers
}

// countByTier returns the number of endpoints in each tier, followed by the number of endpoints of
// last resort.
func (st *steering) countByTier(tiers []int) []int {
	n := make([]int, st.unnamed()+1)
	for _, i := range tiers {
		n[i]++
	}
	return n[:st.unnamed()]
}

func (st *steering) alike(o *steering) bool {
	if st == nil || o == nil || st == o {
		return st == o
	}
	return st.zone == o.zone && sameTiers(st.preference.Tiers, o.preference.Tiers) &&
		maps.EqualFunc(st.byCluster, o.byCluster, (*placement).equal)
}

func (p *placement) equal(o *placement) bool {
	if p.tier != o.tier || p.standing != o.standing {
		return false
	}
	if p.spread == nil || o.spread == nil {
		return p.spread == o.spread
	}
	return *p.spread == *o.spread
}
