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
	held     map[gone]time.Time   // when a part was lost, together with most of its cluster's
	leaving  map[gone]time.Time   // when a part of a ServiceImport was lost that is removed soon
	went     map[gone]time.Time   // what was removed within the last minute
}

// gone is a part that was removed.
type gone struct {
	group
	from string // the cluster
}

func newMemory() Memory {
	return Memory{make(map[string]time.Time), make(map[gone]time.Time), make(map[gone]time.Time), make(map[gone]time.Time)}
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
			case !m.allowed(c, g): // somebody said so
			case !c.knows(g.kind):
				m.keep(g, name, Kept, time.Time{})
			case clusters[name]: // what has no mark is not adopted then: place sees to it
				missing[name] = append(missing[name], g)
			}
		}
	}
	for what, at := range m.before.went {
		if m.Now.Sub(at) < massTime && !offered[what] {
			m.after.went[what] = at
		}
	}
	for name, groups := range missing {
		m.removeOrHold(m.clusters[name], groups)
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

// removeOrHold lets the parts go that a cluster no longer exports, unless it has lost most of what it had at once. Each part is held
// from when it was lost.
func (m *maker) removeOrHold(c *Cluster, missing []group) {
	all, lost := 0, 0
	for _, clusters := range m.have {
		if clusters[c.Name] {
			all++
		}
	}
	var fresh []group
	for _, g := range missing {
		switch since, held := m.before.held[gone{g, c.Name}]; {
		case !held:
			fresh = append(fresh, g)
			lost++
		case m.Now.Sub(since) < massTime:
			m.hold(c, g, since)
			lost++
		default:
			m.hold(c, g, since)
			all--
		}
	}
	for what := range m.after.went {
		if what.from == c.Name && !m.have[what.group][c.Name] {
			all++
			lost++
		}
	}
	mass := lost >= massParts && 2*lost > all
	for _, g := range fresh {
		what := gone{g, c.Name}
		since, leaves := m.before.leaving[what]
		if !leaves {
			since = m.Now
		}
		_, asks := m.verdicts[what] // and may not have it
		switch until := since.Add(kindTime); {
		case mass || g.kind == Import && (c.Emptied || m.MCSVersion == ""):
			m.hold(c, g, m.Now)
		case g.kind == Import && !asks && m.Now.Before(until):
			m.after.leaving[what] = since
			m.keep(g, c.Name, OnHold, until)
		default:
			m.after.went[what] = m.Now
		}
	}
}

func (m *maker) hold(c *Cluster, g group, since time.Time) {
	m.after.held[gone{g, c.Name}] = since
	if until := since.Add(m.UnlinkedAfter); m.Now.Before(until) {
		m.keep(g, c.Name, OnHold, until)
	}
}
