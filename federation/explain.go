package federation

import "maps"

// Tiers knows which tier of the service's preference each endpoint of a set belongs to.
// The zero value knows none. Values are comparable: they differ if any tier or standing
// does.
type Tiers struct{ by *steering }

// Tiers returns those of the set's service now, and a channel that is closed once they
// change: that changes no set.
func (s *Set) Tiers() (Tiers, <-chan struct{}) {
	st, changed := s.steering.Get()
	return Tiers{st}, changed
}

// Of returns the tier, in words, for which clients in that zone get an endpoint, and its
// cluster's standing. It is not ok if clients simply get everything.
func (t Tiers) Of(e *Endpoint, zone string) (tier string, standing Standing, ok bool) {
	if t.by == nil {
		return "", InService, false
	}
	i := t.by.tierOf(e, zone)
	if i == t.by.unnamed() {
		return "", InService, false // the set is about to be replaced
	}
	return t.by.preference.tierName(i), t.by.byCluster[e.Cluster].standingOf(e), true
}

// publishSteering stores what Set.Tiers returns, if it differs from before.
func (to *published) publishSteering(st *steering) {
	var old *steering
	if c := to.steering.p.Load(); c != nil { // not Get, which would make a channel for each: few sets are asked for their tiers
		old = c.value
	}
	if !old.alike(st) {
		to.steering.Set(st)
	}
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
	return p.tier == o.tier && p.standing == o.standing && (p.spread == nil) == (o.spread == nil) && (p.spread == nil || *p.spread == *o.spread)
}
