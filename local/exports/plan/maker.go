package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// maker holds the state of one call of Make. The stages of Make are types that embed it.
type maker struct {
	World
	before, after Memory
	clusters      map[string]*Cluster
	named         map[group]*namedMembers // the members that existing objects name
	// The map members contains the members that exports ask for, or have asked for since this
	// replica became the leader. The limiter adds members from namedOnly and unlinked.
	members        map[group][]*member
	namedOnly      map[group][]*member   // members of linked clusters that only objects name
	unlinked       map[group][]string    // clusters that are not linked and that only objects name
	unplaced       map[memberKey]bool    // members that stay in their object without a place in the limits
	frozen         map[group]bool        // groups whose objects must not change
	serviceExports map[ID][]join         // the allowed ServiceExports, valid or not
	replaced       map[memberKey]bool    // members with a ServiceExport; true if the Service is missing
	headless       map[group]bool        // groups of ServiceImports; true if they need no Service
	unknown        []*Service            // Services that have the mark but do not say what they were written for
	verdicts       map[memberKey]Verdict // the verdict on each member
	out            Plan
}

// Make returns the plan for a world, and the memory for the next call. For its first call, a leader
// passes the zero Memory.
func Make(w World, before Memory) (*Plan, Memory) {
	m := &maker{
		World:          w,
		before:         before,
		after:          newMemory(),
		clusters:       make(map[string]*Cluster),
		named:          make(map[group]*namedMembers),
		members:        make(map[group][]*member),
		headless:       make(map[group]bool),
		serviceExports: make(map[ID][]join),
		replaced:       make(map[memberKey]bool),
		verdicts:       make(map[memberKey]Verdict),
		namedOnly:      make(map[group][]*member),
		unlinked:       make(map[group][]string),
		unplaced:       make(map[memberKey]bool),
		frozen:         make(map[group]bool),
	}
	for i := range w.Clusters {
		m.clusters[w.Clusters[i].Name] = &w.Clusters[i]
	}
	m.rememberLinks()
	m.findWritten()
	for i := range w.Clusters {
		m.addExports(&w.Clusters[i])
	}
	m.adoptExported()
	keeper{m}.keepMissing()
	limiter{m}.limit()
	writer{m}.write()
	m.out.Verdicts = make([]Verdict, 0, len(m.verdicts))
	for what, v := range m.verdicts {
		v.Object = m.object(what.group)
		m.out.Verdicts = append(m.out.Verdicts, v)
	}
	slices.SortFunc(m.out.Verdicts, func(a, b Verdict) int {
		return cmp.Or(cmp.Compare(a.Cluster, b.Cluster), compareIDs(a.Export, b.Export), cmp.Compare(a.Kind, b.Kind))
	})
	reporter{m}.conditions()
	return &m.out, m.after
}

// enabled reports whether Isthmus writes objects of a kind. Objects of a disabled kind stay
// unchanged.
func (m *maker) enabled(k Kind) bool {
	if k == Import {
		return m.ServiceExports
	}
	return m.Labels
}

// findWritten finds the members that existing objects name.
func (m *maker) findWritten() {
	for _, o := range m.Services {
		if !m.Marked(o) {
			continue
		}
		if g, clusters, ok := identify(o); ok {
			m.recordMembers(g, clusters, true)
			if had := m.named[g]; had != nil && g.kind != Mirror {
				had.more = namesTooMany(o.Annotations)
			}
		} else {
			m.unknown = append(m.unknown, o)
		}
	}
	for _, o := range m.Imports {
		if m.MarkedImport(o) {
			m.recordMembers(group{kind: Import, of: o.ID}, m.inStatus(o), true)
		}
	}
}

// inStatus returns the clusters that the status of a ServiceImport names. inStatus also returns the
// clusters that only the ServiceImport's annotation can name.
func (m *maker) inStatus(o *ServiceImport) (clusters []string) {
	g := group{kind: Import, of: o.ID}
	named := false // whether the derived Service names members
	if derived := m.Service(g.target()); derived != nil && m.Marked(derived) {
		is, members, ok := identify(derived)
		named = ok && is == g && len(members) > 0
	}
	all := slices.Clip(o.Clusters)
	for name := range strings.SplitSeq(firstItems(o.Annotations[unlistedKey], maxMembersBytes), ",") {
		if len(all) < maxMembers && name != "" && !listable(name) {
			all = append(all, name)
		}
	}
	for _, c := range all {
		switch {
		case c == m.ClusterName:
			clusters = append(clusters, "")
		// The name of a cluster that is not linked may be a previous name of the local cluster. If
		// the derived Service names members, that Service decides whether such a cluster is a
		// member.
		case m.clusters[c] != nil || !named:
			clusters = append(clusters, c)
		}
	}
	return clusters
}

