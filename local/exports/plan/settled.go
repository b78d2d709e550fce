package plan

import (
	"cmp"
	"slices"
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
// A new leader does not know where the values that it finds came from. If an older export has
// another value, the leader lets the value stay against all exports that it finds.

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
	missing      bool // it was not valid in the last plan
}

// origin is the export that a value came from, and its age. The zero value is older than each export.
type origin struct {
	created      time.Time
	uid, cluster string
}

type portOrigin struct {
	port Port // without a target
	from origin
}

func originOf(p *part) origin {
	return origin{p.export.Exported.Created, p.export.Exported.UID, p.cluster}
}

// yields reports whether a value with this origin gives way to another value of a part's export.
// That is so if the value came from that export, or from a younger one.
func (o origin) yields(p *part) bool {
	e := originOf(p)
	return o == e || o != origin{} && cmp.Or(e.created.Compare(o.created), cmp.Compare(e.uid, o.uid)) < 0
}

// settler decides which values of one ServiceImport stay.
type settler struct {
	have     *ServiceImport // nil: there is none
	settled  bool
	complete bool            // the exports of all parts are known
	known    []*part         // the parts whose exports are known, by age
	late     map[string]bool // the clusters whose exports are newcomers
	returned map[string]bool // the clusters whose exports were not valid in the last plan
	before   *history        // nil: this leader has not seen the ServiceImport yet
	after    history
}

// newSettler returns the settler of a ServiceImport.
func (m *maker) newSettler(one *merged) *settler {
	s := &settler{
		have:     m.Imports[one.of],
		complete: len(one.known) == len(one.parts),
		known:    one.known,
		late:     make(map[string]bool),
		returned: make(map[string]bool),
		before:   m.before.imports[one.of],
	}
	s.settled = s.have != nil && m.settled(one.of)

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
			j.late = s.settled && s.before != nil && !m.hasPart(one.group, e.cluster)
		}
		s.returned[j.cluster] = seen && j.missing
		j.missing = e.missing
		s.join(j)
		delete(earlier, e.cluster)
	}
	for _, p := range one.parts {
		if j, seen := earlier[p.cluster]; seen && p.export == nil {
			s.join(j)
		}
	}
	slices.SortFunc(s.after.joined, func(a, b join) int { return cmp.Compare(a.cluster, b.cluster) })
	return s
}

// join remembers a ServiceExport.
func (s *settler) join(j join) {
	s.after.joined = append(s.after.joined, j)
	s.late[j.cluster] = j.late
}

// byAge returns the parts whose exports are known, by age, but newcomers last.
func (s *settler) byAge() []*part {
	parts := slices.Clone(s.known)
	slices.SortStableFunc(parts, func(a, b *part) int { return later(s.late[a.cluster]) - later(s.late[b.cluster]) })
	return parts
}

// firstSight returns the origin of a value that a new leader finds. It returns nil while the
// exports of a part are not known. If an older export, which was there in the last plan, has
// another value, the value has settled against that export.
func (s *settler) firstSight(has, rivals func(*part) bool) *origin {
	if !s.complete {
		return nil
	}
	for _, p := range s.known {
		if rivals(p) && !s.returned[p.cluster] {
			return &origin{}
		}
		if has(p) {
			o := originOf(p)
			return &o
		}
	}
	return &origin{}
}

// stays reports whether a value stays. has reports whether an export has the value, and rivals
// whether an export has another value in its place.
func (s *settler) stays(from *origin, has, rivals func(*part) bool) bool {
	if s.complete && !slices.ContainsFunc(s.known, has) {
		return false
	}
	wins := func(p *part) bool { return rivals(p) && !s.late[p.cluster] && from.yields(p) }
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
		has := func(p *part) bool { return importType(p.export) == s.have.Type }
		rivals := func(p *part) bool { return !has(p) }
		if s.after.kind == nil {
			s.after.kind = s.firstSight(has, rivals)
		}
		if s.stays(s.after.kind, has, rivals) {
			return s.have.Type
		}
	}
	first := s.byAge()[0]
	o := originOf(first)
	s.after.kind = &o
	return importType(first.export)
}

// keptPorts returns those of the ports there that stay.
func (s *settler) keptPorts(there []Port) offered {
	list := offered{kept: true}
	if !s.settled && s.complete {
		return list
	}
	from := make(map[Port]origin)
	if s.before != nil {
		for _, p := range s.before.ports {
			from[p.port] = p.from
		}
	}
	for _, port := range there {
		has := func(p *part) bool { return p.ports().has(port) }
		unnamed := slices.ContainsFunc(s.known, func(p *part) bool { return p.ports().hasUnnamed(port) })
		rivals := func(p *part) bool { return p.ports().rivals(port, unnamed) }
		var o *origin
		if remembered, ok := from[port.untargeted()]; ok {
			o = &remembered
		} else {
			o = s.firstSight(has, rivals)
		}
		if o != nil { // also of a port that does not stay: it is there until that is written
			s.after.ports = append(s.after.ports, portOrigin{port.untargeted(), *o})
		}
		if !s.stays(o, has, rivals) {
			continue
		}
		list.ports = append(list.ports, port)
		list.unnamed = list.unnamed || unnamed
	}
	return list
}

// remember remembers where ports came from that are not among those that stay.
func (s *settler) remember(ports []Port) {
	known := make(map[Port]bool)
	for _, p := range s.after.ports {
		known[p.port] = true
	}
	for _, port := range ports {
		if known[port.untargeted()] {
			continue
		}
		for _, p := range s.byAge() {
			if p.ports().has(port) {
				s.after.ports = append(s.after.ports, portOrigin{port.untargeted(), originOf(p)})
				break
			}
		}
	}
}
