package plan

import (
	"time"
)

// A cluster that loses more than half of its parts within massTime, and massParts at least, has more likely been restored from
// an old backup than cleaned up.
const (
	massParts = 10
	massTime  = time.Minute
)

// kindTime is how long what a ServiceExport had of a ServiceImport stays after it. Where the kind of object is taken away, its objects go
// one by one before that shows.
const kindTime = 3 * time.Second

// Memory is what a plan takes over from the one before: since when something has been missing. The zero value is that of
// a writer that has just begun, which waits from then on.
type Memory struct {
	unlinked map[string]time.Time // when a cluster was first seen to be linked no longer
	lost     map[gone]loss        // parts that no export asks for any more, while they are in what is written, and for massTime at least
}

// loss is when a part was lost, and until when it stays. Once that is over it does not begin anew, however long it takes to remove the
// part.
type loss struct{ since, until time.Time }

// gone is a part of a cluster.
type gone struct {
	group
	from string // the cluster
}

func newMemory() Memory {
	return Memory{make(map[string]time.Time), make(map[gone]loss)}
}

// keepMissing decides on parts that are there and that no export asks for: they are kept, or go.
func (m *maker) keepMissing() {
	offered := make(map[gone]bool)
	for g, parts := range m.parts {
		for _, p := range parts {
			offered[gone{g, p.cluster}] = true
		}
	}
	missing := make(map[string][]group) // by cluster, of those that are in sync
	for g, clusters := range m.have {
		for name := range clusters {
			c := m.clusters[name]
			switch {
			case offered[gone{g, name}]:
			case c == nil:
				m.keepUnlinked(g, name)
			case !m.allowed(c, g): // by a flag or annotation
			case !c.knows(g.kind), g.kind == Import && m.Imports == nil: // the latter at a start
				m.keep(g, name, Kept, time.Time{})
			case clusters[name]: // what has no mark is not adopted then: place sees to it
				missing[name] = append(missing[name], g)
			}
		}
	}
	went := make(map[string]int) // how many parts of a cluster have been removed
	for what, l := range m.before.lost {
		recent, there := m.Now.Sub(l.since) < massTime, m.have[what.group][what.from]
		if !offered[what] && (recent || there && m.Now.Before(l.until)) { // the latter also while the cluster is not known
			m.after.lost[what] = l
		}
		if recent && !there && !offered[what] {
			went[what.from]++
		}
	}
	for name, groups := range missing {
		m.removeOrHold(m.clusters[name], groups, went[name])
	}
}

func (m *maker) keep(g group, cluster string, s State, until time.Time) {
	m.parts[g] = append(m.parts[g], &part{cluster: cluster, link: m.clusters[cluster], state: s, until: until})
}

func (m *maker) keepUnlinked(g group, name string) {
	since, ok := m.before.unlinked[name]
	if !ok {
		since = m.Now
	}
	m.after.unlinked[name] = since
	if until := since.Add(m.UnlinkedAfter); m.Now.Before(until) {
		m.keep(g, name, OnHold, until)
	}
}

// removeOrHold lets the parts go that a cluster no longer exports, unless it has lost most of what it had at once: that it had, with those
// that went already, and that it has lost are counted within massTime.
func (m *maker) removeOrHold(c *Cluster, missing []group, went int) {
	had, lost := went, went
	for _, clusters := range m.have {
		if clusters[c.Name] {
			had++
		}
	}
	for _, g := range missing {
		l := m.lose(c, g)
		m.after.lost[gone{g, c.Name}] = l
		if m.Now.Sub(l.since) < massTime {
			lost++
		} else {
			had--
		}
	}
	mass := lost >= massParts && 2*lost > had
	for _, g := range missing {
		l := m.after.lost[gone{g, c.Name}]
		if mass || g.kind == Import && (c.Emptied || m.MCSVersion == "") {
			l.until = l.since.Add(m.UnlinkedAfter)
			m.after.lost[gone{g, c.Name}] = l
		}
		if m.Now.Before(l.until) {
			m.keep(g, c.Name, OnHold, l.until)
		}
	}
}

// lose returns when a part that is missing was lost.
func (m *maker) lose(c *Cluster, g group) loss {
	what := gone{g, c.Name}
	l, known := m.before.lost[what]
	if _, asks := m.verdicts[what]; !known { // asks: there is an export still, that may not have it
		l = loss{m.Now, m.Now}
		if g.kind == Import && !asks {
			l.until = m.Now.Add(kindTime)
		}
	}
	return l
}
