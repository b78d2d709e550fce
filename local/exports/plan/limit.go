package plan

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"
)

// Limits on the number of written objects protect the local cluster. Some ClusterIP ranges contain
// only 4,096 addresses. In a namespace with more than about 2,000 Services, Pods do not start,
// because Kubernetes sets environment variables for every Service in the namespace.
const (
	DefaultPerLink      = 1000
	DefaultPerNamespace = 250
	// MaxObjects is the maximum total number of written objects.
	MaxObjects = 5000

	maxMembers = 256 // of one object
)

// The amount of data from marked objects is limited, because anybody can forge the mark. Objects
// that Isthmus writes never exceed maxMembersBytes or maxRecordBytes.
const (
	maxMembersBytes = 32 << 10 // of the list of members: maxMembers of the longest names
	maxRecordBytes  = 64 << 10 // of the record of copied labels and annotations
)

// Existing objects may name members that no export has requested. In each namespace, a plan tracks
// at most maxNamed members that no export has requested. The limit applies to each linked cluster
// separately, and to all unlinked clusters together. A larger Settings.MaxPerNamespace replaces
// maxNamed.
const maxNamed = 250

type limiter struct{ *maker }

// The limit method drops members and objects from the plan if they exceed the limits. The limits
// never cause the removal of an existing object that has an export.
//
// The number of objects that a plan allows in a namespace depends only on the exports and the
// Memory. Forged objects in one namespace therefore do not reduce the number of objects that the
// plan allows in another namespace. Within a namespace, existing objects take precedence over new
// objects. New objects are accepted in alphabetical order.
func (m limiter) limit() {
	m.limitClusters()
	m.limitAll()
	m.followNamed()
	m.limitMembers()
	for g, members := range m.members {
		m.remember(g, members)
	}
}

type claim struct {
	memberKey
	placed bool // it had a place in the previous plan
	had    bool // an existing object has it
}

func (m limiter) limitClusters() {
	claims := make(map[string]map[string][]claim) // by cluster and namespace
	for g, members := range m.members {
		for _, p := range members {
			what := memberKey{g, p.cluster}
			if claims[p.cluster] == nil {
				claims[p.cluster] = make(map[string][]claim)
			}
			of := claims[p.cluster]
			placed := m.before.seen[what] || m.after.lost[what].placed
			of[g.of.Namespace] = append(of[g.of.Namespace], claim{what, placed, m.hasMarked(what)})
		}
	}
	perLink := m.perLink()
	perNamespace := m.perNamespace()
	m.out.Fullest = fullest(claims, perLink, perNamespace)
	for name, of := range claims {
		most, whose := perLink, "for this link"
		if name == "" {
			most, whose = math.MaxInt, "of this cluster"
		}
		allot(of, most, perNamespace, func(c claim, n int) {
			switch {
			case c.had:
				m.unplaced[c.memberKey] = true
			case n >= perNamespace:
				m.leaveOut(c.memberKey, fmt.Sprintf("there are more than %d %s in one namespace: "+
					"raise --max-exports-per-namespace", perNamespace, whose))
			default:
				m.leaveOut(c.memberKey, fmt.Sprintf(
					"there are more than %d %s: raise --max-exports-per-link", most, whose,
				))
			}
		})
	}
}

// fullest returns up to two entries. The first entry is the link whose exports need the most
// objects in total across all namespaces. The second entry is the combination of cluster and
// namespace whose exports need the most objects. Ties are broken alphabetically.
func fullest(claims map[string]map[string][]claim, perLink, perNamespace int) (list []Fullness) {
	link := Fullness{Per: "link", Most: perLink}
	namespace := Fullness{Per: "namespace", Most: perNamespace}
	for _, cluster := range slices.Sorted(maps.Keys(claims)) {
		asked := 0
		for _, name := range slices.Sorted(maps.Keys(claims[cluster])) {
			n := len(claims[cluster][name])
			asked += n
			if n > namespace.Asked {
				namespace.Cluster = cluster
				namespace.Namespace = name
				namespace.Asked = n
			}
		}
		if cluster != "" && asked > link.Asked { // the local cluster has no limit over all namespaces
			link.Cluster = cluster
			link.Asked = asked
		}
	}
	for _, f := range []Fullness{link, namespace} {
		if f.Asked > 0 {
			list = append(list, f)
		}
	}
	return list
}

