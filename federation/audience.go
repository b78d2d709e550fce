package federation

import (
	"slices"
	"time"
)

// audience holds the sets of endpoints that a port publishes to clients of the whole service, or to
// clients of one instance. The key is the name of the clients' node, or empty for clients without a
// node.
type audience map[string][]*published

func (a audience) find(c Client) *published {
	if i := slices.IndexFunc(a[c.Node], func(to *published) bool { return to.client == c }); i >= 0 {
		return a[c.Node][i]
	}
	return nil
}

// The clients method appends the entries for the clients on the given nodes to the given list. If
// nodes is nil, the method appends the entries for all clients. Clients without a node come first,
// as Set.HintedTo requires.
func (a audience) clients(list []*published, nodes map[string]bool) []*published {
	if nodes == nil {
		list = append(list, a[""]...)
		for node, of := range a {
			if node != "" {
				list = append(list, of...)
			}
		}
	}
	for node := range nodes {
		list = append(list, a[node]...)
	}
	return list
}

// unlessHinted appends the clients on the given nodes, and all clients whose endpoints are not
// determined by node hints.
func (a audience) unlessHinted(list []*published, nodes map[string]bool) []*published {
	for _, to := range a.clients(nil, nil) {
		if set, _ := to.latest.Get(); nodes[to.client.Node] || !set.Hinted {
			list = append(list, to)
		}
	}
	return list
}

type published struct {
	client    Client // fixed
	refs      int    // number of watches
	latest    Latest[*Set]
	tierUsage *tierUsage        // nil unless the port is steered
	steering  Latest[*steering] // the port's steering, for Set.Tiers
}

// decideTiers decides what share of each tier the clients receive from now on. When steering
// begins, clients keep the tiers of their current endpoints until these tiers are no longer needed.
func (to *published) decideTiers(st *steering, t *tally, now time.Time) use {
	old, _ := to.latest.Get()
	switch {
	case to.tierUsage == nil && old == nil:
		to.tierUsage = &tierUsage{steering: st}
	case to.tierUsage == nil:
		to.tierUsage = new(tierUsage)
		to.tierUsage.restart(st, t, old.Endpoints, now)
	case !to.tierUsage.decidedBy(st):
		to.tierUsage.restart(st, t, old.Endpoints, now)
	}
	return to.tierUsage.decide(st, t.counts, now)
}

func (to *published) publish(set Set, st *steering) {
	to.publishSteering(st)
	if old, _ := to.latest.Get(); old != nil {
		if old.equal(&set) {
			return
		}
		set.Version = old.Version + 1
	}
	to.latest.Set(new(set))
}

func (to *published) publishSteering(st *steering) {
	var old *steering
	if c := to.steering.p.Load(); c != nil {
		// Latest.Get is not used here, because it would allocate a channel for each set, even if
		// Set.Tiers is never called.
		old = c.value
	}
	if !old.alike(st) {
		to.steering.Set(st)
	}
}