// recordMembers records that an existing object names the given clusters as members.
func (m *maker) recordMembers(g group, clusters []string, marked bool) {
	if !m.enabled(g.kind) || !m.Namespaces[g.of.Namespace] {
		return
	}
	had := m.named[g]
	if had == nil {
		had = &namedMembers{marked: marked}
		m.named[g] = had
	}
	had.clusters = append(had.clusters, clusters...)
	slices.Sort(had.clusters)
	had.clusters = slices.Compact(had.clusters)
}

// A mirror's name has the form NAME-LINK, in which both NAME and LINK may contain hyphens. Two
// exports can therefore ask for the same name, such as web-eu of link west, and web of link
// eu-west. A mirror's name belongs to the longest link name that is a suffix of the mirror's name.
// The age of the exports does not matter. A client that connects to one cluster by name therefore
// never reaches another cluster.

// rememberLinks records the names of all links. After a link is deleted, its name still counts
// until UnlinkedAfter has passed.
func (m *maker) rememberLinks() {
	for name := range m.clusters {
		if name != "" {
			m.after.links[name] = time.Time{}
		}
	}
	for name, since := range m.before.links {
		if m.clusters[name] != nil {
			continue
		}
		if since.IsZero() {
			since = m.Now
		}
		if m.Now.Before(since.Add(m.UnlinkedAfter)) {
			m.after.links[name] = since
		}
	}
}

// linkOfName returns the link to which the name of a mirror belongs. If none of the link names is a
// suffix of the mirror's name, it returns "".
func (m *maker) linkOfName(mirror string) string {
	for i := 1; i < len(mirror); i++ {
		if mirror[i] != '-' {
			continue
		}
		if _, is := m.after.links[mirror[i+1:]]; is {
			return mirror[i+1:]
		}
	}
	return ""
}

// hasItsName reports whether a group may use the name of its target. Only the name of a mirror can
// belong to another link.
func (m *maker) hasItsName(g group) bool {
	return g.kind != Mirror || m.linkOfName(g.target().Name) == g.cluster
}

// judgeName decides whether a mirror may have its name. If the decision will change only because
// time passes, until is the time of that change. Otherwise, until is zero.
func (m *maker) judgeName(g group) (s State, detail string, until time.Time) {
	name := g.target().Name
	link := m.linkOfName(name)
	if link == g.cluster {
		return Written, "", time.Time{}
	}
	detail = fmt.Sprintf(
		"the name %s is reserved for link %s, which is the longest link name that is a suffix of it", name, link,
	)
	if since := m.after.links[link]; !since.IsZero() {
		return NameRefused, detail + ", which is no longer linked", since.Add(m.UnlinkedAfter)
	}
	return NameRefused, detail, time.Time{}
}

// addExports adds a member for each allowed export of a cluster, and records verdicts on the
// others.
func (m *maker) addExports(c *Cluster) {
	for i := range c.Exports {
		e := &c.Exports[i]
		for _, g := range m.groups(c, e) {
			if g.kind == Import && e.Service != nil {
				others, known := m.headless[g]
				m.headless[g] = e.Service.Headless() && (others || !known)
			}
			state, detail := m.judge(c, e, g)
			var until time.Time
			if state == Written && g.kind == Mirror {
				state, detail, until = m.judgeName(g)
			}
			if g.kind == Import && (state == Written || state == Invalid) {
				j := join{cluster: c.Name, uid: e.Exported.UID}
				m.serviceExports[g.of] = append(m.serviceExports[g.of], j)
				m.replaced[memberKey{g, c.Name}] = e.serviceMissing()
			}
			if state == Written {
				m.members[g] = append(m.members[g], &member{cluster: c.Name, link: c, export: e, state: Written})
			} else {
				m.verdict(g, c.Name, state, detail, until)
			}
		}
	}
}

// groups returns the groups that an export asks to join.
func (m *maker) groups(c *Cluster, e *Export) (all []group) {
	if e.Exported != nil && m.ServiceExports {
		all = append(all, group{kind: Import, of: e.ID})
	}
	if e.Service == nil || e.Service.unexportable() != "" || !m.Labels {
		return all
	}
	if e.Federated {
		all = append(all, group{kind: Federated, of: e.ID})
	}
	if e.Mirror && !c.isLocal() {
		all = append(all, group{kind: Mirror, of: e.ID, cluster: c.Name})
	}
	return all
}

