package sim

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"isthmus/e2e/proxy"
)

// audit records, for each view of a Service that clients have, which offers have lasted since the
// last mark.
type audit struct {
	world  *world
	byBase map[string][]view // key: the service that the view belongs to
	known  map[view]*known
}

// known is the state of one view since the last mark.
type known struct {
	always map[offer]grade // offers that lasted, with the lowest grade of each
	// before says whether an offer of always had already lasted at the mark. Isthmus certainly
	// knows such an offer.
	before map[offer]bool
	least  int // lowest number of endpoints that sufficed
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

// mark starts a new period with all current offers, and records which of them each client holds. If
// a cluster has or had a fault, or a cordon is in progress, its offers only count if they lasted
// through the old period. Isthmus may not have seen yet that such an offer was deleted and created
// again. A client that has no first message yet is not checked, since its endpoints may be old.
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

// addrs returns the addresses with an offer that lasted with a grade of at least least.
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

// written removes the offers that ended from the views of a service, or from all views if service
// is empty.
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

// seen returns an error if the client was sent something that violates a rule. If hasty is set, a
// late message is not an error, but counted.
func (a *audit) seen(c *client, hasty bool) (late int, err error) {
	faults := c.stream.Status().Faults
	for _, f := range faults[c.faults:] {
		if f != proxy.LateFirst || !hasty {
			return late, fmt.Errorf("invalid message from Isthmus: %s", f)
		}
		late++
	}
	c.faults = len(faults)
	return late, errors.Join(a.flaps(c), a.dips(c))
}

// dips returns an error if a client had too few endpoints at some time. Endpoints that lasted, in
// any tier, must make up for those that did not.
func (a *audit) dips(c *client) error {
	if c.kind != proxy.Get || !c.marked {
		return nil
	}
	k := a.known[c.view()]
	usable, inService := k.lasted()
	least := max(min(1, usable), min(k.least, inService))
	if n, after := c.stream.Fewest(); n < least {
		return fmt.Errorf(
			"%d endpoints after message %s: %d were usable without interruption, and %d had to be ready",
			n,
			after,
			usable,
			k.least,
		)
	}
	return nil
}

// lasted counts the endpoints that lasted, as Pods or through a Linkerd gateway. The number
// inService counts only those in service as Pods.
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

// flaps returns an error if an endpoint that lasted was removed from a client.
func (a *audit) flaps(c *client) error {
	stayed := slices.DeleteFunc(a.addrs(c.view(), certain), func(addr netip.AddrPort) bool {
		_, held := slices.BinarySearchFunc(c.held, addr, netip.AddrPort.Compare)
		return !held
	})
	if len(stayed) == 0 {
		return nil
	}
	if err := c.stream.Flapped(stayed...); err != nil {
		return fmt.Errorf("an endpoint that was available without interruption was removed: %w", err)
	}
	return nil
}
