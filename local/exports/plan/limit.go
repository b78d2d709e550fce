package plan

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"
)

// Limits of what is written. A ClusterIP range may have 4,096 addresses only, and Pods do not start in a namespace with
// 2,000 Services.
const (
	// DefaultPerLink limits the objects that a link has a part in, unless Settings.MaxPerLink is set.
	DefaultPerLink = 1000
	// DefaultPerNamespace limits the objects in one namespace that a link or the local cluster has a part in, unless
	// Settings.MaxPerNamespace is set.
	DefaultPerNamespace = 250
	// MaxObjects limits all objects together.
	MaxObjects = 5000

	maxMembers = 256 // of one object
)

// Fullness compares a limit with the exports that need the most objects: of one link,
// or of one cluster in one namespace.
type Fullness struct {
	Per       string // "link" or "namespace"
	Cluster   string // empty for the local cluster
	Namespace string // empty if Per is "link"
	Asked     int    // objects that the exports need, beyond the limit too
	Most      int    // the limit
}

// Ratio returns which part of the limit is used. It is above 1 if exports are beyond the limit.
func (f Fullness) Ratio() float64 { return float64(f.Asked) / float64(f.Most) }

// How much of an object with the mark is read: anybody may have written it. What is written is never more than that.
const (
	maxMembersBytes = 32 << 10 // of the list of members: maxMembers of the longest names
	maxRecordBytes  = 64 << 10 // of the record of what was copied
)

// limit leaves out what is too much.
//
// How many places a namespace gets depends on exports and on the Memory alone, so that forged
// objects of one namespace take no places from another. Within a namespace, written objects come
// first, then names in order. A limit refuses what is new: an object that is written stays while
// something is exported for it.
func (m *maker) limit() {
	m.limitClusters()
	m.limitAll()
	m.followRead()
	m.limitMembers()
	for g, parts := range m.parts {
		m.remember(g, parts)
	}
}

// claim is a part or a group that asks for a place in a limit.
type claim struct {
	gone
	placed bool // it had a place in the plan before
	had    bool // an object has it
}

