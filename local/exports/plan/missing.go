package plan

import (
	"time"
)

// A cluster that loses more than half of its members within massTime, and massParts at least, has more likely been
// restored from an old backup than cleaned up.
const (
	massMembers = 10
	massTime    = time.Minute
)

// kindTime is how long the member of a ServiceExport in a ServiceImport stays after the ServiceExport
// or its Service has been deleted. If the kind itself is removed, its objects disappear one by one
// before the removal shows. A Service that is replaced is missing for a moment.
const kindTime = 3 * time.Second

// Memory is what a plan takes over from the plan before it. The zero value is that of a leader that has just begun.
//
// Anybody who may create Services in one namespace can forge the mark and name any cluster in an object. So Memory
// tells members that an export asked for from members that only an object names.
type Memory struct {
	// seen holds the members that an export asked for while this leader led, and that are still wanted or kept. The
	// value says whether the member has a place in the limits.
	seen map[memberKey]bool
	// lost holds the members that no export asks for any more, while an object has them and for massTime at least.
	lost map[memberKey]loss
	// unlinked says when this leader first saw a member of a cluster that is not linked.
	unlinked map[memberKey]time.Time
	// crowded says when this leader first saw an object that has more members of clusters that are
	// not linked than the plan follows.
	crowded map[group]time.Time
	// links says when this leader first saw that a link was deleted. It holds all links; the time
	// of one that exists is zero.
	links map[string]time.Time
	// nameless says since when the name of a mirror that exists belongs to another link.
	nameless map[memberKey]time.Time
	// imports holds what this leader remembers of ServiceImports that have members.
	imports map[ID]*history
}

// loss is when a member was lost, and until when it stays. Once that is over it does not begin anew, however long it
// takes to remove the member.
type loss struct {
	since, until time.Time
	seen         bool // an export asked for the member while this leader led
	placed       bool // the member has a place in the limits
}

func newMemory() Memory {
	return Memory{
		seen:     make(map[memberKey]bool),
		lost:     make(map[memberKey]loss),
		unlinked: make(map[memberKey]time.Time),
		crowded:  make(map[group]time.Time),
		links:    make(map[string]time.Time),
		nameless: make(map[memberKey]time.Time),
		imports:  make(map[ID]*history),
	}
}

// keeper is the stage of Make that decides on members that no export asks for.
type keeper struct{ *maker }

// keepMissing decides on members that objects have and that no export asks for: they are kept, held or removed.
func (m keeper) keepMissing() {
	offered := m.offered()
	m.carryLosses(offered)
	var missing []memberKey // in objects, of clusters in sync
	for g, had := range m.named {
		for _, name := range had.clusters {
			what := memberKey{g, name}
			c := m.clusters[name]
			switch {
			case offered[what]:
			case c == nil && m.confirmed(what):
				m.keepUnlinked(what)
			case c == nil:
				m.unlinked[g] = append(m.unlinked[g], name)
			case !m.allowed(c, g): // by a flag or annotation
			case c.Joins != Unreadable && !m.hasItsName(g) &&
				(!m.knows(c, g.kind) || m.verdicts[what].State == NameRefused):
				m.holdNameless(what)
			case !m.knows(c, g.kind):
				m.keep(what, Kept, time.Time{})
			case had.marked: // what has no mark is not adopted then: place sees to it
				missing = append(missing, what)
				m.lose(what)
			}
		}
	}
	m.removeOrHold(missing, offered)
}

// offered returns the members that exports ask for.
func (m keeper) offered() map[memberKey]bool {
	all := make(map[memberKey]bool)
	for g, members := range m.members {
		for _, p := range members {
			all[memberKey{g, p.cluster}] = true
		}
	}
	return all
}

// carryLosses takes over losses from the plan before, and records members of known clusters that an
// export asked for until now.
func (m keeper) carryLosses(offered map[memberKey]bool) {
	for what, l := range m.before.lost {
		recent := l.seen && m.Now.Sub(l.since) < massTime
		held := m.has(what) && m.Now.Before(l.until) // also while the cluster is not known
		if !offered[what] && (recent || held) {
			m.after.lost[what] = l
		}
	}
	for what := range m.before.seen {
		c := m.clusters[what.member]
		if c != nil && !offered[what] && m.allowed(c, what.group) && m.knows(c, what.kind) && m.hasItsName(what.group) {
			m.lose(what)
		}
	}
}

