package federation

import (
	"fmt"
	"time"
)

// tierUsage records which tiers one kind of client uses, and for how long fewer tiers would have
// sufficed. Each tierUsage is guarded by the lock of its watched service. The page
// docs/preference.md explains to users how tiers work.
type tierUsage struct {
	steering *steering // used for the last decision
	inUse    int       // number of leading tiers in use; one more than all tiers includes last resort
	reported int       // inUse at the last report; until the first report, its first value
	// For n > 0, sufficed[n] is the time at which the first n tiers most recently became
	// sufficient. If the first n tiers are currently insufficient, sufficed[n] is zero. The last
	// element is the time at which tierCounts.others most recently became positive. If
	// tierCounts.others is zero, the last element is zero.
	sufficed []time.Time
	use      use       // result of the last call to decide
	due      time.Time // when use next changes, if no event changes it earlier; zero if no change is due
	counts   tierCounts
	since    time.Time // time of the last change to inUse
	why      row       // reason for that change: the shorter of the rows in use before and after the change
}

// tierCounts contains the number of endpoints in each tier. The last element is for endpoints of
// last resort.
type tierCounts struct {
	ready, known []int
	others       int // ready endpoints in tiers, except those of clusters that are partly last resort
}

// The row method returns the total counts of the first n tiers, excluding endpoints of last resort.
func (c tierCounts) row(n int) (sum row) {
	sum.tiers = min(n, len(c.ready)-1)
	for i := range sum.tiers {
		sum.ready += c.ready[i]
		sum.known += c.known[i]
	}
	return sum
}

type row struct{ tiers, ready, known int }

func (r row) describe(st *steering) string {
	names := st.preference.firstTiers(r.tiers)
	limit := st.preference.MinReady
	if limit.Percent == 0 {
		return fmt.Sprintf("%s: %d ready, min-ready is %v", names, r.ready, limit)
	}
	return fmt.Sprintf("%s: %d of %d ready, min-ready is %v", names, r.ready, r.known, limit)
}

// A value of type use contains one byte for each tier, including the tier of last resort. Each byte
// says how many parts of its tier are withheld from clients (see partOf).
type use string

// The empty string means that clients are not steered.
const everything use = ""

// use.has reports whether clients receive an endpoint of the tier at the given index.
func (u use) has(place int, e *Endpoint) bool {
	if place >= len(u) || u[place] == parts {
		return false // the endpoint is outside all tiers, or the tier is not in use
	}
	return u[place] == 0 || partOf(e) >= int(u[place])
}

func (v *tierUsage) decidedBy(st *steering) bool {
	return sameTiers(v.steering.preference.Tiers, st.preference.Tiers)
}

// restart replaces the preference. At first, clients keep all tiers that contain their current
// endpoints, even if fewer tiers suffice under the new preference.
func (v *tierUsage) restart(st *steering, t *tally, got []*Endpoint, now time.Time) {
	*v = tierUsage{steering: st, reported: v.reported}
	last := 0
	for _, e := range got {
		if place := st.tierOf(e, t.zone); place < st.tierCount {
			last = max(last, place)
		}
	}
	needed := v.needed(st, t.counts, now)
	v.setInUse(max(needed, last+1), t.counts, now)
}

// decide uses the new counts to determine what share of each tier the clients receive. Clients
// begin to use additional tiers immediately. A tier that is no longer needed is dropped part by
// part, and counts as in use until its last part is dropped.
//
// When new counts arrive, the time to drop an unneeded tier may already have passed. So that the
// result does not depend on the order of events, unneeded tiers are dropped before the new counts
// are used.
func (v *tierUsage) decide(st *steering, counts tierCounts, now time.Time) use {
	previous := v.counts
	remaining := v.withoutLeft(v.inUse, now)

	v.steering = st
	needed := v.needed(st, counts, now)
	inUse := v.withoutLeft(max(remaining, needed), now)

	switch inUse {
	case v.inUse: // no change
	case remaining:
		v.setInUse(inUse, previous, now)
	default:
		v.setInUse(inUse, counts, now)
	}
	if v.reported == 0 {
		v.reported = inUse
	}
	v.use = v.useAt(st, now)
	return v.use
}

