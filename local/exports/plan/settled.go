package plan

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"
)

// Once a ServiceImport is a minute old, its type and its ports have settled. A value that has
// settled stays while an export has it, although an older export has another value. It stays only
// against
//
//   - exports that are younger than the one that the value came from. So an export whose Service
//     was missing for a time decides again afterwards, and an export may change its own values.
//   - newcomers: exports whose ServiceExport this leader first saw after the ServiceImport had
//     settled. An old creation time, which a linked cluster may make up, takes no port and no IPs
//     from clients.
//
// A new leader does not know where the values that it finds came from. It takes each value for that
// of the oldest export that has it. The value also stays against the older exports that have another
// value at that time. An export that was absent when the ServiceImport was written is none of these:
// the ServiceImport names its cluster in an annotation. So the oldest export decides once its
// Service is back, also for a new leader.

// settleTime is the age at which the type and the ports of a ServiceImport have settled.
const settleTime = time.Minute

// history is what a leader remembers of a ServiceImport.
type history struct {
	joined []join       // by cluster
	kind   *origin      // of the type; nil: it is not known yet
	ports  []portOrigin // of ports that exports have
}

// join is a ServiceExport that the leader has seen, whether it is valid or not.
type join struct {
	cluster, uid string
	late         bool // it is a newcomer
}

// origin is where a value came from.
type origin struct {
	exportKey          // the export that the value came from, or the oldest one that a new leader finds
	against   []string // clusters whose exports the value stays against, although they are older
}

// exportKey identifies a ServiceExport, and says how old it is.
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

// yields reports whether a value with this origin gives way to another value of a member's export.
// That is so if the value came from that export, or from a younger one.
func (o origin) yields(p *member) bool {
	e := keyOf(p)
	if e == o.exportKey {
		return true
	}
	older := cmp.Or(e.created.Compare(o.created), cmp.Compare(e.uid, o.uid)) < 0
	return older && !slices.Contains(o.against, p.cluster)
}

// settler decides which values of one ServiceImport stay.
type settler struct {
	localName string         // the local cluster's name
	have      *ServiceImport // nil: there is none
	settled   bool
	complete  bool            // the exports of all members are known
	known     []*member       // the members whose exports are known, by age
	late      map[string]bool // the clusters whose exports are newcomers
	absent    map[string]bool // the clusters whose exports were not valid when the ServiceImport was written
	before    *history        // nil: this leader has not seen the ServiceImport yet
	after     history
}

// newSettler returns the settler of a ServiceImport.
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

// hasSettled reports whether a ServiceImport is old enough for its type and ports to have settled.
func hasSettled(m *maker, id ID) bool {
	at := m.Imports[id].Created.Add(settleTime)
	if m.Now.Before(at) {
		m.dueAt(at)
		return false
	}
	return true
}

// join remembers a ServiceExport.
func (s *settler) join(j join) {
	s.after.joined = append(s.after.joined, j)
	s.late[j.cluster] = j.late
}

// byAge returns the members whose exports are known, by age, but newcomers last.
func (s *settler) byAge() []*member {
	members := slices.Clone(s.known)
	slices.SortStableFunc(members, func(a, b *member) int {
		return later(s.late[a.cluster]) - later(s.late[b.cluster])
	})
	return members
}

// firstSight returns the origin of a value that the leader finds, as far as the leader can tell. It
// returns nil while the exports of a member are not known, and if no export has the value. rivals
// reports whether an export has another value that only this value keeps out.
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

// stays reports whether a value stays. has reports whether an export has the value, and rivals
// whether an export has another value in its place.
func (s *settler) stays(from *origin, has, rivals func(*member) bool) bool {
	if s.complete && !slices.ContainsFunc(s.known, has) {
		return false
	}
	wins := func(p *member) bool { return rivals(p) && !s.late[p.cluster] && from.yields(p) }
	return from == nil || !slices.ContainsFunc(s.known, wins)
}

// decideType returns the type of the ServiceImport.
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

// keptPorts returns those of the ports there that stay. A port gives way to another one only if the
// other one then has a place.
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
		if o := f.origins[port]; o != nil { // also of a port that does not stay: it is there until that is written
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

// unnamed returns the ports that have no name in the oldest export that has them. If no export that
// is known has a port, a name that may have been made up counts as none.
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

// absentClusters returns the value of the annotation that names the clusters whose ServiceExports
// have no member, and are no newcomers. While the exports of a member are not known, nothing is decided
// about clusters that are back, so they stay in the annotation. So do clusters whose exports are not
// known, and clusters that are not linked.
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

// remember remembers where ports came from that are not among those that stay. While the exports of
// a member are not known, where the ports there came from is left open.
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

// portFate is what decides whether the ports of a ServiceImport stay.
type portFate struct {
	*settler
	index    *portIndex       // of these ports
	unnamed  map[Port]bool    // the ports that have no name in their exports
	exported map[Port]bool    // the ports that an export has, of the exports that are known
	origins  map[Port]*origin // nil: not known
}

// inPlaceOf returns the ports that take the name or the number of a port of an export.
func (f *portFate) inPlaceOf(q Port) []Port {
	all := f.index.taking(q)
	if q.Name == "" { // a ServiceImport has at most one such port
		all = slices.AppendSeq(all, maps.Keys(f.unnamed))
	}
	return all
}

// keepsOut reports whether a member's export has a port that this port alone keeps out.
func (f *portFate) keepsOut(port Port, p *member) bool {
	isOther := func(other Port) bool { return other != port }
	return slices.ContainsFunc(p.ports().rivals(port, f.unnamed[port]), func(q Port) bool {
		return !slices.ContainsFunc(f.inPlaceOf(q), isOther)
	})
}

// rivals reports whether a member's export has a port that this port keeps out, and no other port
// that remains.
func (f *portFate) rivals(port Port, p *member) bool {
	remains := func(other Port) bool { return other != port && f.remains(other, p) }
	return slices.ContainsFunc(p.ports().rivals(port, f.unnamed[port]), func(q Port) bool {
		return !slices.ContainsFunc(f.inPlaceOf(q), remains)
	})
}

// remains reports whether a port does not give way to the ports of a member's export.
func (f *portFate) remains(port Port, p *member) bool {
	if f.complete && !f.exported[port] {
		return false
	}
	o := f.origins[port]
	return o == nil || !o.yields(p)
}
