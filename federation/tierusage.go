package federation

import (
	"fmt"
	"time"
)

// tierUsage records which tiers one kind of client uses, and how long fewer tiers have sufficed. The
// file docs/preference.md describes the rules for users. A tierUsage is guarded by the lock of its
// watched service.
type tierUsage struct {
	steering *steering // steering of the last decision
	inUse    int       // number of tiers in use, from the first; last resort counts as one more
	// The reported field is the value of inUse at the last report. Before the first report, the
	// field is the first value of inUse.
	reported int
	// For n from 1, sufficed[n] is the time from which the first n tiers have sufficed without
	// interruption. If the first n tiers do not suffice, sufficed[n] is zero. The last element is
	// for last resort: it is the time from which an endpoint in service has been ready (see
	// tierCounts.others).
	sufficed []time.Time
	use      use       // result of the last call of decide
	due      time.Time // when use changes unless something else does; zero if it does not
	counts   tierCounts
	since    time.Time // when inUse changed last or was first decided
	why      row       // reason for that change: the shorter of the rows in use before and after
}

// tierCounts contains the number of endpoints in each tier. The element after the last tier is for
// endpoints of last resort.
type tierCounts struct {
	ready, known []int
	others       int // ready endpoints in tiers, of clusters without parts of last resort
}

// row returns the sums for the first n tiers. The sums never include endpoints of last resort.
func (c tierCounts) row(n int) (sum row) {
	sum.tiers = min(n, len(c.ready)-1)
	for i := range sum.tiers {
		sum.ready += c.ready[i]
		sum.known += c.known[i]
	}
	return sum
}

// row contains the sums for the leading tiers.
type row struct{ tiers, ready, known int }

// describe returns the row as text for users.
func (r row) describe(st *steering) string {
	names := st.preference.firstTiers(r.tiers)
	limit := st.preference.MinReady
	if limit.Percent == 0 {
		return fmt.Sprintf("%s: %d ready, min-ready is %v", names, r.ready, limit)
	}
	return fmt.Sprintf("%s: %d of %d ready, min-ready is %v", names, r.ready, r.known, limit)
}

// A use says how much of each tier clients receive. The string contains one byte per tier, which is
// the number of parts of the tier that clients no longer use. If clients no longer use any part of
// a tier, the tier is not in use.
type use string

// This use value applies to clients that are not steered.
const everything use = ""

// The has method reports whether clients receive the endpoint, which belongs to the tier at the
// given index.
func (u use) has(place int, e *Endpoint) bool {
	if place >= len(u) || u[place] == parts {
		return false // no tier names the endpoint, or the tier is not in use
	}
	return u[place] == 0 || partOf(e) >= int(u[place])
}

// decidedBy reports whether the last decision was based on the same tiers as those of the given
// steering.
func (v *tierUsage) decidedBy(st *steering) bool {
	return sameTiers(v.steering.preference.Tiers, st.preference.Tiers)
}

// restart restarts the view with another preference. The third argument contains the clients'
// current endpoints. The usual rules apply to dropping the tiers of these endpoints.
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

// decide updates the view with new counts, and returns how much of each tier clients receive. Tiers
// that are needed come into use immediately. Tiers that are no longer needed stay in use until all
// their parts have been dropped.
//
// When counts change, a tier may already be due to be dropped. A change to the counts can coincide
// with the time at which a tier is due to be dropped, or the timer can be late. Before it uses the
// new counts, decide drops the tiers that were due according to the previous counts. The result is
// the same regardless of which of the two events is processed first.
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

// withoutLeft returns how many of the first inUse tiers remain after tiers whose parts have all
// been dropped are removed. Tiers that are needed always remain.
func (v *tierUsage) withoutLeft(inUse int, now time.Time) int {
	for inUse > 1 && v.left(v.steering, inUse-1, now) == parts {
		inUse--
	}
	return inUse
}

// needed records how many leading tiers suffice now. The result is the number of tiers that clients
// need: the smallest number that suffices, or all tiers if even these do not suffice. While only
// endpoints of last resort are ready, clients need all tiers and last resort.
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

// note records whether the first n tiers suffice.
func (v *tierUsage) note(n int, suffices bool, now time.Time) {
	switch {
	case !suffices:
		v.sufficed[n] = time.Time{}
	case v.sufficed[n].IsZero():
		v.sufficed[n] = now
	}
}

// setInUse sets the number of tiers in use, and records the counts that led to this number.
func (v *tierUsage) setInUse(n int, counts tierCounts, now time.Time) {
	shorter := n
	if v.inUse > 0 {
		shorter = min(n, v.inUse)
	}
	v.inUse = n
	v.why = counts.row(shorter)
	v.since = now
}

// useAt returns how much of each tier clients receive, and stores the time of the next change.
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

// left returns how many parts of the tier at the given index have been dropped. The first part is
// dropped when the tier has not been needed for ReturnAfter. The other parts are dropped one at a
// time over ReturnOver.
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

// nextLeaves returns when the next part of a tier is dropped, if the given number of parts has
// already been dropped. If no further part will be dropped, the result is zero.
func (v *tierUsage) nextLeaves(st *steering, place, left int) time.Time {
	since := v.unneededSince(st, place)
	if since.IsZero() || left == parts {
		return time.Time{}
	}
	over := st.preference.ReturnOver
	// The division rounds up, because the left method rounds down.
	return since.Add(st.preference.ReturnAfter + (over*time.Duration(left+1)+parts-1)/parts)
}

// unneededSince returns the time from which the tier at the given index has not been needed. A tier
// is not needed while the tiers before it suffice. Last resort is not needed while another endpoint
// is ready. If the tier is needed, the result is zero.
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
