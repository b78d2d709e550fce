package plan

import (
	"time"
)

// A cluster that loses more than half of its parts within massTime, and massParts at least, has more likely been
// restored from an old backup than cleaned up.
const (
	massParts = 10
	massTime  = time.Minute
)

// kindTime is how long the part of a ServiceExport in a ServiceImport stays after the ServiceExport
// or its Service has been deleted. If the kind itself is removed, its objects disappear one by one
// before the removal shows. A Service that is replaced is missing for a moment.
const kindTime = 3 * time.Second

// Memory is what a plan takes over from the plan before it. The zero value is that of a leader that has just begun.
//
// Anybody who may create Services in one namespace can forge the mark and name any cluster in an object. So Memory
// tells parts that an export asked for from parts that only an object names.
type Memory struct {
	// seen holds the parts that an export asked for while this leader led, and that are still wanted or kept. The value
	// says whether the part has a place in the limits.
	seen map[gone]bool
	// lost holds the parts that no export asks for any more, while an object has them and for massTime at least.
	lost map[gone]loss
	// unlinked says when this leader first saw a part of a cluster that is not linked.
	unlinked map[gone]time.Time
	// crowded says when this leader first saw an object that has more parts of clusters that are
	// not linked than the plan follows.
	crowded map[group]time.Time
	// links says when this leader first saw that a link was deleted. It holds all links; the time
	// of one that exists is zero.
	links map[string]time.Time
	// nameless says since when the name of a mirror that exists belongs to another link.
	nameless map[gone]time.Time
	// imports holds what this leader remembers of ServiceImports that have parts.
	imports map[ID]*history
}

// loss is when a part was lost, and until when it stays. Once that is over it does not begin anew, however long it
// takes to remove the part.
type loss struct {
	since, until time.Time
	seen         bool // an export asked for the part while this leader led
	place        bool // the part has a place in the limits
}

// gone is a part of a cluster.
type gone struct {
	group
	from string // the cluster
}

func newMemory() Memory {
	return Memory{
		seen:     make(map[gone]bool),
		lost:     make(map[gone]loss),
		unlinked: make(map[gone]time.Time),
		crowded:  make(map[group]time.Time),
		links:    make(map[string]time.Time),
		nameless: make(map[gone]time.Time),
		imports:  make(map[ID]*history),
	}
}

// keepMissing decides on parts that objects have and that no export asks for: they are kept, held or removed.
func (m *maker) keepMissing() {
	offered := m.offered()
	m.carryLosses(offered)
	var missing []gone // in objects, of clusters in sync
	for g, had := range m.have {
		for _, name := range had.clusters {
			what := gone{g, name}
			c := m.clusters[name]
			switch {
			case offered[what]:
			case c == nil && m.confirmed(what):
				m.keepUnlinked(what)
			case c == nil:
				m.unlinked[g] = append(m.unlinked[g], name)
			case !m.allowed(c, g): // by a flag or annotation
			case c.Joins != Unreadable && !m.ownsName(g) &&
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

// offered returns the parts that exports ask for.
func (m *maker) offered() map[gone]bool {
	all := make(map[gone]bool)
	for g, parts := range m.parts {
		for _, p := range parts {
			all[gone{g, p.cluster}] = true
		}
	}
	return all
}

// knows reports whether what a linked cluster exports for a kind is known, and what is written for that kind.
func (m *maker) knows(c *Cluster, k Kind) bool {
	return c.knows(k) && (k != Import || m.Imports != nil) // not read yet after a start
}

// carryLosses takes over losses from the plan before, and records parts of known clusters that an
// export asked for until now.
func (m *maker) carryLosses(offered map[gone]bool) {
	for what, l := range m.before.lost {
		recent := l.seen && m.Now.Sub(l.since) < massTime
		held := m.has(what) && m.Now.Before(l.until) // also while the cluster is not known
		if !offered[what] && (recent || held) {
			m.after.lost[what] = l
		}
	}
	for what := range m.before.seen {
		c := m.clusters[what.from]
		if c != nil && !offered[what] && m.allowed(c, what.group) && m.knows(c, what.kind) && m.ownsName(what.group) {
			m.lose(what)
		}
	}
}

// has reports whether an object names the cluster of a part.
func (m *maker) has(what gone) bool { return m.have[what.group].has(what.from) }

// confirmed reports whether an export asked for a part while this leader led. Only an object names any other part that
// no export asks for.
func (m *maker) confirmed(what gone) bool {
	_, seen := m.before.seen[what]
	return seen || m.after.lost[what].seen
}

// keep adds a part that no export asks for.
func (m *maker) keep(what gone, s State, until time.Time) {
	p := &part{cluster: what.from, link: m.clusters[what.from], state: s, until: until}
	if m.confirmed(what) {
		m.parts[what.group] = append(m.parts[what.group], p)
	} else {
		m.read[what.group] = append(m.read[what.group], p)
	}
}

// keepUnlinked holds a part of a cluster that is not linked, if an export asked for the part. The part has a time of
// its own: the time of another part may be over while a failing write has left that part in the object.
func (m *maker) keepUnlinked(what gone) {
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

// sinceUnlinked returns when this leader first saw a part that only an object names, of a cluster that is not linked.
func (m *maker) sinceUnlinked(what gone) time.Time {
	if since, ok := m.before.unlinked[what]; ok {
		return since
	}
	if since, ok := m.before.crowded[what.group]; ok {
		return since
	}
	return m.Now
}

// lose records when a part was lost.
func (m *maker) lose(what gone) {
	if _, known := m.after.lost[what]; known {
		return
	}
	l, known := m.before.lost[what]
	if !known {
		l = loss{since: m.Now, until: m.Now}
		l.place, l.seen = m.before.seen[what]
		_, asks := m.verdicts[what] // there is an export still, that may not have the part
		if what.kind == Import && (!asks || m.replaced[what]) {
			l.until = m.Now.Add(kindTime)
		}
	}
	m.after.lost[what] = l
}

// removeOrHold removes the parts that a cluster no longer exports. If the cluster has lost most of
// its exports at once, removeOrHold holds these parts instead.
func (m *maker) removeOrHold(missing []gone, offered map[gone]bool) {
	mass := m.massLosses(missing, offered)
	for _, what := range missing {
		l := m.after.lost[what]
		kindLost := what.kind == Import && (m.clusters[what.from].Emptied || m.MCSVersion == "")
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

func (m *maker) tallyOf(what gone, seen bool) tally {
	if seen {
		return tally{cluster: what.from}
	}
	return tally{what.from, what.of.Namespace}
}

// massLosses returns the tallies that have lost more than half within massTime, and at least
// massParts. Objects that somebody else has written count for their own namespace only.
func (m *maker) massLosses(missing []gone, offered map[gone]bool) map[tally]bool {
	lost := make(map[tally]int)
	count := func(what gone, l loss) {
		if m.Now.Sub(l.since) < massTime {
			lost[m.tallyOf(what, l.seen)]++
		}
	}
	for what, l := range m.after.lost {
		if l.seen { // also if no object has the part any more
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
		mass[of] = n >= massParts && n > left[of]
	}
	return mass
}
