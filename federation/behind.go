package federation

import "slices"

// linkerdGateways are what a member behind Linkerd gateways has on offer.
type linkerdGateways struct {
	*Slice
	cluster ClusterName
}

// linkerdGateways returns what of the offers counts with what is behind it.
func (p *port) linkerdGateways() (list []linkerdGateways) {
	for _, o := range p.offers {
		for _, l := range o.offer {
			if l.Behind != nil {
				list = append(list, linkerdGateways{l, p.members[o.member].member.Cluster})
			}
		}
	}
	return list
}

// countBehind makes Linkerd gateways count with what is behind them, of which the addresses in the
// list have been counted. However many of a member's gateways are left, all of it can be
// reached. Clients of an instance have no gateways.
func (x *pass) countBehind(t *tally, counted []*Endpoint, c Client) {
	st, counts := x.port.steering, &t.counts
	if len(x.linkerdGateways) == 0 || c.Instance != "" {
		return
	}
	counts.ready, counts.known = slices.Clone(counts.ready), slices.Clone(counts.known)
	for _, g := range x.linkerdGateways {
		n, some := 0, &Endpoint{Cluster: g.cluster}
		for _, e := range g.Endpoints {
			some = e // all have the same standing, and are in no zone
			if i, ok := find(counted, e.Addr); ok && counted[i].Equal(e) {
				n++
			}
		}
		place := st.tierOf(some, "")
		if place == st.unnamed() {
			continue
		}
		ready := 0 // without an address of its own that is served, it can't be reached
		if n > 0 {
			ready = g.Behind.Ready
		}
		counts.ready[place] += ready - n
		counts.known[place] += ready - n
		if st.countsUnready() {
			counts.known[place] += g.Behind.Ready - ready + g.Behind.Unready
		}
		if place < st.tiers && !st.byCluster[g.cluster].partlyLastResort {
			counts.others += ready - n
		}
	}
}

// part is the part of it that so many of the addresses stand for, rounded up.
func (b *Behind) part(addresses, of int) *Behind {
	if b == nil || addresses == of {
		return b
	}
	share := func(n int) int { return (n*addresses + of - 1) / of }
	return &Behind{share(b.Ready), share(b.Unready)}
}

// sameBehind reports whether the same is behind the gateways of two offers.
func sameBehind(a, b offer) bool {
	count := func(o offer) (n Behind) {
		for _, l := range o {
			if l.Behind != nil {
				n.Ready, n.Unready = n.Ready+l.Behind.Ready, n.Unready+l.Behind.Unready
			}
		}
		return n
	}
	return count(a) == count(b)
}
