package plan

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"isthmus/internal/text"
)

// merged is what the parts of a group make together.
type merged struct {
	group
	taken      string // why the name of a ServiceImport's Service is; empty: it is not
	parts      []*part
	known      []*part // those whose exports are known
	deciding   *part   // the first of these; nil: there is none
	ports      []Port
	importType string     // of a ServiceImport
	absent     string     // of a ServiceImport: the value of the annotation absentKey
	metadata   metadata   // what is copied
	conflicts  []Conflict // each with its Reason and Message
	refused    []string   // what of the parts can't be used
}

// write decides on each group that has a part, or had one.
func (m *maker) write() {
	var wanted []*merged
	for _, g := range slices.SortedFunc(maps.Keys(m.parts), compareGroups) {
		one := m.merge(g)
		if g.kind == Import {
			m.headless[g] = one.importType == headless
		}
		for i := range one.conflicts {
			one.conflicts[i].Of = g.of
			one.conflicts[i].Object = m.object(g)
			one.conflicts[i].Kind = g.kind
		}
		wanted = append(wanted, one)
	}
	owners := m.names(wanted)
	for _, one := range wanted {
		g := one.group
		why := strings.Join(text.First(one.refused, mostRefused), "; ")
		m.out.Conflicts = append(m.out.Conflicts, one.conflicts...)
		state, detail := m.place(one, owners[g.target()])
		if state == Written && !m.headless[g] && len(one.ports) == 0 {
			state, detail = NoPort, why
			if o := m.Service(g.target()); o != nil && m.Marked(o) {
				one.ports = firstPorts(o.Ports) // members that have gone do not stay for that
			}
		}
		if o := m.Imports[g.of]; state == Taken && g.kind == Import && o != nil && m.MarkedImport(o) {
			one.taken = detail
		}
		if state == Written || one.taken != "" || state == NoPort && len(one.ports) > 0 {
			m.want(one)
		}
		for _, p := range one.parts {
			switch {
			case state != Written:
				m.verdict(g, p.cluster, state, detail, p.until)
			case p.state == NameRefused:
				_, detail, _ := m.judgeName(g)
				m.verdict(g, p.cluster, p.state, detail+"; the Service stays for a time", p.until)
			default:
				notes := slices.Concat(one.refused, p.notes)
				m.verdict(g, p.cluster, p.state, strings.Join(text.First(notes, mostRefused), "; "), p.until)
			}
		}
	}
	for _, g := range slices.SortedFunc(maps.Keys(m.have), compareGroups) {
		// Of an object without members, which others have taken away, nobody knows whose it is until all clusters are
		// seen.
		if len(m.parts[g]) == 0 && !m.frozen[g] && !m.left(g) && (len(m.have[g].clusters) > 0 || m.allKnow(g.kind)) {
			m.remove(g)
		}
	}
	for _, o := range m.unknown {
		if _, wanted := owners[o.ID]; !wanted && !o.Deleting && m.Labels && m.ServiceExports && m.allKnow(Import) {
			m.out.Delete = append(m.out.Delete, Unwanted{o.ID, o.ID, "", SharedTurn, o.UID})
		}
	}
	slices.SortFunc(m.out.Services, func(a, b WantedService) int { return compareIDs(a.ID, b.ID) })
	slices.SortFunc(m.out.Delete, func(a, b Unwanted) int { return compareIDs(a.ID, b.ID) })
}

// remove deletes what was written for a group.
func (m *maker) remove(g group) {
	m.removeService(g)
	if o := m.Imports[g.of]; g.kind == Import && m.MCSVersion != "" && o != nil && m.MarkedImport(o) && !o.Deleting {
		m.out.DeleteImports = append(m.out.DeleteImports, Unwanted{o.ID, g.of, g.kind, m.turnOfGone(g), o.UID})
	}
}

// SharedTurn is the turn of all writes of objects that no export asks for, and asked for while this
// leader led. No cluster has that name. So the clusters that objects name get no turns of their
// own.
const SharedTurn = "no export"

// turn returns the turn of a group's writes: the first cluster of which an export asks, or asked, for a part.
func (m *maker) turn(parts []*part, g group) string {
	for _, p := range parts {
		if p.export != nil || m.confirmed(gone{g, p.cluster}) {
			return p.cluster
		}
	}
	return SharedTurn
}