func (m limiter) limitAll() {
	claims := make(map[string][]claim)
	for g, members := range m.members {
		c := claim{memberKey: memberKey{group: g}}
		counts := false
		for _, p := range members {
			what := memberKey{g, p.cluster}
			counts = counts || !m.unplaced[what]
			c.placed = c.placed || m.before.seen[what] || m.after.lost[what].placed
		}
		if had := m.named[g]; had != nil {
			c.had = had.marked && len(had.clusters) > 0
		}
		if counts {
			claims[g.of.Namespace] = append(claims[g.of.Namespace], c)
		}
	}
	allot(claims, MaxObjects, math.MaxInt, func(c claim, _ int) {
		for _, p := range slices.Clone(m.members[c.group]) {
			what := memberKey{c.group, p.cluster}
			if c.had {
				m.unplaced[what] = true
			} else {
				m.leaveOut(what, fmt.Sprintf("there are more than %d in total", MaxObjects))
			}
		}
	})
}

// allot assigns places to claims. maxTotal limits the total number of places, and maxPerNamespace
// limits the number of places in each namespace. Claims that had a place in the previous plan come
// first. The other claims follow in alphabetical order of their namespaces. For each claim that is
// not allotted a place, allot calls the reject function with the number of higher-ranking claims in
// the same namespace.
func allot(claims map[string][]claim, maxTotal, maxPerNamespace int, reject func(c claim, n int)) {
	left := maxTotal
	kept := make(map[string]int) // places of the previous plan, by namespace
	for namespace, all := range claims {
		slices.SortFunc(all, func(a, b claim) int {
			return cmp.Or(
				later(!a.placed)-later(!b.placed),
				later(!a.had)-later(!b.had),
				compareGroups(a.group, b.group))
		})
		n := slices.IndexFunc(all, func(c claim) bool { return !c.placed })
		if n < 0 {
			n = len(all)
		}
		kept[namespace] = min(n, maxPerNamespace)
		left -= kept[namespace]
	}
	for _, namespace := range slices.Sorted(maps.Keys(claims)) {
		all := claims[namespace]
		more := max(0, min(len(all), maxPerNamespace)-kept[namespace])
		more = min(more, max(0, left))
		left -= more
		for n := kept[namespace] + more; n < len(all); n++ {
			reject(all[n], n)
		}
	}
}

type followKey struct {
	namespace string
	cluster   string // if linked is set, empty means the local cluster
	linked    bool   // if false, the key stands for all unlinked clusters
}

