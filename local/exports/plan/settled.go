package plan

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"
)

// Once a ServiceImport is a minute old, its type and its ports are settled. A settled value changes
// only in two cases: no export has the value any longer, or an export with a different value is
// entitled to replace it. Two rules determine which exports are entitled to replace a settled
// value:
//
//   - An export may replace its own values and the values of younger exports. For example, while
//     the Service of the oldest export is missing, a younger export determines the value. When the
//     Service of the oldest export reappears, the oldest export may replace the value.
//   - A newcomer may not replace a settled value. A newcomer is an export whose ServiceExport this
//     leader first saw after the ServiceImport had settled. A new export cannot make clients lose
//     ports or IPs, even if the cluster of the export reports a false creation time.
//
// A new leader does not know from which exports the existing values came. A new leader assumes that
// each value came from the oldest export with that value. After a change of leader, an older export
// may replace an existing value only if that export was absent when Isthmus wrote the
// ServiceImport. An annotation on the ServiceImport lists the clusters whose exports were absent
// when Isthmus wrote the ServiceImport. For example, if the Service of the oldest export is missing
// when the leader changes, the annotation lists that export's cluster, so the export may replace
// the value once the Service reappears.

const settleTime = time.Minute

type history struct {
	joined []join       // sorted by cluster
	kind   *origin      // of the type; nil if not known yet
	ports  []portOrigin // of ports that exports have
}

// The ServiceExport may be invalid.
type join struct {
	cluster, uid string
	late         bool // whether it is a newcomer
}

type origin struct {
	exportKey          // the export; for a new leader, the oldest export that has the value
	against   []string // clusters whose exports are older but do not replace the value
}

type exportKey struct {
	created      time.Time
	uid, cluster string
}

type portOrigin struct {
	port Port // without a target, as in the ServiceImport
	from origin
}

func keyOf(p *member) exportKey {
	return exportKey{p.export.Exported.Created, p.export.Exported.UID, p.cluster}
}

// yields reports whether a value that has this origin may be replaced by a member's export. An
// export may replace its own values and the values of younger exports.
func (o origin) yields(p *member) bool {
	e := keyOf(p)
	if e == o.exportKey {
		return true
	}
	older := cmp.Or(e.created.Compare(o.created), cmp.Compare(e.uid, o.uid)) < 0
	return older && !slices.Contains(o.against, p.cluster)
}

type settler struct {
	localName string         // the local cluster's name
	have      *ServiceImport // nil if it does not exist
	settled   bool
	complete  bool            // the exports of all members are known
	known     []*member       // the members whose exports are known, oldest first
	late      map[string]bool // clusters whose exports are newcomers
	absent    map[string]bool // clusters whose exports were invalid when the ServiceImport was written
	before    *history        // nil if this leader has not seen the ServiceImport yet
	after     history
}

func newSettler(m *maker, one *merged) *settler {
	s := &settler{
		localName: m.ClusterName,
		have:      m.Imports[one.of],
		complete:  len(one.known) == len(one.members),
		known:     one.known,
		late:      make(map[string]bool),
		absent:    make(map[string]bool),
		before:    m.before.imports[one.of],
	}
	if s.have != nil {
		s.settled = hasSettled(m, one.of)
		for name := range strings.SplitSeq(firstItems(s.have.Annotations[absentKey], maxMembersBytes), ",") {
			if name != "" && len(s.absent) < maxMembers {
				s.absent[name] = true
			}
		}
	}

	earlier := make(map[string]join)
	if s.before != nil {
		for _, j := range s.before.joined {
			earlier[j.cluster] = j
		}
	}
	for _, e := range m.serviceExports[one.of] {
		j, seen := earlier[e.cluster]
		if !seen || j.uid != e.uid {
			j = e
			wasThere := m.has(memberKey{one.group, e.cluster}) || s.absent[cmp.Or(e.cluster, s.localName)]
			j.late = s.settled && s.before != nil && !wasThere
		}
		s.join(j)
		delete(earlier, e.cluster)
	}
	for _, p := range one.members {
		if j, seen := earlier[p.cluster]; seen && p.export == nil {
			s.join(j)
		}
	}
	slices.SortFunc(s.after.joined, func(a, b join) int { return cmp.Compare(a.cluster, b.cluster) })
	return s
}

