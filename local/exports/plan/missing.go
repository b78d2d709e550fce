package plan

import (
	"time"
)

// If a cluster loses more than half of its members, and at least massMembers of them, within
// massTime, the cluster has probably been restored from an old backup. Users rarely remove most of
// a cluster's exports on purpose within such a short time.
const (
	massMembers = 10
	massTime    = time.Minute
)

// kindTime is how long a ServiceImport keeps a member whose ServiceExport or Service has been
// deleted. When a CRD is removed, its objects disappear one by one before Isthmus detects the
// removal of the CRD. A Service that a user replaces is briefly missing.
const kindTime = 3 * time.Second

// Memory is the state that a plan inherits from the previous plan. A new leader begins with the
// zero Memory.
//
// A user with permission to create Services in one namespace can forge an object that is marked as
// written by Isthmus and lists arbitrary clusters as members. To recognize forged members, Memory
// records which members were requested by an export.
type Memory struct {
	// The planned members for which this leader has seen an export. The value is true if the member
	// is within the limits.
	seen map[memberKey]bool
	// The members that are no longer requested by any export. A member stays in this map for as
	// long as any object lists it. If this leader has seen an export for the member, the map keeps
	// the member for at least massTime after the export has disappeared.
	lost map[memberKey]loss
	// The time when this leader first saw each member of an unlinked cluster.
	unlinked map[memberKey]time.Time
	// For each object that lists too many unlinked clusters, the start time of the object's
	// UnlinkedAfter period. The map also contains each object with a member whose cluster has been
	// unlinked for at least UnlinkedAfter.
	crowded map[group]time.Time
	// For each link, the time when this leader noticed that the link was deleted, or zero if the
	// link exists.
	links map[string]time.Time
	// For each existing mirror that has lost its name to another link, the time when this leader
	// noticed the loss.
	nameless map[memberKey]time.Time
	imports  map[ID]*history
}

// If an object still lists the member after the hold time, the loss is not counted a second time.
type loss struct {
	since, until time.Time
	seen         bool // an export asked for the member while this leader led
	placed       bool // whether the member was within the limits
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

type keeper struct{ *maker }

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

// carryLosses carries over the losses that the previous plan recorded. If a cluster's exports are
// known, carryLosses also records each of the cluster's members that is no longer requested by any
// export.
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

func (m keeper) keep(what memberKey, s State, until time.Time) {
	p := &member{cluster: what.member, link: m.clusters[what.member], state: s, until: until}
	if m.confirmed(what) {
		m.members[what.group] = append(m.members[what.group], p)
	} else {
		m.namedOnly[what.group] = append(m.namedOnly[what.group], p)
	}
}

// keepUnlinked puts a member on hold if the member was exported before its cluster was unlinked.
// Each member has its own hold time, because one member may stay in the object longer than the
// others after a failed write.
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

// If the name of an existing mirror becomes reserved for a new link, holdNameless keeps the mirror
// until the period UnlinkedAfter has passed. The plan then deletes the mirror, so that the new link
// can use the name. The plan never reassigns a Service from one cluster to another.
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

// removeOrHold drops each member whose cluster no longer exports the service. If a cluster has
// suddenly lost most of its exports, the missing members are put on hold instead of being dropped.
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

// tally identifies members that are counted together to detect a mass loss. One tally per cluster
// counts the members for which this leader has seen an export. One tally per cluster and namespace
// counts the members for which this leader has never seen an export.
type tally struct{ cluster, namespace string }

func (m keeper) tallyOf(what memberKey, seen bool) tally {
	if seen {
		return tally{cluster: what.member}
	}
	return tally{what.member, what.of.Namespace}
}

// massLosses returns the tallies that show a mass loss. A tally shows a mass loss if more than half
// of its members, and at least massMembers of them, are lost within massTime. Forged objects affect
// only the tallies of their own namespace.
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