// followNamed adds members that have no export but are listed in existing objects, up to maxNamed
// per namespace. Members without an export do not count toward the limits on exports. If adding the
// members of an object would exceed maxNamed, the plan leaves the object unchanged. Once
// UnlinkedAfter has passed, members in unlinked clusters no longer count toward maxNamed, so the
// plan may then update the object.
func (m limiter) followNamed() {
	need := make(map[group]map[followKey]int)
	add := func(g group, r followKey, n int) {
		if need[g] == nil {
			need[g] = make(map[followKey]int)
		}
		need[g][r] += n
	}
	for g, members := range m.namedOnly {
		for _, p := range members {
			add(g, followKey{g.of.Namespace, p.cluster, true}, 1)
		}
	}
	for g, names := range m.unlinked {
		m.unlinked[g] = slices.DeleteFunc(names, func(name string) bool { return m.isOver(memberKey{g, name}) })
		if n := len(m.unlinked[g]); n > 0 {
			add(g, followKey{namespace: g.of.Namespace}, n)
		}
	}
	size := func(g group) int { return len(m.namedOnly[g]) + len(m.unlinked[g]) }
	groups := slices.SortedFunc(maps.Keys(need), func(a, b group) int {
		return cmp.Or(later(len(m.members[a]) == 0)-later(len(m.members[b]) == 0), size(a)-size(b), compareGroups(a, b))
	})
	followed := make(map[followKey]int)
	for _, g := range groups {
		room := !m.named[g].more
		for r, n := range need[g] {
			room = room && followed[r]+n <= max(maxNamed, m.perNamespace())
		}
		if !room {
			m.freeze(g)
			continue
		}
		for r, n := range need[g] {
			followed[r] += n
		}
		m.members[g] = append(m.members[g], m.namedOnly[g]...)
		for _, name := range m.unlinked[g] {
			what := memberKey{g, name}
			since := m.sinceUnlinked(what)
			m.after.unlinked[what] = since
			m.members[g] = append(m.members[g], &member{
				cluster: name,
				state:   OnHold,
				until:   since.Add(m.UnlinkedAfter),
			})
		}
	}
}

func (m limiter) isOver(what memberKey) bool {
	since := m.sinceUnlinked(what)
	if m.Now.Before(since.Add(m.UnlinkedAfter)) {
		return false
	}
	m.after.crowded[what.group] = since // one time for the whole object, however long the removal takes
	return true
}

func (m limiter) sinceUnlinked(what memberKey) time.Time {
	if since, ok := m.before.unlinked[what]; ok {
		return since
	}
	if since, ok := m.before.crowded[what.group]; ok {
		return since
	}
	return m.Now
}

// freeze handles an object that lists more clusters than Isthmus tracks in one namespace. The
// object stays unchanged.
func (m limiter) freeze(g group) {
	const detail = "the object lists more clusters than Isthmus can track per namespace, so the object stays unchanged"
	state := Kept
	until := time.Time{}
	for _, name := range m.unlinked[g] {
		if since := m.sinceUnlinked(memberKey{g, name}); !since.Add(m.UnlinkedAfter).Before(until) {
			state = OnHold
			until = since.Add(m.UnlinkedAfter)
			m.after.crowded[g] = since
		}
	}
	m.remember(g, m.members[g])
	for _, p := range m.members[g] {
		m.verdict(g, p.cluster, OverNumber, detail, until)
	}
	names := slices.Clone(m.unlinked[g])
	for _, p := range m.namedOnly[g] {
		names = append(names, p.cluster)
	}
	m.verdict(g, slices.Min(names), state, detail, until)
	delete(m.members, g)
	m.frozen[g] = true
}

func (m limiter) limitMembers() {
	for g, members := range m.members {
		slices.SortFunc(members, func(a, b *member) int { return compareMembers(g, a, b) })
		if len(members) <= maxMembers {
			continue
		}
		for _, p := range members[maxMembers:] {
			m.verdict(g, p.cluster, OverNumber, fmt.Sprintf("there are more than %d members", maxMembers), p.until)
		}
		m.members[g] = members[:maxMembers]
	}
}

func (m limiter) leaveOut(one memberKey, why string) {
	m.members[one.group] = slices.DeleteFunc(m.members[one.group], func(p *member) bool {
		return p.cluster == one.member
	})
	if len(m.members[one.group]) == 0 {
		delete(m.members, one.group)
	}
	m.verdict(one.group, one.member, OverNumber, why, time.Time{})
}

func (m limiter) remember(g group, members []*member) {
	for _, p := range members {
		what := memberKey{g, p.cluster}
		_, seen := m.before.seen[what]
		if _, lost := m.after.lost[what]; !lost && (seen || p.export != nil) {
			m.after.seen[what] = !m.unplaced[what]
		}
	}
}