// turnOfGone returns the turn of the deletion of what is written for a group.
func (m *maker) turnOfGone(g group) string {
	if had := m.have[g]; had != nil {
		for _, name := range had.clusters {
			if m.confirmed(gone{g, name}) {
				return name
			}
		}
	}
	return SharedTurn
}

// removeService deletes the Service of a group. What Linkerd wrote and nothing wants stays.
func (m *maker) removeService(g group) {
	if o := m.Service(g.target()); o != nil && m.Marked(o) && !o.Deleting {
		if is, _, _ := identify(o); is == g {
			m.out.Delete = append(m.out.Delete, Unwanted{o.ID, g.of, g.kind, m.turnOfGone(g), o.UID})
		}
	}
}

// names decides whose a Service's name is that several groups want: that of the group that has it, or else of the
// first kind, or else of the older link.
func (m *maker) names(wanted []*merged) map[ID]group {
	owners := make(map[ID]group)
	for _, one := range wanted {
		g := one.group
		if now, ok := owners[g.target()]; !m.headless[g] && (!ok || m.wins(g, now)) {
			owners[g.target()] = g
		}
	}
	return owners
}

func (m *maker) wins(g, over group) bool {
	if o := m.Service(g.target()); o != nil && m.Marked(o) {
		switch is, _, _ := identify(o); is {
		case over:
			return false
		case g:
			return true
		}
	}
	a, b := m.parts[g][0], m.parts[over][0]
	return cmp.Or(
		rank(g.kind)-rank(over.kind),
		later(a.link == nil)-later(b.link == nil),
		olderLink(a, b),
		compareGroups(g, over),
	) < 0
}

const noImports = "this cluster does not have them as a kind of object"

// place decides whether what is at a group's name may be written.
func (m *maker) place(one *merged, owner group) (s State, detail string) {
	g := one.group
	if m.left(g) {
		return LeftToLinkerd, ""
	}
	if g.kind == Import {
		switch o := m.Imports[g.of]; {
		case m.Imports == nil:
			return NoImports, "the ServiceImports of this cluster have not been read"
		case m.MCSVersion == "":
			return NoImports, noImports
		case o != nil && !m.MarkedImport(o):
			by := cmp.Or(
				m.otherInstallation("ServiceImport", o.ID, o.Labels, o.Annotations),
				text.Truncate(o.Manager, text.Short),
				"another controller",
			)
			return Taken, "the ServiceImport is somebody else's: it was written by " + by
		case o != nil && o.Deleting:
			return Waiting, "the ServiceImport is being deleted"
		case m.headless[g]:
			return Written, ""
		}
	}
	o := m.Service(g.target())
	if o != nil && m.Marked(o) {
		if is, _, ok := identify(o); ok {
			owner = is
		}
	}
	switch {
	case owner != g:
		return Taken, "it is written for the " + string(owner.kind) + " of " + owner.of.String()
	case o == nil:
		return Written, ""
	case o.Deleting:
		return Waiting, "the Service " + o.Name + " is being deleted"
	case m.Marked(o):
		return Written, ""
	case !adoptable(o, g):
		detail := "the Service " + g.target().Name + " is somebody else's"
		if by := m.otherInstallation("Service", o.ID, o.Labels, o.Annotations); by != "" {
			detail += ": it was written by " + by
		}
		return Taken, detail
	case m.have[g] == nil:
		return LeftToLinkerd, "its service mirror wrote it, and may still run"
	}
	// the limits have left out what is exported
	if !slices.ContainsFunc(m.parts[g], func(p *part) bool { return p.export != nil }) {
		return Taken, "the Service " + o.Name + " has no member that may be written"
	}
	members := clustersOf(m.parts[g])
	for _, name := range m.have[g].clusters {
		if m.clusters[name] != nil && !slices.Contains(members, name) {
			return Taken, "the Service " + o.Name + " has a member that is not exported: that of " + shown(name)
		}
	}
	return Written, ""
}

// allKnow reports whether what all clusters export for a kind is known.
func (m *maker) allKnow(k Kind) bool {
	return !slices.ContainsFunc(m.Clusters, func(c Cluster) bool { return c.Joins != JoinsNone && !c.knows(k) })
}

