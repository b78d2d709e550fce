package sim

import (
	"cmp"
	"net/netip"
	"slices"

	"isthmus/e2e/harness/kube"
	"isthmus/internal/spec"
)

// choice is the oracle's computation for one Service: package spec decides which endpoints the
// clients of a zone get.
type choice struct {
	spec.Service
	world  *world
	shares []share // of the members whose clusters are linked and have the Service
}

// share is the part of a federated Service that one cluster offers.
type share struct {
	cluster *cluster
	service string
	slices  []spec.Slice // slices that the local cluster accepts
}

// add adds a member. A member of a cluster that is not linked has no endpoints.
func (c *choice) add(m spec.MemberName) {
	of := c.world.clusters[0]
	if m.Cluster != "" {
		of = c.world.named(m.Cluster)
	}
	if !of.linked() {
		c.Members = append(c.Members, spec.Member{Cluster: spec.Cluster{Name: m.Cluster}, Unlinked: true})
		return
	}
	standing, _ := standing(c.world, of)
	one := spec.Member{
		Cluster:   termsOf(c.world, of),
		Service:   asSpec(of).State(m.Service),
		Standings: spec.All(standing),
	}
	if one.Service == spec.Present {
		anywhere := func(netip.Addr) bool { return true }
		one.Accept(offered(c.world, of, m.Service), anywhere, func(a netip.Addr) bool { return owned(c.world, a) })
		c.shares = append(c.shares, share{of, m.Service, one.Slices})
	}
	c.Members = append(c.Members, one)
}

// termsOf returns the name and the region by which tier terms refer to a cluster.
func termsOf(w *world, c *cluster) spec.Cluster {
	if c.number == 0 {
		return spec.Cluster{Region: true}
	}
	region := regionOf(w, c)
	return spec.Cluster{Name: c.name, Region: region != "" && region == regionOf(w, w.clusters[0])}
}

// standing returns the standing of a cluster for this Service.
func (c *choice) standing(of *cluster) spec.Standing {
	s, _ := standing(c.world, of)
	return c.Applied(s)
}

// answer adds to a the endpoints that clients get.
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
	a.vague = c.vague(min(use, st.LastResort()))
	for _, s := range c.shares {
		if behind(c.world, s.cluster) {
			a.least = 1 // one Linkerd gateway may represent all Pods
		}
		for _, l := range s.slices {
			for _, e := range l.Ready {
				by := cmp.Or(e.Of.(endpoint).Target, "(gateway)")
				a.offers[offer{e.Addr, s.cluster.name, by}] = c.grade(s.cluster, e.Addr, e.Zone)
			}
		}
		c.answerLasting(a, s)
	}
}

// answerLasting adds an offer for each Pod that clients can reach on either network: directly, and
// through a Linkerd gateway.
func (c *choice) answerLasting(a *answer, s share) {
	if len(specGateways(s.cluster)) == 0 {
		return
	}
	for _, l := range asSpec(s.cluster).Backends(s.service, kube.ServicePort) {
		for _, b := range l.Ready {
			if shared(b.Addr) || owned(c.world, b.Addr.Addr()) {
				continue
			}
			if c.grade(s.cluster, b.Addr, b.Zone) > unused && c.grade(s.cluster, b.Addr, "") > unused {
				a.offers[offer{b.Addr, s.cluster.name, b.Target + eitherWay}] = reserved
			}
		}
	}
}

// eitherWay marks the offer of a Pod that clients hold either by the Pod's address or by a Linkerd
// gateway's.
const eitherWay = " (either way)"

// mayName reports whether a tier may contain endpoints of a cluster that is away. Its Nodes, and so
// its region, may have changed.
func (c *choice) mayName(terms []string, of *cluster) bool {
	return slices.ContainsFunc(terms, func(term string) bool {
		return !c.Federated || term == "zone" || term == "region" || spec.Names(term, termsOf(c.world, of), "", "")
	})
}

// vague reports whether the use of the first tiers depends on clusters that are away.
func (c *choice) vague(use int) bool {
	w := c.world
	reserve := slices.ContainsFunc(c.shares, func(s share) bool {
		return c.standing(s.cluster) == spec.LastResort ||
			s.cluster.fault != nil && settings(w, s.cluster).WhenLost == spec.LastResort
	})
	if len(c.Tiers) <= 1 && !reserve {
		return false
	}
	for of := range away(w) {
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

// grade returns how certain it is that clients hold an offer of a cluster in that zone. An address
// that several clusters use is only certain if there is just one tier and no zone preference.
func (c *choice) grade(of *cluster, addr netip.AddrPort, zone string) grade {
	s, doubtful := standing(c.world, of)
	if doubtful {
		s = max(s, settings(c.world, of).WhenLost)
	}
	s = c.Applied(s)
	tier := c.Tier(c.Federated, termsOf(c.world, of), zone, c.Zone)
	if s == spec.Withdrawn || tier < 0 {
		return unused
	}
	if shared(addr) && (s != spec.InService || len(c.Tiers) > 1 || c.Zoned()) {
		return unused
	}
	switch {
	case s == spec.LastResort || of.probing && behind(c.world, of):
		return reserved
	case tier == 0:
		return certain
	}
	return useful
}
