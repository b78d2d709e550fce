package spec

import (
	"time"
)

// Link says whether a cluster is linked and which cordon, if any, applies to the cluster. A Link
// applies from its At time until the At time of the next Link.
type Link struct {
	At     time.Time
	Linked bool
	Cordon Standing
	Over   time.Duration
}

// Cordoned returns the current standing of each part of a cluster, and the times at which the
// standing of a part will change. A cordon that exists when the cluster is linked takes effect
// immediately. A later change to the cordon affects one part of the cluster at a time.
func Cordoned(links []Link, now time.Time) (list Standings, next []time.Time) {
	var from Standings
	var was Link // the current link; At is when it took effect
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

type Instant struct {
	At time.Time
	*State
}

// Sent returns the endpoints that clients have at the given time, sorted by address. The result
// assumes that clients have watched the service since the first of the given instants.
func Sent(instants []Instant, now time.Time) []Endpoint {
	return instants[len(instants)-1].finish(InUse(instants, now))
}

// InUse returns the endpoints in the tiers that are in use. Unlike [Sent], InUse includes endpoints
// that clients do not receive because of hints or IP families.
func InUse(instants []Instant, now time.Time) []Endpoint {
	var seen []Instant  // instants since the tiers of the preference last changed
	var list []Endpoint // endpoints in use
	var sent []Endpoint // the part of list that clients get
	used := 0           // number of tiers in use
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
			seen = nil
			list = x.Ready
			sent = x.finish(x.Ready)
			continue
		case len(seen) == 0 || !sameTiers(seen[0].State, x.State):
			if len(seen) > 0 {
				send(x.At)
			}
			// Clients continue to use all tiers that contain their current endpoints. If clients no
			// longer need a tier, they drop the tier gradually, just as they do when they fail
			// back.
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

// Clients stop using a tier gradually. The result is the number of parts of the tier that clients
// have already dropped. Once clients have not needed a tier for ReturnAfter, they drop the parts of
// the tier one by one, at equal intervals spread over ReturnOver.
func left(seen []Instant, place int, now time.Time) int {
	st := seen[len(seen)-1]
	rows := []int{place + 1} // the row that makes the last-resort tier unnecessary
	if place < st.LastResort() {
		rows = rows[:0]
		for n := 1; n <= place; n++ {
			rows = append(rows, n)
		}
	}
	var since time.Time // earliest time since which one of the rows has been enough
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
