package plan

import (
	"time"
)

// A cluster that loses more than half of its members, and at least massMembers, within massTime has
// probably been restored from an old backup. Users rarely remove that much on purpose.
const (
	massMembers = 10
	massTime    = time.Minute
)

// kindTime is how long a member of a ServiceImport stays after its ServiceExport or its Service was
// deleted. If the CRD is removed, its objects disappear one by one before the removal of the CRD
// shows. A Service that somebody replaces is missing for a moment.
const kindTime = 3 * time.Second

// Memory is the state that a plan takes over from the previous plan. The zero value is the Memory
// of a new leader.
//
// Anybody who may create Services in one namespace can forge the mark and name any cluster in an
// object. Memory therefore distinguishes members that an export asked for from members that only an
// object names.
type Memory struct {
	// seen holds the members that an export asked for while this leader led, and that are still
	// planned. The value reports whether the member has a place in the limits.
	seen map[memberKey]bool
	// lost holds the members that no export asks for any more. An entry stays while an object names
	// the member, and for at least massTime.
	lost map[memberKey]loss
	// unlinked holds when this leader first saw a member of a cluster that is not linked.
	unlinked map[memberKey]time.Time
	// crowded holds when this leader first saw an object with more members of unlinked clusters
	// than the plan follows. Objects whose unlinked members have stayed for UnlinkedAfter are in it
	// too.
	crowded map[group]time.Time
	// links holds the names of all links and when this leader first saw that a link was deleted.
	// The time of an existing link is zero.
	links map[string]time.Time
	// nameless holds when the name of an existing mirror passed to another link.
	nameless map[memberKey]time.Time
	// imports holds the history of ServiceImports that have members.
	imports map[ID]*history
}

// loss records the loss of a member. Once until has passed, the loss does not start anew, even if
// the removal of the member takes long.
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

// keepMissing decides whether to keep, hold or remove each member that an object names and that no
// export asks for.
func (m keeper) keepMissing() {
	offered := m.offered()
	m.carryLosses(offered)
	var missing []memberKey // members that objects name, of synced clusters
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
			case !m.allowed(c, g): // a flag or an annotation forbids the member
			case c.Joins != Unreadable && !m.hasItsName(g) &&
				(!m.knows(c, g.kind) || m.verdicts[what].State == NameRefused):
				m.holdNameless(what)
			case !m.knows(c, g.kind):
				m.keep(what, Kept, time.Time{})
			case had.marked: // judgeTarget refuses to adopt an object without the mark
				missing = append(missing, what)
				m.lose(what)
			}
		}
	}
	m.removeOrHold(missing, offered)
}

func (m keeper) offered() map[memberKey]bool {
	all := make(map[memberKey]bool)
	for g, members := range m.members {
		for _, p := range members {
			all[memberKey{g, p.cluster}] = true
		}
	}
	return all
}

// carryLosses takes over the losses of the previous plan. It also records the loss of members of
// known clusters that an export asked for until now.
func (m keeper) carryLosses(offered map[memberKey]bool) {
	for what, l := range m.before.lost {
		recent := l.seen && m.Now.Sub(l.since) < massTime
		held := m.has(what) && m.Now.Before(l.until) // also while the cluster's exports are not known
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

// keepUnlinked holds a member of an unlinked cluster that an export asked for. Each such member has
// its own time. A failing write may leave one member in the object after the time of another has
// passed.
func (m keeper) keepUnlinked(what memberKey) {
	since, ok := m.before.unlinked[what]
	if !ok {
		since = m.Now
	}
	until := since.Add(m.UnlinkedAfter)
	if !m.Now.Before(until) {
		m.after.crowded[what.group] = since // one time for the whole object, however long the removal takes
		return
	}
	m.after.unlinked[what] = since
	m.keep(what, OnHold, until)
}

// holdNameless holds a mirror that has lost its name to a new link, for UnlinkedAfter. The plan
// then deletes the mirror and creates the new link's mirror as a new Service. A Service never
// changes from one cluster to another.
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

// lose records the loss of a member, unless it is recorded already.
func (m keeper) lose(what memberKey) {
	if _, known := m.after.lost[what]; known {
		return
	}
	l, known := m.before.lost[what]
	if !known {
		l = loss{since: m.Now, until: m.Now}
		l.placed, l.seen = m.before.seen[what]
		_, asks := m.verdicts[what] // an export exists that may not have the member
		if what.kind == Import && (!asks || m.replaced[what]) {
			l.until = m.Now.Add(kindTime)
		}
	}
	m.after.lost[what] = l
}

// removeOrHold drops the members that a cluster no longer exports. If the cluster has lost most of
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

// tally identifies members that are counted together to find a mass loss. For members that this
// leader has seen exported, a tally covers the whole cluster. For members that only objects name, a
// tally covers one cluster in one namespace.
type tally struct{ cluster, namespace string }

func (m keeper) tallyOf(what memberKey, seen bool) tally {
	if seen {
		return tally{cluster: what.member}
	}
	return tally{what.member, what.of.Namespace}
}

// massLosses returns the tallies that have lost more than half of their members, and at least
// massMembers, within massTime. Objects that somebody has forged count for their own namespace
// only.
func (m keeper) massLosses(missing []memberKey, offered map[memberKey]bool) map[tally]bool {
	lost := make(map[tally]int)
	count := func(what memberKey, l loss) {
		if m.Now.Sub(l.since) < massTime {
			lost[m.tallyOf(what, l.seen)]++
		}
	}
	for what, l := range m.after.lost {
		if l.seen { // even if no object names the member any more
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