func clustersOf(parts []*part) (names []string) {
	for _, p := range parts {
		names = append(names, p.cluster)
	}
	return names
}

// merge unites the parts of a group. While the exports of one are not known, what it may decide stays.
func (m *maker) merge(g group) *merged {
	one := &merged{group: g, parts: m.parts[g]}
	for _, p := range one.parts {
		if p.export != nil {
			one.known = append(one.known, p)
		}
	}
	if g.kind == Import {
		m.mergeImport(one)
	} else {
		one.ports, one.refused = unite(m.offersInOrder(one))
	}
	for _, p := range one.known {
		if len(p.export.Service.Ports) > maxExportedPorts {
			one.refused = append(one.refused, fmt.Sprintf(
				"cluster %s: only the first %d ports are read", shown(p.cluster), maxExportedPorts))
		}
	}
	if len(one.known) == 0 {
		return one
	}
	one.deciding = one.known[0]
	e := one.deciding.export
	if one.deciding.link.Joins == Unreadable { // it is not known which labels the link excludes
		one.metadata.keep = true
	}
	if g.kind != Import {
		one.metadata.copies = one.deciding.serviceCopies()
		if one.deciding.cluster == "" {
			preference := preferenceOf(e.Service)
			maps.Copy(one.metadata.copies.annotations, preference.annotations)
			one.metadata.copies.refused = append(one.metadata.copies.refused, preference.refused...)
		}
	} else {
		one.metadata.copies = *one.deciding.exportedCopies()
		for _, p := range one.known[1:] {
			for _, text := range p.exportedCopies().refused {
				if !slices.Contains(one.metadata.copies.refused, text) {
					p.notes = append(p.notes, text)
				}
			}
		}
		if t := e.Service.Traffic; t != t.usable() {
			one.refused = append(one.refused, fmt.Sprintf(
				"sessionAffinity, internalTrafficPolicy or trafficDistribution of cluster %s: no Service may have it",
				shown(one.deciding.cluster),
			))
		}
		one.conflicts = m.differences(one)
	}
	one.refused = append(one.refused, one.metadata.copies.refused...)
	for _, text := range conflicts(one.ports, one.known, g.kind == Import) {
		one.conflicts = append(one.conflicts, Conflict{Reason: "PortConflict", Message: text})
	}
	one.ports = named(one.ports)
	return one
}

// portsThere returns the ports of what is written for a group.
func (m *maker) portsThere(g group) []Port {
	if o := m.Imports[g.of]; g.kind == Import && o != nil && len(o.Ports) > 0 {
		return firstPorts(o.Ports)
	}
	if o := m.Service(g.target()); o != nil && (g.kind != Import || m.Marked(o)) {
		return firstPorts(o.Ports)
	}
	return nil
}

// firstPorts returns the ports of an object that are read.
func firstPorts(ports []Port) []Port { return ports[:min(len(ports), maxPorts)] }

// mergeImport decides the type and the ports of a ServiceImport.
func (m *maker) mergeImport(one *merged) {
	s := m.newSettler(one)
	one.importType = s.decideType()
	there := m.portsThere(one.group)
	if s.complete && s.have != nil {
		there = firstPorts(s.have.Ports)
	}
	lists := []offered{s.keptPorts(there)}
	for _, p := range s.byAge() {
		lists = append(lists, offered{cluster: p.cluster, ports: p.exported()})
	}
	one.ports, one.refused = unite(lists)
	for _, p := range one.parts {
		if p.cluster != "" && !listable(p.cluster) {
			p.notes = append(p.notes, fmt.Sprintf(
				"status.clusters leaves %s out, which is no DNS label; its endpoints stay", quoted(p.cluster)))
		}
	}
	s.remember(named(slices.Clone(one.ports)), there)
	one.absent = m.absentClusters(s, one.parts)
	m.after.imports[one.of] = &s.after
	one.metadata.keep = !s.complete
}

