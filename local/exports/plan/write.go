package plan

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"isthmus/internal/text"
)

type writer struct{ *maker }

func (m writer) write() {
	var wanted []*merged
	union := merger(m)
	for _, g := range slices.SortedFunc(maps.Keys(m.members), compareGroups) {
		one := union.merge(g)
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
	winners := m.nameWinners(wanted)
	for _, one := range wanted {
		g := one.group
		why := strings.Join(text.First(one.refused, maxRefused), "; ")
		m.out.Conflicts = append(m.out.Conflicts, one.conflicts...)
		state, detail := m.judgeTarget(one, winners[g.target()])
		if state == Written && !m.headless[g] && len(one.ports) == 0 {
			state, detail = NoPort, why
			if o := m.Service(g.target()); o != nil && m.Marked(o) {
				one.ports = firstPorts(o.Ports) // ports of former members may go
			}
		}
		if o := m.Imports[g.of]; state == Taken && g.kind == Import && o != nil && m.MarkedImport(o) {
			one.whyTaken = detail
		}
		if state == Written || one.whyTaken != "" || state == NoPort && len(one.ports) > 0 {
			m.want(one)
		}
		for _, p := range one.members {
			switch {
			case state != Written:
				m.verdict(g, p.cluster, state, detail, p.until)
			case p.state == NameRefused:
				_, detail, _ := m.judgeName(g)
				m.verdict(g, p.cluster, p.state, detail+"; the Service is kept for some time", p.until)
			default:
				notes := slices.Concat(one.refused, p.notes)
				m.verdict(g, p.cluster, p.state, strings.Join(text.First(notes, maxRefused), "; "), p.until)
			}
		}
	}
	for _, g := range slices.SortedFunc(maps.Keys(m.named), compareGroups) {
		// An object that lists no members is kept until all clusters have synced, because any of
		// the clusters may have an export for the object.
		if len(m.members[g]) == 0 && !m.frozen[g] && !m.leftToLinkerd(g) &&
			(len(m.named[g].clusters) > 0 || m.allKnow(g.kind)) {
			m.remove(g)
		}
	}
	for _, o := range m.unknown {
		if _, wanted := winners[o.ID]; !wanted && !o.Deleting && m.Labels && m.ServiceExports && m.allKnow(Import) {
			m.out.Delete = append(m.out.Delete, Unwanted{o.ID, o.ID, "", SharedTurn, o.UID})
		}
	}
	slices.SortFunc(m.out.Services, func(a, b WantedService) int { return compareIDs(a.ID, b.ID) })
	slices.SortFunc(m.out.Delete, func(a, b Unwanted) int { return compareIDs(a.ID, b.ID) })
}

// nameWinners returns, for each Service name, the group that may use the name. A group whose
// Service already exists wins. If none of the groups has a Service yet, the group with the
// highest-ranking kind wins. Among groups of the same kind, the group with the oldest link wins.
func (m writer) nameWinners(wanted []*merged) map[ID]group {
	winners := make(map[ID]group)
	for _, one := range wanted {
		g := one.group
		if now, ok := winners[g.target()]; !m.headless[g] && (!ok || m.wins(g, now)) {
			winners[g.target()] = g
		}
	}
	return winners
}

func (m writer) wins(g, over group) bool {
	if o := m.Service(g.target()); o != nil && m.Marked(o) {
		switch is, _, _ := identify(o); is {
		case over:
			return false
		case g:
			return true
		}
	}
	a, b := m.members[g][0], m.members[over][0]
	return cmp.Or(
		rank(g.kind)-rank(over.kind),
		later(a.link == nil)-later(b.link == nil),
		olderLink(a, b),
		compareGroups(g, over),
	) < 0
}

// judgeTarget decides whether the plan may write the objects of a group. The winner is the group
// that may use the name of the Service.
func (m writer) judgeTarget(one *merged, winner group) (s State, detail string) {
	g := one.group
	if m.leftToLinkerd(g) {
		return LeftToLinkerd, ""
	}
	if g.kind == Import {
		switch o := m.Imports[g.of]; {
		case m.Imports == nil:
			return NoImports, "the ServiceImports of the local cluster have not been listed yet"
		case m.MCSVersion == "":
			return NoImports, noImports
		case o != nil && !m.MarkedImport(o):
			by := cmp.Or(
				m.otherInstallation("ServiceImport", o.ID, o.Labels, o.Annotations),
				text.Truncate(o.Manager, text.Short),
				"another controller",
			)
			return Taken, "the ServiceImport is not managed by this installation: it was written by " + by
		case o != nil && o.Deleting:
			return Waiting, "the ServiceImport is being deleted"
		case m.headless[g]:
			return Written, ""
		}
	}
	o := m.Service(g.target())
	if o != nil && m.Marked(o) {
		if is, _, ok := identify(o); ok {
			winner = is
		}
	}
	switch {
	case winner != g:
		return Taken, "it is written for the " + string(winner.kind) + " of " + winner.of.String()
	case o == nil:
		return Written, ""
	case o.Deleting:
		return Waiting, "the Service " + o.Name + " is being deleted"
	case m.Marked(o):
		return Written, ""
	case !adoptable(o, g):
		detail := "the Service " + g.target().Name + " is not managed by this installation"
		if by := m.otherInstallation("Service", o.ID, o.Labels, o.Annotations); by != "" {
			detail += ": it was written by " + by
		}
		return Taken, detail
	case m.named[g] == nil:
		return LeftToLinkerd, "a service mirror wrote the Service and may still be running"
	}
	// A Service is adopted only if at least one member of its group has a known export. The limits
	// may have excluded all members with known exports.
	if !slices.ContainsFunc(m.members[g], func(p *member) bool { return p.export != nil }) {
		return Taken, "the Service " + o.Name + " has no member that may be written"
	}
	clusters := clustersOf(m.members[g])
	for _, name := range m.named[g].clusters {
		if m.clusters[name] != nil && !slices.Contains(clusters, name) {
			return Taken, "the Service " + o.Name + " has a member in cluster " + displayName(name) +
				" that is not exported"
		}
	}
	return Written, ""
}

func (m writer) want(one *merged) {
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
		// The domain of an unusable link is unknown.
		if link := one.members[0].link; link != nil && link.Domain != "" {
			w.metadata.annotations[fqNameKey] = one.of.Name + "." + one.of.Namespace + ".svc." + link.Domain
		} else if have != nil {
			w.metadata.annotations[fqNameKey] = have.Annotations[fqNameKey]
		}
	}
	m.out.Services = append(m.out.Services, w)
}