func hasSettled(m *maker, id ID) bool {
	at := m.Imports[id].Created.Add(settleTime)
	if m.Now.Before(at) {
		m.dueAt(at)
		return false
	}
	return true
}

func (s *settler) join(j join) {
	s.after.joined = append(s.after.joined, j)
	s.late[j.cluster] = j.late
}

// byAge returns the members whose exports are known, oldest first. Newcomers come last.
func (s *settler) byAge() []*member {
	members := slices.Clone(s.known)
	slices.SortStableFunc(members, func(a, b *member) int {
		return later(s.late[a.cluster]) - later(s.late[b.cluster])
	})
	return members
}

// firstSight determines the origin of a value that existed before this replica became the leader.
// If the exports of any member are unknown, or if no export has the value, firstSight returns nil.
// has(member) reports whether the member's export has the value. rivals(member) reports whether the
// member's export has a different value that could replace the existing value.
func (s *settler) firstSight(has, rivals func(*member) bool) *origin {
	if !s.complete {
		return nil
	}
	var against []string
	for _, p := range s.known {
		if has(p) {
			return &origin{keyOf(p), against}
		}
		if rivals(p) && !s.absent[cmp.Or(p.cluster, s.localName)] {
			against = append(against, p.cluster)
		}
	}
	return nil
}

// rivals(member) reports whether the member's export has a different value that could replace the
// existing value.
func (s *settler) stays(from *origin, has, rivals func(*member) bool) bool {
	if s.complete && !slices.ContainsFunc(s.known, has) {
		return false
	}
	wins := func(p *member) bool { return rivals(p) && !s.late[p.cluster] && from.yields(p) }
	return from == nil || !slices.ContainsFunc(s.known, wins)
}

func (s *settler) decideType() string {
	if s.before != nil {
		s.after.kind = s.before.kind
	}
	if len(s.known) == 0 {
		if s.have != nil {
			return s.have.Type
		}
		return clusterSetIP
	}
	if s.settled {
		has := func(p *member) bool { return importType(p.export) == s.have.Type }
		rivals := func(p *member) bool { return !has(p) }
		if s.after.kind == nil {
			s.after.kind = s.firstSight(has, rivals)
		}
		if s.stays(s.after.kind, has, rivals) {
			return s.have.Type
		}
	}
	first := s.byAge()[0]
	s.after.kind = &origin{exportKey: keyOf(first)}
	return importType(first.export)
}

// keptPorts returns the existing ports to keep. A new port replaces an existing port only if the
// new port does not conflict with any other port that is kept.
func (s *settler) keptPorts(there []Port) portList {
	list := portList{kept: true}
	if !s.settled && s.complete {
		return list
	}
	from := make(map[Port]origin)
	if s.before != nil {
		for _, p := range s.before.ports {
			from[p.port] = p.from
		}
	}
	f := portFate{
		settler:  s,
		index:    indexPorts(there),
		unnamed:  s.unnamed(there),
		exported: make(map[Port]bool),
		origins:  make(map[Port]*origin),
	}
	for _, port := range there {
		has := func(p *member) bool { return p.ports().has(port) }
		f.exported[port] = slices.ContainsFunc(s.known, has)
		if remembered, ok := from[port.untargeted()]; ok {
			f.origins[port] = &remembered
		} else {
			f.origins[port] = s.firstSight(has, func(p *member) bool { return f.keepsOut(port, p) })
		}
		if o := f.origins[port]; o != nil { // also of ports that do not stay: they exist until the next write
			s.after.ports = append(s.after.ports, portOrigin{port.untargeted(), *o})
		}
	}
	for _, port := range there {
		has := func(p *member) bool { return p.ports().has(port) }
		if s.stays(f.origins[port], has, func(p *member) bool { return f.rivals(port, p) }) {
			list.ports = append(list.ports, port)
			list.unnamed = list.unnamed || f.unnamed[port]
		}
	}
	return list
}

