package plan

import (
	"fmt"
	"time"
)

// Mirrors are called NAME-LINK, and both parts may contain hyphens. So two exports may ask for one
// name: web-eu of link west, and web of link eu-west. Link names decide between the exports, not
// which of them came first: clients that ask for one cluster never reach another one. A mirror's
// name belongs to the longest link name that it ends in.

// rememberLinks records which links there are. A link that was deleted counts until UnlinkedAfter has passed.
func (m *maker) rememberLinks() {
	for name := range m.clusters {
		if name != "" {
			m.after.links[name] = time.Time{}
		}
	}
	for name, since := range m.before.links {
		if m.clusters[name] != nil {
			continue
		}
		if since.IsZero() {
			since = m.Now
		}
		if m.Now.Before(since.Add(m.UnlinkedAfter)) {
			m.after.links[name] = since
		}
	}
}

// nameOwner returns the link that the name of a mirror belongs to. If no link name is a suffix of
// the name, nameOwner is empty.
func (m *maker) nameOwner(mirror string) string {
	for i := 1; i < len(mirror); i++ {
		if mirror[i] != '-' {
			continue
		}
		if _, is := m.after.links[mirror[i+1:]]; is {
			return mirror[i+1:]
		}
	}
	return ""
}

// ownsName reports whether a group's name is its own. Only the names of mirrors can belong to another link.
func (m *maker) ownsName(g group) bool {
	return g.kind != Mirror || m.nameOwner(g.target().Name) == g.cluster
}

// judgeName decides whether a mirror may have its name. until is when that may change by itself; zero: never.
func (m *maker) judgeName(g group) (s State, detail string, until time.Time) {
	name := g.target().Name
	owner := m.nameOwner(name)
	if owner == g.cluster {
		return Written, "", time.Time{}
	}
	detail = fmt.Sprintf("the name %s belongs to the link %s, the longest link name that it ends in", name, owner)
	if since := m.after.links[owner]; !since.IsZero() {
		return NameRefused, detail + ", which is linked no longer", since.Add(m.UnlinkedAfter)
	}
	return NameRefused, detail, time.Time{}
}

// holdNameless holds a mirror that exists and has lost its name to a new link, for UnlinkedAfter.
// Then the mirror is deleted, and the mirror of the new link is created as a new Service: no
// Service ever changes from one cluster to another.
func (m *maker) holdNameless(what gone) {
	since, known := m.before.nameless[what]
	if !known {
		since = m.Now
	}
	m.after.nameless[what] = since
	if until := since.Add(m.UnlinkedAfter); m.Now.Before(until) {
		m.keep(what, NameRefused, until)
	}
}