// wantImport adds the ServiceImport of a group, and its derived Service, to the plan. The derived
// Service is not written until its owner, the ServiceImport, exists. The ServiceImport gets its IPs
// once the derived Service has IPs. If the derived Service is deleted or loses its IPs, the plan
// recreates the derived Service with the IPs of the ServiceImport. If another object has the
// derived Service's name, the ServiceImport has no IPs. The plan does not create an object whose
// members are all on hold.
func (m writer) wantImport(one *merged) {
	have := m.Imports[one.of]
	conditions := reporter(m)
	derived := m.Service(one.target())
	held := !slices.ContainsFunc(one.members, func(p *member) bool { return p.state != OnHold })
	if held && have == nil {
		return
	}
	w := WantedImport{
		ID:       one.of,
		Turn:     m.turn(one.members, one.group),
		settings: m.Settings,
		metadata: one.metadata,
		kind:     one.importType,
		clusters: one.exporters(m.ClusterName),
	}
	w.metadata.labels, w.metadata.annotations = m.mark("ServiceImport", w.ID)
	if names := unlisted(one.members); len(names) > 0 {
		w.metadata.annotations[unlistedKey] = strings.Join(names, ",")
	}
	if one.absent != "" {
		w.metadata.annotations[absentKey] = one.absent
	}
	if one.deciding != nil && !one.metadata.keep {
		traffic := one.deciding.export.Service.Traffic.usable()
		w.traffic = &traffic
	}
	if w.kind == headless {
		w.ready = condition("Ready", true, "Ready", "a headless ServiceImport has no IPs")
		if unsupported := conditions.familyNotSupported(one); unsupported != nil {
			w.ready = *unsupported
		}
		m.out.Imports = append(m.out.Imports, w)
		m.removeService(one.group)
		return
	}
	w.metadata.annotations[derivedKey] = one.target().Name
	for _, p := range one.ports {
		p.Target = ""
		w.ports = append(w.ports, p)
	}
	switch {
	case one.whyTaken != "":
	case derived != nil && m.Marked(derived) && derived.hasIP():
		w.ips = derived.ClusterIPs
	case have != nil && have.Type == clusterSetIP && (derived == nil || m.Marked(derived)):
		w.ips = usableIPs(have.IPs)
	}
	w.families = families(w.ips)
	var service *WantedService
	lost := derived != nil && derived.cannotGetIPs()
	switch {
	case one.whyTaken != "" || held && (derived == nil || lost):
	case lost:
		m.removeService(one.group) // a later plan creates the Service again
	default:
		service = m.wantDerived(one, have, &w)
	}
	w.ready = conditions.readyImport(one, &w, service)
	m.out.Imports = append(m.out.Imports, w)
}

