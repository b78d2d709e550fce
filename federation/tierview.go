package federation

import (
	"fmt"
	"time"
)

// tierView is which tiers one kind of client uses, and since when it would not need all of
// them: in words for users, docs/preference.md has how that is decided. It is written under the
// watched service's lock.
type tierView struct {
	steering *steering // that decided last
	inUse    int       // how many tiers are in use, from the first; that of last resort counts as one more
	// reported is how many were in use at the last report, or were decided first.
	reported int
	// sufficed has, at each place n from 1, since when the first n tiers have sufficed without a
	// break; zero: they do not. The last place, behind all tiers, is that of last resort: since
	// when something else has been ready (tierCounts.others).
	sufficed []time.Time
	use      use       // that decide returned last
	due      time.Time // when use changes if nothing else does; zero: it does not
	counts   tierCounts
	since    time.Time // when inUse has changed, or was decided first
	why      row       // that decided it then: the shorter one, of the tiers in use before and after
}

// tierCounts are how many endpoints each tier has; the place behind the tiers is that of
// last resort.
type tierCounts struct {
	ready, known []int
	others       int // ready ones of clusters that are not, and not becoming, of last resort
}

// row sums up the first tiers, without that of last resort.
func (c tierCounts) row(n int) (sum row) {
	sum.tiers = min(n, len(c.ready)-1)
	for i := range sum.tiers {
		sum.ready += c.ready[i]
		sum.known += c.known[i]
	}
	return sum
}

// row is what the first tiers have together.
type row struct{ tiers, ready, known int }

// describe is the row in words.
func (r row) describe(st *steering) string {
	names := st.preference.firstTiers(r.tiers)
	limit := st.preference.MinReady
	if limit.Percent == 0 {
		return fmt.Sprintf("%s: %d ready, min-ready is %v", names, r.ready, limit)
	}
	return fmt.Sprintf("%s: %d of %d ready, min-ready is %v", names, r.ready, r.known, limit)
}

// use is how much of each tier clients get: a byte for each tier, with how many of its parts have
// left. If that is all parts, the tier is not in use.
type use string

// everything is the use of clients that are not steered.
const everything use = ""

// has reports whether clients get an endpoint of the tier at that place.
func (u use) has(place int, e *Endpoint) bool {
	if place >= len(u) || u[place] == parts {
		return false // no tier names it, or the tier is not in use
	}
	return u[place] == 0 || partOf(e) >= int(u[place])
}

// decidedBy reports whether the last decision was made by the same tiers.
func (v *tierView) decidedBy(st *steering) bool {
	return sameTiers(v.steering.preference.Tiers, st.preference.Tiers)
}

// restart makes the view begin anew with another preference, for clients that have got these
// endpoints so far: those of tiers that are not needed leave as others do.
func (v *tierView) restart(st *steering, t *tally, got []*Endpoint, now time.Time) {
	*v = tierView{steering: st, reported: v.reported}
	last := 0
	for _, e := range got {
		if place := st.tierOf(e, t.zone); place < st.tierCount {
			last = max(last, place)
		}
	}
	needed := v.needed(st, t.counts, now)
	v.setInUse(max(needed, last+1), t.counts, now)
}

// decide brings the view up to date with what there is, and returns what clients get: tiers that are
// needed at once, and those that are no longer needed until all their parts have left.
//
// A return can be over when counts change: both can be due at one instant, and a timer can be late. decide first
// removes the tiers that have left by the previous counts. So the result does not depend on which of the two comes
// first.
func (v *tierView) decide(st *steering, counts tierCounts, now time.Time) use {
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

// withoutLeft returns how many of the first inUse tiers remain in use when those that have left are removed. A tier
// that is needed has not left.
func (v *tierView) withoutLeft(inUse int, now time.Time) int {
	for inUse > 1 && v.left(v.steering, inUse-1, now) == parts {
		inUse--
	}
	return inUse
}

// needed notes which rows of tiers suffice now, and returns how many tiers clients need: the
// shortest row that suffices, or else all. That of last resort, too, is needed while there is nothing
// else; then no row suffices.
func (v *tierView) needed(st *steering, counts tierCounts, now time.Time) (needed int) {
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

// note notes whether a row of so many tiers suffices.
func (v *tierView) note(n int, suffices bool, now time.Time) {
	switch {
	case !suffices:
		v.sufficed[n] = time.Time{}
	case v.sufficed[n].IsZero():
		v.sufficed[n] = now
	}
}

// setInUse sets how many tiers are in use, and the counts that decided it.
func (v *tierView) setInUse(n int, counts tierCounts, now time.Time) {
	shorter := n
	if v.inUse > 0 {
		shorter = min(n, v.inUse)
	}
	v.inUse = n
	v.why = counts.row(shorter)
	v.since = now
}

// useAt returns how much of each tier clients get, and sets when that changes.
func (v *tierView) useAt(st *steering, now time.Time) use {
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

// left returns how many parts of the tier at a place have left: none for ReturnAfter since it is
// not needed, and then one after the other over ReturnOver.
func (v *tierView) left(st *steering, place int, now time.Time) int {
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

// nextLeaves returns when the next part of the tier at a place leaves, after so many; zero: none will.
func (v *tierView) nextLeaves(st *steering, place, left int) time.Time {
	since := v.unneededSince(st, place)
	if since.IsZero() || left == parts {
		return time.Time{}
	}
	over := st.preference.ReturnOver
	// Rounded up: left rounds down.
	return since.Add(st.preference.ReturnAfter + (over*time.Duration(left+1)+parts-1)/parts)
}

// unneededSince returns since when the tier at a place has not been needed: a row before it has
// sufficed, or of last resort, something else has been ready. Zero: it is needed.
func (v *tierView) unneededSince(st *steering, place int) (since time.Time) {
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
