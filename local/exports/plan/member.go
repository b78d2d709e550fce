package plan

import (
	"cmp"
	"slices"
	"time"
)

// member is what a cluster has, or is to have, in what is written for a group.
type member struct {
	cluster string
	link    *Cluster // nil: it is linked no longer
	export  *Export  // nil: it is not known, and what is there of it is kept
	state   State
	until   time.Time
	index   *portIndex // of the export's ports; nil: not made yet
	copies  *copies    // of its ServiceExport; nil: not made yet
	notes   []string   // what is reported of this member alone
}

// exported returns the ports of the member's export that are read. The export is known.
func (p *member) exported() []Port {
	ports := p.export.Service.Ports
	return ports[:min(len(ports), maxExportedPorts)]
}

// ports returns the index of the ports of the member's export, which is known.
func (p *member) ports() *portIndex {
	if p.index == nil {
		p.index = indexPorts(p.exported())
	}
	return p.index
}

// serviceCopies returns what is copied of a member's Service, besides its preference. The member's export is known.
func (p *member) serviceCopies() copies {
	s := p.export.Service
	return chooseCopies(s.Labels, s.Annotations, copyLabel(p.link.ExcludeLabels), copyAnnotation)
}

// exportedCopies returns what is copied of a member's ServiceExport. The member's export is known.
func (p *member) exportedCopies() *copies {
	if p.copies == nil {
		e := p.export.Exported
		c := chooseCopies(e.Labels, e.Annotations, copyExportedLabel(p.link.ExcludeLabels), copyExported)
		p.copies = &c
	}
	return p.copies
}

// gone is a member of a cluster.
type memberKey struct {
	group
	member string // the cluster
}

// holders are the clusters that an object names as those that have a member in it.
type namedMembers struct {
	marked   bool     // false: the object has no mark yet, and may be adopted
	more     bool     // the object names more members than are read
	clusters []string // sorted, each once
}

// has reports whether a cluster is among them. h may be nil.
func (h *namedMembers) has(cluster string) bool {
	if h == nil {
		return false
	}
	_, found := slices.BinarySearch(h.clusters, cluster)
	return found
}

func clustersOf(members []*member) (names []string) {
	for _, p := range members {
		names = append(names, p.cluster)
	}
	return names
}

// decides orders members: the first one decides what can't be united. By Linkerd's way that is the own cluster, then
// the older link; by KEP-1645 the oldest ServiceExport. Parts that are not known come where their cluster does, or
// last.
func compareMembers(g group, a, b *member) int {
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

func olderLink(a, b *member) int {
	if a.link == nil || b.link == nil {
		return 0
	}
	return a.link.Age.Compare(b.link.Age)
}

func olderExport(a, b *member) int {
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
