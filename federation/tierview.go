package federation

import "time"

// tierView is which tiers one kind of client uses, and since when it would not need all of
// them. It is written under the watched service's lock.
type tierView struct {
	tiers []Tier // that it has been decided by
	used  int    // the tiers in use: so many, from the first. That of last resort counts as one more
	// before is how many were in use at the last report, or were decided first.
	before int
	// enough[i] is since when a row of at most i tiers has sufficed without a break; zero:
	// none does. Places 1 to the number of tiers; the last is for that of last resort, which
	// is not needed while anything else is ready (tierCounts.others).
	enough []time.Time
	chosen cut       // what decide returned last
	due    time.Time // when the choice changes if nothing else does; zero: it does not
	counts tierCounts
	since  time.Time // when used has changed, or was decided first
	why    row       // that decided it then: the shorter one, of the tiers in use before and after
}

// tierCounts are how many endpoints each tier has; the place behind the tiers is that of
// last resort.
type tierCounts struct {
	ready, known []int
	others       int // ready ones of clusters that are not, and not becoming, of last resort
}

// row is what the first tiers have together.
type row struct{ tiers, ready, known int }

// cut is which endpoints of each tier clients get: one byte a tier, the number of parts that
// are left out.
type cut string

// decide brings the view up to date with what there is, and returns what clients get.
func (v *tierView) decide(st *steering, counts tierCounts, now time.Time) cut {
	want := v.count(st, counts, now)
	used := max(v.used, want)
	for used > want && v.gone(st, used-1, now) == parts {
		used--
	}
	if used != v.used {
		v.use(used, now)
	}
	if v.before == 0 {
		v.before = used
	}
	v.chosen = v.cut(st, now)
	return v.chosen
}

// use sets how many tiers are in use.
func (v *tierView) use(n int, now time.Time) {
	shorter := n
	if v.used > 0 {
		shorter = min(n, v.used)
	}
	v.used, v.why, v.since = n, v.counts.row(shorter), now
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

// count notes which rows of tiers suffice, and returns how many tiers are needed.
func (v *tierView) count(st *steering, counts tierCounts, now time.Time) (want int) {
	n := st.tiers
	if len(v.enough) != n+2 {
		v.enough = make([]time.Time, n+2)
	}
	v.counts = counts
	alone := counts.others == 0 && counts.ready[st.lastResort()] > 0 // no row is enough then
	ready, known := 0, 0
	for i := range n {
		ready, known = ready+counts.ready[i], known+counts.known[i]
		suffices := !alone && st.preference.MinReady.suffice(ready, known)
		if suffices && want == 0 {
			want = i + 1
		}
		v.note(i+1, suffices, now)
	}
	v.note(n+1, counts.others > 0, now)
	switch {
	case alone:
		return n + 1
	case want == 0:
		return n
	}
	return want
}

func (v *tierView) note(i int, suffices bool, now time.Time) {
	switch {
	case !suffices:
		v.enough[i] = time.Time{}
	case v.enough[i].IsZero():
		v.enough[i] = now
	}
}

// unneeded returns since when a tier, by its place, has not been needed; zero: it is.
func (v *tierView) unneeded(st *steering, i int) (since time.Time) {
	if i == st.lastResort() {
		return v.enough[i+1]
	}
	for _, t := range v.enough[1 : i+1] {
		if !t.IsZero() && (since.IsZero() || t.Before(since)) {
			since = t
		}
	}
	return since
}

// gone returns how many parts of a tier have been dropped: parts if it is as good as not in
// use.
func (v *tierView) gone(st *steering, i int, now time.Time) int {
	since := v.unneeded(st, i)
	if since.IsZero() {
		return 0
	}
	late, over := now.Sub(since)-st.preference.ReturnAfter, st.preference.ReturnOver
	switch {
	case late < 0:
		return 0
	case late >= over:
		return parts
	}
	return int(late * parts / over)
}

// cut returns which endpoints clients get, and sets when that changes.
func (v *tierView) cut(st *steering, now time.Time) cut {
	list := make([]byte, st.tiers+1)
	v.due = time.Time{}
	for i := range list {
		switch {
		case i >= v.used:
			list[i] = parts
		case i > 0:
			list[i] = byte(v.gone(st, i, now))
			if next := v.next(st, i, int(list[i])); !next.IsZero() && (v.due.IsZero() || next.Before(v.due)) {
				v.due = next
			}
		}
	}
	return cut(list)
}

// next returns when the next part of a tier will be dropped, after so many; zero: none will.
func (v *tierView) next(st *steering, i, gone int) time.Time {
	since := v.unneeded(st, i)
	if since.IsZero() || gone == parts {
		return time.Time{}
	}
	over := st.preference.ReturnOver
	// Rounded up: gone rounds down.
	return since.Add(st.preference.ReturnAfter + (over*time.Duration(gone+1)+parts-1)/parts)
}

// restart makes the view begin anew with another preference, for clients that have got these
// endpoints so far: those of tiers that are not needed leave as others do.
func (v *tierView) restart(st *steering, t *tally, got []*Endpoint, now time.Time) {
	*v = tierView{tiers: st.preference.Tiers, before: v.before}
	last := 0
	for _, e := range got {
		if i := st.tierOf(e, t.zone); i < st.tiers {
			last = max(last, i)
		}
	}
	want := v.count(st, t.counts, now)
	v.use(max(want, last+1), now)
}

// decidedBy reports whether the view has been decided by these tiers.
func (v *tierView) decidedBy(st *steering) bool { return sameTiers(v.tiers, st.preference.Tiers) }