// offersInOrder returns the ports of a mirror's or federated Service's parts, in the order in which
// the parts decide. The ports that exist stand for the first part that is not known and all such
// parts after it.
func (m *maker) offersInOrder(one *merged) (all []offered) {
	parts := make(map[string]*part)
	for _, p := range one.parts {
		parts[p.cluster] = p
	}
	order := m.remoteOrder(one)
	if parts[""] != nil {
		order = slices.Insert(order, 0, "")
	}
	kept := false
	for i, name := range order {
		switch p := parts[name]; {
		case p.export != nil:
			all = append(all, offered{cluster: name, ports: p.exported()})
		case !kept:
			kept = true
			all = append(all, offered{ports: m.portsThere(one.group), kept: true, decides: i == 0})
			one.metadata.keep = i == 0
		}
	}
	return all
}

// settled reports whether a ServiceImport is old enough for its type and ports to have settled.
func (m *maker) settled(id ID) bool {
	at := m.Imports[id].Created.Add(settleTime)
	if m.Now.Before(at) {
		m.due(at)
		return false
	}
	return true
}

// want adds what is to be written for a group.
func (m *maker) want(one *merged) {
	if one.kind == Import {
		m.wantImport(one)
		return
	}
	w := m.service(one)
	w.ports = one.ports
	w.metadata.labels[mirroredLabel] = "true"
	have := m.Service(w.ID)
	if have != nil && !m.Marked(have) {
		w.metadata.inherited = inherited(have, one.known)
		w.adopts = have
	}
	if one.kind == Federated {
		m.discover(w.metadata.annotations, one)
	} else {
		maps.Copy(w.metadata.labels, map[string]string{
			clusterLabel:    one.cluster,
			remoteDiscovery: one.cluster,
			remoteService:   one.of.Name,
		})
		w.metadata.annotations[versionKey] = "0"
		if link := one.parts[0].link; link != nil && link.Domain != "" { // it is not known of a link that can't be used
			w.metadata.annotations[fqNameKey] = one.of.Name + "." + one.of.Namespace + ".svc." + link.Domain
		} else if have != nil {
			w.metadata.annotations[fqNameKey] = have.Annotations[fqNameKey]
		}
	}
	m.out.Services = append(m.out.Services, w)
}

// service returns the Service of a group, with its mark alone.
func (m *maker) service(one *merged) WantedService {
	w := WantedService{
		ID:       one.target(),
		Kind:     one.kind,
		Of:       one.of,
		Turn:     m.turn(one.parts, one.group),
		settings: m.Settings,
		group:    one.group,
		metadata: one.metadata,
	}
	w.metadata.labels, w.metadata.annotations = m.mark("Service", w.ID)
	return w
}

// mark returns the mark of an object.
func (m *maker) mark(kind string, id ID) (labels, annotations map[string]string) {
	return map[string]string{markLabel: m.Controller}, map[string]string{markAnnotation: kind + " " + id.String()}
}

// discover sets the annotations that name the members.
func (m *maker) discover(annotations map[string]string, one *merged) {
	if slices.ContainsFunc(one.parts, func(p *part) bool { return p.cluster == "" }) {
		annotations[localDiscovery] = one.of.Name
	}
	var remote []string
	for _, cluster := range m.remoteOrder(one) {
		remote = append(remote, one.of.Name+"@"+cluster)
	}
	if len(remote) > 0 {
		annotations[remoteDiscovery] = strings.Join(remote, ",")
	}
}

// remoteOrder returns the links that are members, in the order in which they decide. While the
// exports of a cluster are not known, its place in the order is not known either. The cluster then
// stays behind the same member as in the Service that exists, so that the order does not change
// twice.
func (m *maker) remoteOrder(one *merged) (names []string) {
	known := make(map[string]bool) // the links that are members, by whether their exports are known
	for _, p := range one.parts {
		if p.cluster == "" {
			continue
		}
		known[p.cluster] = p.export != nil
		if p.export != nil {
			names = append(names, p.cluster)
		}
	}
	if len(names) == len(known) {
		return names
	}
	if o := m.Service(one.target()); o != nil {
		_, written, _ := identify(o)
		previous := ""
		for _, name := range written {
			isKnown, isMember := known[name]
			if !isMember {
				continue
			}
			if !isKnown {
				names = slices.Insert(names, slices.Index(names, previous)+1, name)
				known[name] = true
			}
			previous = name
		}
	}
	for _, p := range one.parts {
		if isKnown, isMember := known[p.cluster]; isMember && !isKnown {
			names = append(names, p.cluster)
		}
	}
	return names
}