// limitClusters limits the objects that each cluster has a part in.
func (m *maker) limitClusters() {
	claims := make(map[string]map[string][]claim) // by cluster and namespace
	for g, parts := range m.parts {
		for _, p := range parts {
			what := gone{g, p.cluster}
			if claims[p.cluster] == nil {
				claims[p.cluster] = make(map[string][]claim)
			}
			of := claims[p.cluster]
			placed := m.before.seen[what] || m.after.lost[what].place
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
		places(of, most, perNamespace, func(c claim, n int) {
			switch {
			case c.had:
				m.unplaced[c.gone] = true
			case n >= perNamespace:
				m.leaveOut(c.gone, fmt.Sprintf("there are more than %d %s in one namespace: "+
					"raise --max-exports-per-namespace", perNamespace, whose))
			default:
				m.leaveOut(c.gone, fmt.Sprintf("there are more than %d %s: raise --max-exports-per-link", most, whose))
			}
		})
	}
}

// fullest returns the link, and the cluster and namespace, whose exports need the most objects. The first by name wins
// a tie.
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
		if cluster != "" && asked > link.Asked { // the local cluster has no limit for all namespaces
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

// hasMarked reports whether an object with the mark names the cluster of a part.
func (m *maker) hasMarked(what gone) bool {
	had := m.have[what.group]
	return had.has(what.from) && had.marked
}

// limitAll limits the objects that are written in all.
func (m *maker) limitAll() {
	claims := make(map[string][]claim)
	for g, parts := range m.parts {
		c := claim{gone: gone{group: g}}
		counts := false
		for _, p := range parts {
			what := gone{g, p.cluster}
			counts = counts || !m.unplaced[what]
			c.placed = c.placed || m.before.seen[what] || m.after.lost[what].place
		}
		if had := m.have[g]; had != nil {
			c.had = had.marked && len(had.clusters) > 0
		}
		if counts {
			claims[g.of.Namespace] = append(claims[g.of.Namespace], c)
		}
	}
	places(claims, MaxObjects, math.MaxInt, func(c claim, _ int) {
		for _, p := range slices.Clone(m.parts[c.group]) {
			what := gone{c.group, p.cluster}
			if c.had {
				m.unplaced[what] = true
			} else {
				m.leaveOut(what, fmt.Sprintf("there are more than %d in all", MaxObjects))
			}
		}
	})
}

// places gives at most most places to claims, and at most ofNamespace of them to one namespace.
// Claims that had a place come first, then claims in the order of the namespaces. places calls over
// for each claim that gets no place, with the number of claims of its namespace that come before.
func places(claims map[string][]claim, most, ofNamespace int, over func(c claim, n int)) {
	kept := make(map[string]int) // places of before, by namespace
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
		kept[namespace] = min(n, ofNamespace)
		most -= kept[namespace]
	}
	for _, namespace := range slices.Sorted(maps.Keys(claims)) {
		all := claims[namespace]
		more := max(0, min(len(all), ofNamespace)-kept[namespace])
		more = min(more, max(0, most))
		most -= more
		for n := kept[namespace] + more; n < len(all); n++ {
			over(all[n], n)
		}
	}
}

// limitMembers limits the parts of each object.
func (m *maker) limitMembers() {
	for g, parts := range m.parts {
		slices.SortFunc(parts, func(a, b *part) int { return decides(g, a, b) })
		if len(parts) <= maxMembers {
			continue
		}
		for _, p := range parts[maxMembers:] {
			m.verdict(g, p.cluster, OverNumber, fmt.Sprintf("there are more than %d members", maxMembers), p.until)
		}
		m.parts[g] = parts[:maxMembers]
	}
}

// remember records for the next plan which parts an export asked for.
func (m *maker) remember(g group, parts []*part) {
	for _, p := range parts {
		what := gone{g, p.cluster}
		_, seen := m.before.seen[what]
		if _, lost := m.after.lost[what]; !lost && (seen || p.export != nil) {
			m.after.seen[what] = !m.unplaced[what]
		}
	}
}

func compareGroups(a, b group) int {
	return cmp.Or(compareIDs(a.of, b.of), cmp.Compare(rank(a.kind), rank(b.kind)), cmp.Compare(a.cluster, b.cluster))
}

func rank(k Kind) int { return slices.Index([]Kind{Import, Federated, Mirror}, k) }

func (m *maker) leaveOut(one gone, why string) {
	m.parts[one.group] = slices.DeleteFunc(m.parts[one.group], func(p *part) bool { return p.cluster == one.from })
	if len(m.parts[one.group]) == 0 {
		delete(m.parts, one.group)
	}
	m.verdict(one.group, one.from, OverNumber, why, time.Time{})
}

// decides orders parts: the first one decides what can't be united. By Linkerd's way that is the own cluster, then
// the older link; by KEP-1645 the oldest ServiceExport. Parts that are not known come where their cluster does, or
// last.
func decides(g group, a, b *part) int {
	if g.kind == Import {
		return cmp.Or(
			later(a.export == nil)-later(b.export == nil), olderExport(a, b), cmp.Compare(a.cluster, b.cluster),
		)
	}
	return cmp.Or(
		later(a.link == nil)-later(b.link == nil),
		later(a.cluster != "")-later(b.cluster != ""),
		olderLink(a, b),
		cmp.Compare(a.cluster, b.cluster),
	)
}

// later is 1 for what comes later.
func later(b bool) int {
	if b {
		return 1
	}
	return 0
}

func olderLink(a, b *part) int {
	if a.link == nil || b.link == nil {
		return 0
	}
	return a.link.Age.Compare(b.link.Age)
}

func olderExport(a, b *part) int {
	if a.export == nil || b.export == nil {
		return 0
	}
	x, y := a.export.Exported, b.export.Exported
	return cmp.Or(x.Created.Compare(y.Created), cmp.Compare(x.UID, y.UID), slices.CompareFunc(
		a.export.Service.Ports, b.export.Service.Ports, comparePorts,
	))
}

func comparePorts(a, b Port) int {
	return cmp.Or(
		cmp.Compare(a.Name, b.Name),
		cmp.Compare(a.Number, b.Number),
		cmp.Compare(a.Protocol, b.Protocol),
		cmp.Compare(a.AppProtocol, b.AppProtocol),
	)
}