// usableIPs checks the first two IPs and returns the valid ones. A Service can be created with at
// most two IPs.
func usableIPs(ips []string) (all []string) {
	for _, ip := range ips[:min(len(ips), 2)] {
		if addr, err := netip.ParseAddr(ip); err == nil && addr.Zone() == "" {
			all = append(all, ip)
		}
	}
	return all
}

// wantDerived adds the derived Service of a ServiceImport to the plan, and returns the derived
// Service. If the ServiceImport does not exist yet, serviceImport is nil.
func (m writer) wantDerived(one *merged, serviceImport *ServiceImport, of *WantedImport) *WantedService {
	w := m.service(one)
	if serviceImport != nil {
		w.owner = serviceImport.UID
	} else {
		w.Waits = true
	}
	w.metadata.labels[importLabel] = one.of.Name
	m.discover(w.metadata.annotations, one)
	w.metadata.copies.labels = of.metadata.copies.labels
	if one.deciding != nil {
		w.metadata.copies.annotations = one.deciding.serviceCopies().annotations
	}
	if local := one.localMember(); local == nil || local.export != nil {
		w.metadata.preference = make(map[string]string)
		if local != nil {
			preference := preferenceOf(local.export.Service)
			w.metadata.preference = preference.annotations
			local.notes = append(local.notes, preference.refused...)
		}
		maps.Copy(w.metadata.copies.annotations, w.metadata.preference)
	}
	for _, p := range of.ports {
		p.Target = fmt.Sprint(p.Number)
		w.ports = append(w.ports, p)
	}
	if of.traffic != nil {
		w.traffic = of.traffic
	}
	w.ips = of.ips
	m.out.Services = append(m.out.Services, w)
	return &m.out.Services[len(m.out.Services)-1]
}

func (m writer) service(one *merged) WantedService {
	w := WantedService{
		ID:       one.target(),
		Kind:     one.kind,
		Of:       one.of,
		Turn:     m.turn(one.members, one.group),
		settings: m.Settings,
		group:    one.group,
		metadata: one.metadata,
	}
	w.metadata.labels, w.metadata.annotations = m.mark("Service", w.ID)
	return w
}

func (m writer) mark(kind string, id ID) (labels, annotations map[string]string) {
	return map[string]string{markLabel: m.Controller}, map[string]string{markAnnotation: kind + " " + id.String()}
}

func (m writer) discover(annotations map[string]string, one *merged) {
	if slices.ContainsFunc(one.members, func(p *member) bool { return p.cluster == "" }) {
		annotations[localDiscovery] = one.of.Name
	}
	var remote []string
	for _, cluster := range one.remoteOrder(&m.World) {
		remote = append(remote, one.of.Name+"@"+cluster)
	}
	if len(remote) > 0 {
		annotations[remoteDiscovery] = strings.Join(remote, ",")
	}
}

func (m writer) remove(g group) {
	m.removeService(g)
	if o := m.Imports[g.of]; g.kind == Import && m.MCSVersion != "" && o != nil && m.MarkedImport(o) && !o.Deleting {
		m.out.DeleteImports = append(m.out.DeleteImports, Unwanted{o.ID, g.of, g.kind, m.turnOfGone(g), o.UID})
	}
}

// If a group's Service has the mark of this installation, removeService plans the deletion of the
// Service.
func (m writer) removeService(g group) {
	if o := m.Service(g.target()); o != nil && m.Marked(o) && !o.Deleting {
		if is, _, _ := identify(o); is == g {
			m.out.Delete = append(m.out.Delete, Unwanted{o.ID, g.of, g.kind, m.turnOfGone(g), o.UID})
		}
	}
}

// SharedTurn is the value of Turn for objects that no export has requested since this replica
// became the leader. No cluster has this name.
const SharedTurn = "no export"

// The result is the cluster of the first member that has an export now, or has had one since this
// replica became the leader.
func (m writer) turn(members []*member, g group) string {
	for _, p := range members {
		if p.export != nil || m.confirmed(memberKey{g, p.cluster}) {
			return p.cluster
		}
	}
	return SharedTurn
}

func (m writer) turnOfGone(g group) string {
	if had := m.named[g]; had != nil {
		for _, name := range had.clusters {
			if m.confirmed(memberKey{g, name}) {
				return name
			}
		}
	}
	return SharedTurn
}
