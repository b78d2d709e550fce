package sim

import (
	"net/netip"
	"slices"

	"isthmus/internal/spec"
)

// choice is how the oracle decides which endpoints clients get of a service: by package spec,
// of what is in the clusters.
type choice struct {
	spec.Service
	world  *world
	shares []share // of the members
}

func (c *choice) add(m member) {
	s := c.world.share(m.cluster, m.service)
	standing, _ := c.world.standing(m.cluster)
	c.shares = append(c.shares, s)
	c.Members = append(c.Members, spec.Member{
		Cluster:   c.world.terms(m.cluster),
		Standings: spec.All(standing),
		Slices:    []spec.Slice{s.slice()},
	})
}

// terms is what terms name a cluster by.
func (w *world) terms(c *cluster) spec.Cluster {
	if c.number == 0 {
		return spec.Cluster{Region: true}
	}
	return spec.Cluster{Name: c.name, Region: c.region() != "" && c.region() == w.region()}
}

// slice is what the gateway reads of a share.
func (s *share) slice() (l spec.Slice) {
	for addr, e := range s.ready {
		l.Ready = append(l.Ready, spec.Endpoint{Addr: addr, Zone: e.zone, Of: e})
	}
	for addr, zone := range s.unready {
		l.Unready = append(l.Unready, spec.Endpoint{Addr: addr, Zone: zone})
	}
	l.Behind = s.behind
	return l
}

// standing returns how far a cluster is taken out of this service. From a service that has nothing
// else to offer, last resort takes nothing out.
func (c *choice) standing(of *cluster) spec.Standing {
	s, _ := c.world.standing(of)
	if !c.Federated && s == spec.LastResort {
		return spec.InService
	}
	return s
}

// answer adds what clients get to an answer.
func (c *choice) answer(a *answer) {
	st := c.State()
	use := st.Needed()
	for _, e := range st.Ready {
		tier := st.TierOf(e)
		if tier <= st.LastResort() {
			a.served[e.Addr] = e.Of.(endpoint)
		}
		if tier < use {
			a.endpoints[e.Addr] = e.Of.(endpoint)
		}
	}
	a.least = max(1, c.Count)
	if slices.ContainsFunc(c.shares, func(s share) bool { return s.behind != nil }) {
		a.least = 1 // one gateway may stand for all
	}
	a.vague = c.vague(min(use, st.LastResort()))
	for _, s := range c.shares {
		for addr, e := range s.ready {
			a.offers[offer{addr, s.cluster.name, s.pods[addr]}] = c.grade(s.cluster, addr, e.zone)
		}
		for addr, l := range s.lasting {
			if c.grade(s.cluster, addr, l.zone) > unused && c.grade(s.cluster, addr, "") > unused {
				a.offers[offer{addr, s.cluster.name, l.pod + eitherWay}] = reserved
			}
		}
	}
}

// eitherWay marks the offer of a Pod as that of some way to it: the Pod's address, or a gateway's.
// Clients may hold any.
const eitherWay = " (either way)"

// mayName reports whether a tier may have endpoints of a cluster that is away: its Nodes, and so
// its region, may have changed.
func (c *choice) mayName(terms []string, of *cluster) bool {
	return slices.ContainsFunc(terms, func(term string) bool {
		return !c.Federated || term == "zone" || term == "region" || spec.Names(term, c.world.terms(of), "", "")
	})
}

// vague reports whether it depends on what is away whether so many tiers are in use.
func (c *choice) vague(use int) bool {
	w := c.world
	reserve := slices.ContainsFunc(c.shares, func(s share) bool {
		return c.standing(s.cluster) == spec.LastResort ||
			s.cluster.fault != nil && w.whenLost(s.cluster) == spec.LastResort
	})
	if len(c.Tiers) <= 1 && !reserve {
		return false
	}
	for of := range w.away() {
		if c.standing(of) == spec.Withdrawn {
			continue
		}
		if len(c.Tiers) == 0 ||
			slices.ContainsFunc(c.Tiers[:use], func(terms []string) bool { return c.mayName(terms, of) }) {
			return true
		}
	}
	return false
}

// grade returns how certain it is that clients hold what a cluster in that zone offers. Of an
// address that several clusters have it is only if there is nothing to choose.
func (c *choice) grade(of *cluster, addr netip.AddrPort, zone string) grade {
	s, doubtful := c.world.standing(of)
	if doubtful {
		s = max(s, c.world.whenLost(of))
	}
	if !c.Federated && s == spec.LastResort {
		s = spec.InService
	}
	tier := c.Tier(c.Federated, c.world.terms(of), zone, c.Zone)
	if s == spec.Withdrawn || tier < 0 {
		return unused
	}
	if shared(addr) && (s != spec.InService || len(c.Tiers) > 1 || c.Zoned()) {
		return unused
	}
	switch {
	case s == spec.LastResort || of.probing && c.world.behind(of):
		return reserved
	case tier == 0:
		return certain
	}
	return useful
}
