package sim

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"isthmus/e2e/proxy"
)

// audit knows, for each view that clients have of a Service, what has been on offer all the time since the last mark.
type audit struct {
	world  *world
	byBase map[string][]view // by the service that they are made of
	known  map[view]*known
}

// known is what has been on offer all the time.
type known struct {
	always map[offer]grade // the least that it has been
	// of always: what had been there all the time at the mark already. The gateway knows it for
	// certain
	before map[offer]bool
	least  int // the least that has been enough
}

func newAudit(w *world, cs *clients) *audit {
	a := &audit{world: w, byBase: map[string][]view{}, known: map[view]*known{}}
	for _, c := range cs.all {
		if v := c.view(); !slices.Contains(a.byBase[c.base()], v) {
			a.byBase[c.base()] = append(a.byBase[c.base()], v)
			a.known[v] = &known{}
		}
	}
	return a
}

// mark begins anew, with all that is on offer and what the clients have of it. Of a cluster that is
// away, or was until now, the gateway may not know yet what has gone and come again before. A
// client that waits for a first message may hold what is long gone.
func (a *audit) mark(cs *clients) {
	for v, old := range a.known {
		now := ask(a.world, v)
		k := &known{now.offers, map[offer]bool{}, now.least}
		for o := range now.offers {
			c := a.world.named(o.cluster)
			was, stayed := old.always[o]
			switch {
			case (c.shaken || spreading(c)) && !stayed:
				delete(k.always, o)
			case c.shaken || spreading(c):
				k.always[o] = min(k.always[o], was)
				k.before[o] = old.before[o]
			default:
				k.before[o] = stayed
			}
		}
		a.known[v] = k
	}
	for _, c := range a.world.clusters {
		c.shaken = c.fault != nil
	}
	for _, c := range cs.all {
		c.stream.Mark()
		c.held, c.marked = nil, false
		if now := c.stream.Status(); now.Phase != proxy.Open || now.First == nil {
			continue
		}
		c.marked = true
		c.held = slices.DeleteFunc(
			a.addrs(c.view(), certain),
			func(addr netip.AddrPort) bool { return c.stream.Flapped(addr) != nil },
		)
	}
}

// addrs are the addresses that some cluster has offered all the time, of a grade at least.
func (a *audit) addrs(v view, least grade) []netip.AddrPort {
	var list []netip.AddrPort
	for o, g := range a.known[v].always {
		if g >= least {
			list = append(list, o.addr)
		}
	}
	slices.SortFunc(list, netip.AddrPort.Compare)
	return slices.Compact(list)
}

// written removes the offers that are gone, of a service or (empty) of any.
func (a *audit) written(service string) {
	for base, all := range a.byBase {
		if service != "" && service != base {
			continue
		}
		for _, v := range all {
			now, k := ask(a.world, v), a.known[v]
			k.least = min(k.least, now.least)
			for o, was := range k.always {
				if g, ok := now.offers[o]; ok {
					k.always[o] = min(was, g)
				} else {
					delete(k.always, o)
				}
			}
		}
	}
}

// seen returns what a client has seen that no client may. Where time was short (hasty) a late message is no error: it
// is counted.
func (a *audit) seen(c *client, hasty bool) (late int, err error) {
	faults := c.stream.Status().Faults
	for _, f := range faults[c.faults:] {
		if f != proxy.LateFirst || !hasty {
			return late, fmt.Errorf("the gateway sent: %s", f)
		}
		late++
	}
	c.faults = len(faults)
	return late, errors.Join(a.flaps(c), a.dips(c))
}

// dips returns when a client had fewer endpoints than it must always have: what was there all the
// time, in whatever tiers, has to make up for what was not.
func (a *audit) dips(c *client) error {
	if c.kind != proxy.Get || !c.marked {
		return nil
	}
	k := a.known[c.view()]
	usable, inService := k.lasted()
	least := max(min(1, usable), min(k.least, inService))
	if n, after := c.stream.Fewest(); n < least {
		return fmt.Errorf(
			"%d endpoints after message %s; there always were %d that could be used, and %d had to be ready",
			n,
			after,
			usable,
			k.least,
		)
	}
	return nil
}

// lasted returns how many endpoints there have been all the time, by themselves or through some
// gateway, and how many of them in service by themselves.
func (k *known) lasted() (usable, inService int) {
	all, served := map[netip.AddrPort]bool{}, map[netip.AddrPort]bool{}
	for o, known := range k.before {
		if !known {
			continue
		}
		switch k.always[o] {
		case certain, useful:
			served[o.addr] = true
			fallthrough
		case reserved:
			all[o.addr] = true
		}
	}
	return len(all), len(served)
}

// flaps returns why a client has not had all the time what was there all the time.
func (a *audit) flaps(c *client) error {
	stayed := slices.DeleteFunc(a.addrs(c.view(), certain), func(addr netip.AddrPort) bool {
		_, held := slices.BinarySearchFunc(c.held, addr, netip.AddrPort.Compare)
		return !held
	})
	if len(stayed) == 0 {
		return nil
	}
	if err := c.stream.Flapped(stayed...); err != nil {
		return fmt.Errorf("taken away in between, though it was there all the time: %w", err)
	}
	return nil
}