// keep adds a member that no export asks for.
func (m keeper) keep(what memberKey, s State, until time.Time) {
	p := &member{cluster: what.member, link: m.clusters[what.member], state: s, until: until}
	if m.confirmed(what) {
		m.members[what.group] = append(m.members[what.group], p)
	} else {
		m.namedOnly[what.group] = append(m.namedOnly[what.group], p)
	}
}

// keepUnlinked holds a member of a cluster that is not linked, if an export asked for the member. The member has a
// time of its own: the time of another member may be over while a failing write has left that member in the object.
func (m keeper) keepUnlinked(what memberKey) {
	since, ok := m.before.unlinked[what]
	if !ok {
		since = m.Now
	}
	until := since.Add(m.UnlinkedAfter)
	if !m.Now.Before(until) {
		m.after.crowded[what.group] = since // one time for all of an object, however long it takes to remove them
		return
	}
	m.after.unlinked[what] = since
	m.keep(what, OnHold, until)
}

// holdNameless holds a mirror that exists and has lost its name to a new link, for UnlinkedAfter.
// Then the mirror is deleted, and the mirror of the new link is created as a new Service: no
// Service ever changes from one cluster to another.
func (m keeper) holdNameless(what memberKey) {
	since, known := m.before.nameless[what]
	if !known {
		since = m.Now
	}
	m.after.nameless[what] = since
	if until := since.Add(m.UnlinkedAfter); m.Now.Before(until) {
		m.keep(what, NameRefused, until)
	}
}

// lose records when a member was lost.
func (m keeper) lose(what memberKey) {
	if _, known := m.after.lost[what]; known {
		return
	}
	l, known := m.before.lost[what]
	if !known {
		l = loss{since: m.Now, until: m.Now}
		l.placed, l.seen = m.before.seen[what]
		_, asks := m.verdicts[what] // there is an export still, that may not have the member
		if what.kind == Import && (!asks || m.replaced[what]) {
			l.until = m.Now.Add(kindTime)
		}
	}
	m.after.lost[what] = l
}

// removeOrHold removes the members that a cluster no longer exports. If the cluster has lost most of
// its exports at once, removeOrHold holds these members instead.
func (m keeper) removeOrHold(missing []memberKey, offered map[memberKey]bool) {
	mass := m.massLosses(missing, offered)
	for _, what := range missing {
		l := m.after.lost[what]
		kindLost := what.kind == Import && (m.clusters[what.member].Emptied || m.MCSVersion == "")
		if mass[m.tallyOf(what, l.seen)] || kindLost {
			l.until = l.since.Add(m.UnlinkedAfter)
			m.after.lost[what] = l
		}
		if m.Now.Before(l.until) {
			m.keep(what, OnHold, l.until)
		}
	}
}

// tally names what is counted together to find a mass loss: the exports of a cluster that this leader has seen, or what
// only the objects of one namespace say about a cluster.
type tally struct{ cluster, namespace string }

func (m keeper) tallyOf(what memberKey, seen bool) tally {
	if seen {
		return tally{cluster: what.member}
	}
	return tally{what.member, what.of.Namespace}
}

// massLosses returns the tallies that have lost more than half within massTime, and at least
// massParts. Objects that somebody else has written count for their own namespace only.
func (m keeper) massLosses(missing []memberKey, offered map[memberKey]bool) map[tally]bool {
	lost := make(map[tally]int)
	count := func(what memberKey, l loss) {
		if m.Now.Sub(l.since) < massTime {
			lost[m.tallyOf(what, l.seen)]++
		}
	}
	for what, l := range m.after.lost {
		if l.seen { // also if no object has the member any more
			count(what, l)
		}
	}
	for _, what := range missing {
		if l := m.after.lost[what]; !l.seen {
			count(what, l)
		}
	}
	left := make(map[tally]int)
	for what := range offered {
		if _, seen := m.before.seen[what]; seen {
			left[m.tallyOf(what, true)]++
		}
		if m.hasMarked(what) {
			left[m.tallyOf(what, false)]++
		}
	}
	mass := make(map[tally]bool)
	for of, n := range lost {
		mass[of] = n >= massMembers && n > left[of]
	}
	return mass
}