// unnamed returns the existing ports whose name is empty or generated. A port's name counts as
// generated if the port has no name in the oldest known export that contains the port. If no known
// export contains a port, and the port's name may have been generated, the name counts as
// generated.
func (s *settler) unnamed(there []Port) map[Port]bool {
	members := s.byAge()
	all := make(map[Port]bool)
	for _, port := range there {
		is := port.unnamed().Name == ""
		if i := slices.IndexFunc(members, func(p *member) bool { return p.ports().has(port) }); i >= 0 {
			is = members[i].ports().hasUnnamed(port)
		}
		if is {
			all[port] = true
		}
	}
	return all
}

// absentClusters returns the value of the annotation absentKey. The annotation lists clusters that
// have a ServiceExport but are neither members nor newcomers. A cluster stays in the annotation
// while it is unlinked or its exports are unknown. While any member's exports are unknown, every
// listed cluster that has a ServiceExport stays in the annotation.
func (s *settler) absentClusters(m *maker, members []*member) string {
	isMember := make(map[string]bool)
	for _, p := range members {
		isMember[p.cluster] = true
	}
	var names []string
	for _, j := range s.after.joined {
		name := cmp.Or(j.cluster, s.localName)
		if !isMember[j.cluster] && !j.late || !s.complete && s.absent[name] {
			names = append(names, name)
		}
	}
	for name := range s.absent {
		c := m.clusters[name]
		if name == s.localName {
			c = m.clusters[""]
		}
		if c == nil || !m.knows(c, Import) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	names = slices.Compact(names)
	names = names[:min(len(names), maxMembers)]
	return firstItems(strings.Join(names, ","), maxMembersBytes)
}

// For each new port, the settler records the export from which the port came. While the exports of
// any member are unknown, the origins of existing ports are not recorded.
func (s *settler) remember(ports, there []Port) {
	known := make(map[Port]bool)
	for _, p := range s.after.ports {
		known[p.port] = true
	}
	if !s.complete {
		for _, p := range there {
			known[p.untargeted()] = true
		}
	}
	for _, port := range ports {
		if known[port.untargeted()] {
			continue
		}
		for _, p := range s.byAge() {
			if p.ports().has(port) {
				from := origin{exportKey: keyOf(p)}
				s.after.ports = append(s.after.ports, portOrigin{port.untargeted(), from})
				break
			}
		}
	}
}

type portFate struct {
	*settler
	index    *portIndex       // of the existing ports
	unnamed  map[Port]bool    // existing ports that have no name in their exports
	exported map[Port]bool    // existing ports that a known export has
	origins  map[Port]*origin // nil if not known
}

func (f *portFate) inPlaceOf(q Port) []Port {
	all := f.index.taking(q)
	if q.Name == "" { // a ServiceImport has at most one unnamed port
		all = slices.AppendSeq(all, maps.Keys(f.unnamed))
	}
	return all
}

// keepsOut reports whether a member's export has a port that conflicts with the given existing port
// but with no other existing port.
func (f *portFate) keepsOut(port Port, p *member) bool {
	isOther := func(other Port) bool { return other != port }
	return slices.ContainsFunc(p.ports().rivals(port, f.unnamed[port]), func(q Port) bool {
		return !slices.ContainsFunc(f.inPlaceOf(q), isOther)
	})
}

// rivals reports whether a port of a member's export could replace the given existing port. A port
// of the export can replace an existing port only if the two conflict and the export's port does
// not conflict with any other existing port that is kept.
func (f *portFate) rivals(port Port, p *member) bool {
	remains := func(other Port) bool { return other != port && f.remains(other, p) }
	return slices.ContainsFunc(p.ports().rivals(port, f.unnamed[port]), func(q Port) bool {
		return !slices.ContainsFunc(f.inPlaceOf(q), remains)
	})
}

// The result is true if an existing port is kept although it conflicts with a port of a member's
// export.
func (f *portFate) remains(port Port, p *member) bool {
	if f.complete && !f.exported[port] {
		return false
	}
	o := f.origins[port]
	return o == nil || !o.yields(p)
}
