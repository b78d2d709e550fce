package plan

import (
	"cmp"
	"slices"
	"time"
)

// member describes one member cluster of an existing or planned object.
type member struct {
	cluster string   // empty for the local cluster
	link    *Cluster // nil if the cluster is not linked
	export  *Export  // nil if the export is not known; the member then stays as it is
	state   State
	until   time.Time
	index   *portIndex // of the export's ports; nil until first used
	copies  *copies    // of the ServiceExport; nil until first used
	notes   []string   // reported for this member only
}

// exported returns the first maxExportedPorts ports of the member's export. The member's export
// must be known.
func (m *member) exported() []Port {
	ports := m.export.Service.Ports
	return ports[:min(len(ports), maxExportedPorts)]
}

func (m *member) ports() *portIndex {
	if m.index == nil {
		m.index = indexPorts(m.exported())
	}
	return m.index
}

// serviceCopies returns the labels and annotations to copy from the member's Service, except the
// annotations that define a preference. The member's export must be known.
func (m *member) serviceCopies() copies {
	s := m.export.Service
	return chooseCopies(s.Labels, s.Annotations, copyLabel(m.link.ExcludeLabels), copyAnnotation)
}

// exportedCopies returns the labels and annotations to copy from the member's ServiceExport. The
// member's export must be known.
func (m *member) exportedCopies() *copies {
	if m.copies == nil {
		e := m.export.Exported
		c := chooseCopies(e.Labels, e.Annotations, copyExportedLabel(m.link.ExcludeLabels), copyExported)
		m.copies = &c
	}
	return m.copies
}

type memberKey struct {
	group
	member string // the name of the cluster
}

type namedMembers struct {
	marked   bool     // if false, the object has no mark and may be adopted
	more     bool     // the object names more members than the plan reads
	clusters []string // sorted, without duplicates
}

// A nil namedMembers has no members.
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

// compareMembers orders the members of a group. The first member determines all values that cannot
// be merged. For mirrors and federated Services, the order is the same as in Linkerd: first the
// local cluster, and then the linked clusters by the age of their links, oldest first. For
// ServiceImports, the oldest ServiceExport comes first, as in KEP-1645, and the UID decides between
// ServiceExports of the same age. For ServiceImports, members whose exports are unknown come last.
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

// later converts a boolean to a number, so that comparison functions sort true after false.
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