// withoutLeft returns the number of tiers that are still in use at the given time. If clients have
// dropped all parts of a trailing tier, this tier is not counted.
func (v *tierUsage) withoutLeft(inUse int, now time.Time) int {
	for inUse > 1 && v.left(v.steering, inUse-1, now) == parts {
		inUse--
	}
	return inUse
}

// tierUsage.needed updates the times in v.sufficed, and returns how many tiers clients need. If all
// regular tiers together have too few ready endpoints, clients need all regular tiers. If only
// endpoints of last resort are ready, clients need all regular tiers and the tier of last resort.
func (v *tierUsage) needed(st *steering, counts tierCounts, now time.Time) (needed int) {
	if len(v.sufficed) != st.tierCount+2 {
		v.sufficed = make([]time.Time, st.tierCount+2)
	}
	v.counts = counts
	alone := counts.others == 0 && counts.ready[st.lastResort()] > 0
	for n := 1; n <= st.tierCount; n++ {
		row := counts.row(n)
		suffices := !alone && st.preference.MinReady.suffice(row.ready, row.known)
		if suffices && needed == 0 {
			needed = n
		}
		v.note(n, suffices, now)
	}
	v.note(st.tierCount+1, counts.others > 0, now)
	switch {
	case alone:
		return st.tierCount + 1
	case needed == 0:
		return st.tierCount
	}
	return needed
}

func (v *tierUsage) note(n int, suffices bool, now time.Time) {
	switch {
	case !suffices:
		v.sufficed[n] = time.Time{}
	case v.sufficed[n].IsZero():
		v.sufficed[n] = now
	}
}

func (v *tierUsage) setInUse(n int, counts tierCounts, now time.Time) {
	shorter := n
	if v.inUse > 0 {
		shorter = min(n, v.inUse)
	}
	v.inUse = n
	v.why = counts.row(shorter)
	v.since = now
}

// useAt returns what share of each tier the clients receive, and stores the time of the next
// change.
func (v *tierUsage) useAt(st *steering, now time.Time) use {
	list := make([]byte, st.tierCount+1)
	v.due = time.Time{}
	for i := range list {
		switch {
		case i >= v.inUse:
			list[i] = parts
		case i > 0:
			list[i] = byte(v.left(st, i, now))
			if next := v.nextLeaves(st, i, int(list[i])); !next.IsZero() && (v.due.IsZero() || next.Before(v.due)) {
				v.due = next
			}
		}
	}
	return use(list)
}

// tierUsage.left returns the number of parts of a tier that clients have dropped so far. If clients
// need the tier, or if they stopped needing it less than ReturnAfter ago, the result is zero. After
// the tier has been unnecessary for the duration ReturnAfter, clients drop the parts of the tier
// one by one. The parts are dropped at equal intervals, spread over ReturnOver.
func (v *tierUsage) left(st *steering, place int, now time.Time) int {
	since := v.unneededSince(st, place)
	if since.IsZero() {
		return 0
	}
	late := now.Sub(since) - st.preference.ReturnAfter
	over := st.preference.ReturnOver
	switch {
	case late < 0:
		return 0
	case late >= over:
		return parts
	}
	return int(late * parts / over)
}

// nextLeaves returns the time at which the next part of a tier is dropped. The last argument is the
// number of parts that have already been dropped. If the tier is needed, or if all its parts have
// been dropped, the time is zero.
func (v *tierUsage) nextLeaves(st *steering, place, left int) time.Time {
	since := v.unneededSince(st, place)
	if since.IsZero() || left == parts {
		return time.Time{}
	}
	over := st.preference.ReturnOver
	// Round up, because tierUsage.left rounds down.
	return since.Add(st.preference.ReturnAfter + (over*time.Duration(left+1)+parts-1)/parts)
}

// unneededSince returns the time at which clients stopped needing a tier. A tier is not needed
// while the tiers before it suffice. Endpoints of last resort are not needed while any other
// endpoint is ready. If the tier is needed, the time is zero.
func (v *tierUsage) unneededSince(st *steering, place int) (since time.Time) {
	if place == st.lastResort() {
		return v.sufficed[place+1]
	}
	for _, at := range v.sufficed[1 : place+1] {
		if !at.IsZero() && (since.IsZero() || at.Before(since)) {
			since = at
		}
	}
	return since
}
