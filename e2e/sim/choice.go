package sim

import (
	"net/netip"
	"slices"
)

// choice is how the oracle decides which endpoints clients in a zone get of a service.
type choice struct {
	world      *world
	zone       string // of the clients
	preference preference
	single     bool    // the service has one member, whatever there is
	shares     []share // of its members, in order of precedence
}

func (c *choice) add(m member) { c.shares = append(c.shares, c.world.share(m.cluster, m.service)) }

// standing returns how far a cluster is taken out of this service. From a service that has nothing else to offer, last resort
// takes nothing out.
func (c *choice) standing(of *cluster) standing {
	s, _ := c.world.standing(of)
	if c.single && s == lastResort {
		return inService
	}
	return s
}

// tier returns the first that names such an endpoint; -1: none does.
func (c *choice) tier(of *cluster, zone string) int {
	if len(c.preference.tiers) == 0 {
		return 0
	}
	return c.world.tier(&c.preference, c.single, of, zone, c.zone)
}

// named reports whether a tier can name endpoints of a cluster, of some zone, for some clients.
func (c *choice) named(of *cluster) bool { return c.zoned() || c.tier(of, "") >= 0 }

func (c *choice) zoned() bool {
	return slices.ContainsFunc(c.preference.tiers, func(terms []string) bool { return slices.Contains(terms, "zone") })
}

// tierCount is what a tier has.
type tierCount struct{ ready, known int }

// answer adds what clients get to an answer.
func (c *choice) answer(a *answer) {
	tierOf, counts, inReserve := c.merge(a), make([]tierCount, max(1, len(c.preference.tiers))), 0
	for addr, tier := range tierOf {
		switch {
		case tier == len(counts):
			inReserve++
		case a.served[addr].labels[authorityLabel] == "": // not a gateway
			counts[tier].ready++
			counts[tier].known++
		}
	}
	c.countBehind(counts)
	for addr, at := range c.unready() {
		ready, served := tierOf[addr]
		if tier := c.tier(at.of, at.zone); tier >= 0 && (!served || ready == len(counts)) {
			counts[tier].known++
		}
	}
	use := c.enough(counts)
	if ready := sum(counts).ready; ready == 0 && inReserve > 0 {
		use++
	}
	for addr, tier := range tierOf {
		if tier < use {
			a.endpoints[addr] = a.served[addr]
		}
	}
	a.least = max(1, c.preference.count)
	if slices.ContainsFunc(c.shares, func(s share) bool { return s.behind != nil }) {
		a.least = 1 // one gateway may stand for all
	}
	a.vague = c.vague(min(use, len(counts)))
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

// eitherWay marks the offer of a Pod as that of some way to it: the Pod's address, or a gateway's. Clients may hold any.
const eitherWay = " (either way)"

// countBehind counts what can be reached through gateways: all of it, if one of them is served.
func (c *choice) countBehind(counts []tierCount) {
	for _, s := range c.shares {
		tier := c.tier(s.cluster, "")
		if s.behind == nil || tier < 0 || c.standing(s.cluster) != inService {
			continue
		}
		if len(s.ready) > 0 {
			counts[tier].ready += s.behind.ready
		}
		counts[tier].known += s.behind.known
	}
}

// merge notes what is served if all tiers are in use, one endpoint for each address: those in service first, and then in
// order of precedence. It returns their tiers; that of last resort is behind all others.
func (c *choice) merge(a *answer) (tierOf map[netip.AddrPort]int) {
	tierOf = map[netip.AddrPort]int{}
	taken := map[netip.AddrPort]bool{}
	for _, now := range []standing{inService, lastResort} {
		for _, s := range c.shares {
			if c.standing(s.cluster) != now || !c.named(s.cluster) {
				continue
			}
			for addr, e := range s.ready {
				tier := c.tier(s.cluster, e.zone)
				if !taken[addr] && tier >= 0 {
					if now == lastResort {
						tier = max(1, len(c.preference.tiers))
					}
					a.served[addr], tierOf[addr] = e, tier
				}
				taken[addr] = true
			}
		}
	}
	return tierOf
}

// place is where an endpoint is.
type place struct {
	of   *cluster
	zone string
}

// unready returns the addresses that are known and not ready, of clusters in service.
func (c *choice) unready() map[netip.AddrPort]place {
	list := map[netip.AddrPort]place{}
	for _, s := range c.shares {
		if c.standing(s.cluster) != inService || !c.named(s.cluster) {
			continue
		}
		for addr, zone := range s.known {
			if _, ready := s.ready[addr]; ready {
				continue
			}
			if _, taken := list[addr]; !taken {
				list[addr] = place{s.cluster, zone}
			}
		}
	}
	return list
}

// enough returns how many tiers are in use.
func (c *choice) enough(counts []tierCount) int {
	for n := range counts {
		if row := sum(counts[:n+1]); c.preference.suffices(row.ready, row.known) {
			return n + 1
		}
	}
	return len(counts)
}

func sum(counts []tierCount) (row tierCount) {
	for _, n := range counts {
		row.ready += n.ready
		row.known += n.known
	}
	return row
}

// vague reports whether it depends on what is away whether so many tiers are in use.
func (c *choice) vague(use int) bool {
	w := c.world
	reserve := slices.ContainsFunc(c.shares, func(s share) bool {
		return c.standing(s.cluster) == lastResort || s.cluster.fault != nil && w.whenLost(s.cluster) == lastResort
	})
	if len(c.preference.tiers) <= 1 && !reserve {
		return false
	}
	for of := range w.away() {
		if c.standing(of) == withdrawn {
			continue
		}
		if len(c.preference.tiers) == 0 || slices.ContainsFunc(c.preference.tiers[:use], func(terms []string) bool { return w.mayName(terms, of, c.single) }) {
			return true
		}
	}
	return false
}

// grade returns how certain it is that clients hold what a cluster in that zone offers. Of an address that several clusters have
// it is only if there is nothing to choose.
func (c *choice) grade(of *cluster, addr netip.AddrPort, zone string) grade {
	s, doubtful := c.world.standing(of)
	if doubtful {
		s = max(s, c.world.whenLost(of))
	}
	if c.single && s == lastResort {
		s = inService
	}
	tier := c.tier(of, zone)
	if s == withdrawn || tier < 0 {
		return unused
	}
	if shared(addr) && (s != inService || len(c.preference.tiers) > 1 || c.zoned()) {
		return unused
	}
	switch {
	case s == lastResort || of.probing && c.world.behind(of):
		return reserved
	case tier == 0:
		return certain
	}
	return useful
}
