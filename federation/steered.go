package federation

import (
	"slices"
	"time"
)

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

// setSteering sets what steers the port's clients.
func (p *port) setSteering(st *steering) {
	if st == nil && p.steering != nil {
		for _, to := range p.all() {
			to.tiers = nil
		}
		clear(p.returning)
	}
	p.steering = st
}

// publish publishes to clients of a port what has changed for them.
func (s *watchedService) publish(p *port, clients []*published, why origin) {
	now, x := s.table.opts.Now(), newPass(p, s.table.opts.IPv6, clients...)
	for _, to := range clients {
		x.publish(to, now, why)
		s.tiers.changed = s.tiers.changed || to.tiers != nil && to.tiers.reported != to.tiers.inUse && to.client.Instance == ""
	}
}

// publish publishes to one kind of client what has changed for it.
func (x *pass) publish(to *published, now time.Time, why origin) {
	t, use := x.tally(to.client), use("")
	if x.port.steering != nil {
		use = to.decide(x.port.steering, t, now)
		if to.tiers.due.IsZero() {
			delete(x.port.returning, to)
		} else {
			x.port.returning[to] = struct{}{}
		}
	}
	x.port.publish(to, x.get(t, use, to.client), x.byHintedNode(t, use), why)
}

// decide returns how much of each tier clients of this kind get.
func (to *published) decide(st *steering, t *tally, now time.Time) use {
	old, _ := to.latest.Get()
	switch {
	case to.tiers == nil && old == nil:
		to.tiers = &tierView{steering: st}
	case to.tiers == nil:
		to.tiers = new(tierView)
		to.tiers.restart(st, t, old.Endpoints, now)
	case !to.tiers.decidedBy(st):
		to.tiers.restart(st, t, old.Endpoints, now)
	}
	return to.tiers.decide(st, t.counts, now)
}

// tick publishes what has changed by the passing of time.
func (s *watchedService) tick() {
	s.publishLocked(func() {
		now := s.table.opts.Now()
		for _, p := range s.ports {
			if p.steering != nil && !p.steering.next.IsZero() && !p.steering.next.After(now) {
				s.rebuildPort(p, s.table.inputs(s.id), false)
			}
			if p.steering != nil {
				s.publish(p, p.dueBy(now), origin{})
			}
		}
		s.settle()
	})
}

// dueBy lists the clients for whom something changes by itself at that time, or before.
func (p *port) dueBy(now time.Time) (list []*published) {
	for to := range p.returning {
		if !to.tiers.due.After(now) {
			list = append(list, to)
		}
	}
	return list
}

// settle sets when the service is due next, and reports changes of tiers. It is called once
// all ports are up to date.
func (s *watchedService) settle() {
	if !s.steered {
		return
	}
	s.steered = false
	var due time.Time
	sooner := func(at time.Time) {
		if !at.IsZero() && (due.IsZero() || at.Before(due)) {
			due = at
		}
	}
	for _, p := range s.ports {
		if p.steering == nil {
			continue
		}
		s.steered = true
		sooner(p.steering.next)
		for to := range p.returning {
			sooner(to.tiers.due)
		}
	}
	s.table.schedule.set(s, due)
	s.reportTiers()
}
