package plan

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"
)

// How much is written at most. A ClusterIP range may have 4,096 addresses, and Pods of a namespace with 2,000 Services do
// not start.
const (
	maxOfLink      = 1000 // objects that a link has a part in
	maxOfNamespace = 250  // of these, in one namespace
	maxObjects     = 5000
	maxMembers     = 256 // of one object
)

// limit leaves out what is too much: what is written already comes first, then by name.
func (m *maker) limit() {
	ofLink := make(map[string][]gone)
	for g, parts := range m.parts {
		slices.SortFunc(parts, func(a, b *part) int { return decides(g, a, b) })
		if len(parts) > maxMembers {
			for _, p := range parts[maxMembers:] {
				m.verdict(g, p.cluster, OverNumber, fmt.Sprintf("there are more than %d members", maxMembers), p.until)
			}
			m.parts[g] = parts[:maxMembers]
		}
		for _, p := range m.parts[g] {
			ofLink[p.cluster] = append(ofLink[p.cluster], gone{g, p.cluster})
		}
	}
	for name, all := range ofLink {
		if name != "" {
			m.limitLink(all)
		}
	}
	m.limitAll()
}

func (m *maker) limitLink(all []gone) {
	slices.SortFunc(all, func(a, b gone) int { return m.first(a.group, b.group, a.from) })
	ofNamespace := make(map[string]int)
	n := 0
	for _, one := range all {
		in := one.of.Namespace
		switch {
		case n == maxOfLink:
			m.leaveOut(one, fmt.Sprintf("there are more than %d for this link", maxOfLink))
		case ofNamespace[in] == maxOfNamespace:
			m.leaveOut(one, fmt.Sprintf("there are more than %d for this link in one namespace", maxOfNamespace))
		default:
			n++
			ofNamespace[in]++
		}
	}
}

func (m *maker) limitAll() {
	all := slices.SortedFunc(maps.Keys(m.parts), func(a, b group) int { return m.first(a, b, "") })
	for _, g := range all[min(len(all), maxObjects):] {
		for _, p := range slices.Clone(m.parts[g]) {
			m.leaveOut(gone{g, p.cluster}, fmt.Sprintf("there are more than %d in all", maxObjects))
		}
	}
}

// first orders groups by whether the cluster (empty: any) has a part in what is written, then by name.
func (m *maker) first(a, b group, cluster string) int {
	had := func(g group) bool {
		return m.have[g][cluster] || cluster == "" && slices.Contains(slices.Collect(maps.Values(m.have[g])), true)
	}
	return cmp.Or(later(!had(a))-later(!had(b)), compareGroups(a, b))
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

// decides orders parts: the first one decides what can't be united. By Linkerd's way that is the own cluster, then the older
// link; by KEP-1645 the oldest ServiceExport. Parts that are not known come where their cluster does, or last.
func decides(g group, a, b *part) int {
	if g.kind == Import {
		return cmp.Or(later(a.export == nil)-later(b.export == nil), olderExport(a, b), cmp.Compare(a.cluster, b.cluster))
	}
	return cmp.Or(later(a.link == nil)-later(b.link == nil), later(a.cluster != "")-later(b.cluster != ""), olderLink(a, b), cmp.Compare(a.cluster, b.cluster))
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
	return cmp.Or(x.Created.Compare(y.Created), cmp.Compare(x.UID, y.UID), slices.CompareFunc(a.export.Service.Ports, b.export.Service.Ports, comparePorts))
}

func comparePorts(a, b Port) int {
	return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Number, b.Number), cmp.Compare(a.Protocol, b.Protocol), cmp.Compare(a.AppProtocol, b.AppProtocol))
}
