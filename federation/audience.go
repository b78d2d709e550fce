package federation

import (
	"slices"
	"time"
)

// audience is what is published of a port to the clients of the service, or of one
// instance of it, by their node.
type audience map[string][]*published

// find returns what is published for one kind of client; nil: it is not there.
func (a audience) find(c Client) *published {
	if i := slices.IndexFunc(a[c.Node], func(to *published) bool { return to.client == c }); i >= 0 {
		return a[c.Node][i]
	}
	return nil
}

// clients appends the kinds of clients of these nodes to a list. If nodes is nil, it appends those of all nodes:
// first those without node, as Set.HintedTo says.
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

// unlessHinted is clients(list, nil) without those for which node hints choose endpoints, unless they are on
// one of these nodes.
func (a audience) unlessHinted(list []*published, nodes map[string]bool) []*published {
	for _, to := range a.clients(nil, nil) {
		if set, _ := to.latest.Get(); nodes[to.client.Node] || !set.Hinted {
			list = append(list, to)
		}
	}
	return list
}

// published is the newest set for one kind of client.
type published struct {
	client   Client // fixed
	refs     int    // watches
	latest   Latest[*Set]
	tierView *tierView         // nil unless the port is steered
	steering Latest[*steering] // of the port, for Set.Tiers
}

// decideTiers returns how much of each tier clients of this kind use now. Clients that begin to be steered
// keep what they have until they no longer need it.
func (to *published) decideTiers(st *steering, t *tally, now time.Time) use {
	old, _ := to.latest.Get()
	switch {
	case to.tierView == nil && old == nil:
		to.tierView = &tierView{steering: st}
	case to.tierView == nil:
		to.tierView = new(tierView)
		to.tierView.restart(st, t, old.Endpoints, now)
	case !to.tierView.decidedBy(st):
		to.tierView.restart(st, t, old.Endpoints, now)
	}
	return to.tierView.decide(st, t.counts, now)
}

// publish publishes what Set.Tiers returns, and the set, if these differ from what was published last.
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

// publishSteering publishes what Set.Tiers returns, if it differs from before.
func (to *published) publishSteering(st *steering) {
	var old *steering
	if c := to.steering.p.Load(); c != nil {
		// Not Get, which would make a channel for each set: few sets are asked for their tiers.
		old = c.value
	}
	if !old.alike(st) {
		to.steering.Set(st)
	}
}