// judge decides whether an export may become a member of a group. If the export may not become a
// member, judge returns the reason.
func (m *maker) judge(c *Cluster, e *Export, g group) (s State, detail string) {
	switch {
	case !m.allowed(c, g):
		if g.kind == Import && c.Name == m.ClusterName {
			return NameRefused, "the link has the same name as --cluster-name: rename one of the two"
		}
		return NotAllowed, ""
	case g.kind == Import && e.invalid() != "":
		return Invalid, e.invalid()
	case g.kind == Federated && e.Service.Headless():
		return HeadlessJoins, "a headless Service cannot join a federated Service"
	case !usableName(g.of.Name) || !usableName(g.target().Name):
		return NameRefused, "a Service cannot have the name " + g.target().Name
	case g.kind == Import && m.Imports != nil && m.MCSVersion == "":
		return NoImports, noImports
	case !m.Namespaces[g.of.Namespace]:
		return Waiting, "the local cluster does not have the namespace " + g.of.Namespace
	case c.Joins == Unreadable && !m.named[g].has(c.Name): // nothing is adopted for the cluster either
		return Unset, ""
	}
	return Written, ""
}

// allowed reports whether the settings of a link allow its membership in a group.
func (m *maker) allowed(c *Cluster, g group) bool {
	switch {
	case c.isLocal() || c.Joins == Unreadable:
		return true
	case c.Joins == JoinsNone || c.Joins == OnlyMirror && g.kind != Mirror:
		return false
	case g.kind == Import && c.Name == m.ClusterName: // status.clusters could not distinguish the two
		return false
	case g.of.Namespace == m.Controller || g.of.Namespace == m.Multicluster:
		return false
	}
	return c.Allow.allows(g.of.Namespace)
}

const noImports = "the local cluster does not serve the kind ServiceImport"

// adoptExported records the members of Services that Linkerd's service mirror wrote and no longer
// manages, and for which there are exports. Other Services of the service mirror stay unchanged.
func (m *maker) adoptExported() {
	for g, members := range m.members {
		o := m.Service(g.target())
		if o == nil || m.Marked(o) || !adoptable(o, g) {
			continue
		}
		if is, clusters, ok := identify(o); ok && is == g && m.mayAdopt(clusters) && m.mayAdopt(clustersOf(members)) {
			m.recordMembers(g, clusters, false)
		}
	}
}

// mayAdopt reports whether Linkerd's service mirror no longer manages its Services for these
// clusters.
func (m *maker) mayAdopt(clusters []string) bool {
	return !slices.ContainsFunc(clusters, func(name string) bool { return m.lease(name) != Free })
}

// lease returns the state of the Lease of Linkerd's service mirror for a cluster. The cluster may
// be unlinked.
func (m *maker) lease(name string) Lease {
	if c := m.clusters[name]; c != nil {
		return c.Lease
	}
	if m.LeaseOf == nil {
		return Free
	}
	return m.LeaseOf(name)
}

// leftToLinkerd reports whether Linkerd's service mirror writes the Service of a group.
func (m *maker) leftToLinkerd(g group) bool {
	held := func(name string) bool { return m.lease(name) == Held }
	if g.kind == Import {
		return false
	}
	if had := m.named[g]; had != nil && slices.ContainsFunc(had.clusters, held) {
		return true
	}
	return slices.ContainsFunc(m.members[g], func(p *member) bool { return held(p.cluster) })
}

// knows reports whether both a cluster's exports of a kind and the written objects of that kind are
// known.
func (m *maker) knows(c *Cluster, k Kind) bool {
	return c.knows(k) && (k != Import || m.Imports != nil) // ServiceImports are not read yet after a start
}

// allKnow reports whether all clusters' exports of a kind are known.
func (m *maker) allKnow(k Kind) bool {
	return !slices.ContainsFunc(m.Clusters, func(c Cluster) bool { return c.Joins != JoinsNone && !c.knows(k) })
}

// has reports whether an existing object names the given member.
func (m *maker) has(what memberKey) bool { return m.named[what.group].has(what.member) }

// hasMarked reports whether an existing object with the mark names the given member.
func (m *maker) hasMarked(what memberKey) bool {
	had := m.named[what.group]
	return had.has(what.member) && had.marked
}

// confirmed reports whether an export has asked for a member since this replica became the leader.
// If confirmed returns false for a member that no export asks for, only an object names that
// member.
func (m *maker) confirmed(what memberKey) bool {
	_, seen := m.before.seen[what]
	return seen || m.after.lost[what].seen
}

// object returns the name of a group's object for [Verdict.Object].
func (m *maker) object(g group) ID {
	if m.headless[g] {
		return g.of
	}
	return g.target()
}

// verdict records the verdict on a member. Make sets the Object of the verdict after it has decided
// the types of all ServiceImports.
func (m *maker) verdict(g group, cluster string, s State, detail string, until time.Time) {
	m.verdicts[memberKey{g, cluster}] = Verdict{
		Cluster: cluster,
		Export:  g.of,
		Kind:    g.kind,
		State:   s,
		Detail:  detail,
		Until:   until,
	}
	m.dueAt(until)
}

func (m *maker) dueAt(at time.Time) {
	if !at.IsZero() && (m.out.Due.IsZero() || at.Before(m.out.Due)) {
		m.out.Due = at
	}
}
