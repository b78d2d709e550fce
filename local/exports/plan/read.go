package plan

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// maxRead limits the parts of one namespace that only objects name. The limit applies to each linked cluster, and
// to all clusters together that are not linked. A greater Settings.MaxPerNamespace replaces it.
const maxRead = 250

// holders are the clusters that an object names as those that have a part in it.
type holders struct {
	marked   bool     // false: the object has no mark yet, and may be adopted
	more     bool     // the object names more members than are read
	clusters []string // sorted, each once
}

// has reports whether a cluster is among them. h may be nil.
func (h *holders) has(cluster string) bool {
	if h == nil {
		return false
	}
	_, found := slices.BinarySearch(h.clusters, cluster)
	return found
}

// reader is the key by which followRead counts parts.
type reader struct {
	namespace string
	cluster   string // empty with linked: the local cluster
	linked    bool   // false: all clusters that are not linked
}

// followRead adds the parts that only objects name, up to maxRead. These parts take no place from what an export
// asks for. An object that names more of them is neither changed nor deleted until their time is over.
func (m *maker) followRead() {
	need := make(map[group]map[reader]int)
	add := func(g group, r reader, n int) {
		if need[g] == nil {
			need[g] = make(map[reader]int)
		}
		need[g][r] += n
	}
	for g, parts := range m.read {
		for _, p := range parts {
			add(g, reader{g.of.Namespace, p.cluster, true}, 1)
		}
	}
	for g, names := range m.unlinked {
		m.unlinked[g] = slices.DeleteFunc(names, func(name string) bool { return m.isOver(gone{g, name}) })
		if n := len(m.unlinked[g]); n > 0 {
			add(g, reader{namespace: g.of.Namespace}, n)
		}
	}
	size := func(g group) int { return len(m.read[g]) + len(m.unlinked[g]) }
	groups := slices.SortedFunc(maps.Keys(need), func(a, b group) int {
		return cmp.Or(later(len(m.parts[a]) == 0)-later(len(m.parts[b]) == 0), size(a)-size(b), compareGroups(a, b))
	})
	followed := make(map[reader]int)
	for _, g := range groups {
		room := !m.have[g].more
		for r, n := range need[g] {
			room = room && followed[r]+n <= max(maxRead, m.perNamespace())
		}
		if !room {
			m.freeze(g)
			continue
		}
		for r, n := range need[g] {
			followed[r] += n
		}
		m.parts[g] = append(m.parts[g], m.read[g]...)
		for _, name := range m.unlinked[g] {
			what := gone{g, name}
			since := m.sinceUnlinked(what)
			m.after.unlinked[what] = since
			m.parts[g] = append(m.parts[g], &part{cluster: name, state: OnHold, until: since.Add(m.UnlinkedAfter)})
		}
	}
}

// isOver reports whether a part of a cluster that is not linked has stayed for its time.
func (m *maker) isOver(what gone) bool {
	since := m.sinceUnlinked(what)
	if m.Now.Before(since.Add(m.UnlinkedAfter)) {
		return false
	}
	m.after.crowded[what.group] = since // one time for all of an object, however long it takes to remove them
	return true
}

// freeze leaves the object of a group unchanged, because the object names more clusters than followRead adds.
func (m *maker) freeze(g group) {
	const detail = "it names more clusters than are followed in one namespace, and is left as it is"
	state := Kept
	until := time.Time{}
	for _, name := range m.unlinked[g] {
		if since := m.sinceUnlinked(gone{g, name}); !since.Add(m.UnlinkedAfter).Before(until) {
			state = OnHold
			until = since.Add(m.UnlinkedAfter)
			m.after.crowded[g] = since
		}
	}
	m.remember(g, m.parts[g])
	for _, p := range m.parts[g] {
		m.verdict(g, p.cluster, OverNumber, detail, until)
	}
	names := slices.Clone(m.unlinked[g])
	for _, p := range m.read[g] {
		names = append(names, p.cluster)
	}
	m.verdict(g, slices.Min(names), state, detail, until)
	delete(m.parts, g)
	m.frozen[g] = true
}
