package tierspec

import (
	"slices"
	"time"
)

// Link is a cluster's cordon as it is set from a time on.
type Link struct {
	At     time.Time
	Linked bool
	Cordon Standing
	Over   time.Duration
}

// Cordoned returns how far each part of a cluster is cordoned at a time, and when more parts change. Changes take
// effect part by part over a time, except the first one after the cluster was linked.
func Cordoned(links []Link, now time.Time) (list Standings, next []time.Time) {
	var from Standings
	var was Link // with the time since when it applies
	at := func(now time.Time) (list Standings, next []time.Time) {
		list = from
		n := 0
		for i := range list {
			if list[i] == was.Cordon {
				continue
			}
			n++
			if step := was.At.Add(time.Duration(n) * was.Over / Parts); step.After(now) {
				next = append(next, step)
			} else {
				list[i] = was.Cordon
			}
		}
		return list, next
	}
	for _, l := range links {
		switch {
		case !l.Linked || !was.Linked:
			from = All(l.Cordon)
		case l.Cordon != was.Cordon || l.Over != was.Over:
			from, _ = at(l.At)
		default:
			continue
		}
		was = l
	}
	return at(now)
}

// Instant is what there is from a time on.
type Instant struct {
	At time.Time
	*State
}

// Sent returns what clients get at a time, if they have watched since the first of the instants, sorted by address.
func Sent(instants []Instant, now time.Time) []Endpoint {
	return instants[len(instants)-1].finish(InUse(instants, now))
}

// InUse returns what Sent does, without the rules that come after the tiers.
func InUse(instants []Instant, now time.Time) []Endpoint {
	var seen []Instant  // since when tiers have been decided by the same preference
	var list []Endpoint // in use
	var sent []Endpoint // to clients, of list
	used := 0           // tiers
	leave := func(now time.Time) {
		for used > seen[len(seen)-1].Needed() && left(seen, used-1, now) == Parts {
			used--
		}
	}
	send := func(now time.Time) {
		st := seen[len(seen)-1]
		list = nil
		for _, e := range st.Ready {
			if tier := st.TierOf(e); tier < used && (tier == 0 || e.Part >= left(seen, tier, now)) {
				list = append(list, e)
			}
		}
		sent = st.finish(list)
	}
	for _, x := range instants {
		if len(seen) > 0 {
			leave(x.At)
		}
		switch {
		case !x.steered():
			seen, list, sent = nil, x.Ready, x.finish(x.Ready)
			continue
		case len(seen) == 0 || !sameTiers(seen[0].State, x.State):
			if len(seen) > 0 {
				send(x.At)
			}
			// What clients have got so far leaves as after a return, if a tier names it.
			seen, used = nil, 1
			for _, e := range sent {
				used = max(used, x.tierOfFormer(e)+1)
			}
		}
		seen = append(seen, x)
		used = max(used, x.Needed())
		leave(x.At)
	}
	if len(seen) > 0 {
		leave(now)
		send(now)
	}
	return list
}

// tierOfFormer returns the tier of an endpoint that clients have got; 0 if none names it now, or its cluster has no
// member any more.
func (st *State) tierOfFormer(e Endpoint) int {
	i := slices.IndexFunc(st.Members, func(m Member) bool { return m.Name == e.member.Name })
	if i < 0 {
		return 0
	}
	e.member = &st.Members[i]
	if tier := st.TierOf(e); tier < st.LastResort() {
		return tier
	}
	return 0
}

// left returns how many parts of the tier at a place have left at a time: they leave once some shorter row of tiers has
// sufficed for ReturnAfter without a break, over ReturnOver.
func left(seen []Instant, place int, now time.Time) int {
	st := seen[len(seen)-1]
	rows := []int{place + 1} // what makes last resort unneeded
	if place < st.LastResort() {
		rows = rows[:0]
		for n := 1; n <= place; n++ {
			rows = append(rows, n)
		}
	}
	var since time.Time // the longest that one has sufficed
	for _, n := range rows {
		for j := len(seen) - 1; j >= 0 && seen[j].suffices(n); j-- {
			if since.IsZero() || seen[j].At.Before(since) {
				since = seen[j].At
			}
		}
	}
	switch late := now.Sub(since) - st.ReturnAfter; {
	case since.IsZero() || late < 0:
		return 0
	case late >= st.ReturnOver:
		return Parts
	default:
		return int(late * Parts / st.ReturnOver)
	}
}
