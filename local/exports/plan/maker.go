package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// maker holds the state of one call to Make. Each stage of Make is a type that embeds maker.
type maker struct {
	World
	before, after Memory
	clusters      map[string]*Cluster
	named         map[group]*namedMembers // the members that existing objects name
	// At first, the members map contains only members for which this leader has seen an export. The
	// followNamed method adds members that existing objects list, but that no export requests.
	members        map[group][]*member
	namedOnly      map[group][]*member   // members of linked clusters that only objects name
	unlinked       map[group][]string    // clusters that are not linked and that only objects name
	unplaced       map[memberKey]bool    // members that stay in their object although they exceed the limits
	frozen         map[group]bool        // groups whose objects must not change
	serviceExports map[ID][]join         // the allowed ServiceExports, valid or not
	replaced       map[memberKey]bool    // members with a ServiceExport; true if the Service is missing
	headless       map[group]bool        // groups of ServiceImports; true if they need no Service
	unknown        []*Service            // Services that have the mark but do not say what they were written for
	verdicts       map[memberKey]Verdict // the verdict on each member
	out            Plan
}

// Make returns the plan for a world, and the Memory to pass to the next call. A new leader begins
// with the zero Memory.
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

// Objects of a disabled kind stay unchanged.
func (m *maker) enabled(k Kind) bool {
	if k == Import {
		return m.ServiceExports
	}
	return m.Labels
}

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

// inStatus returns the clusters that a ServiceImport lists in its status or in the annotation
// unlistedKey. The annotation lists the names that are not DNS labels, because the status cannot
// contain them.
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
		// If the derived Service lists members, any unlinked clusters in the ServiceImport are
		// ignored. An unlinked cluster may be the local cluster under a previous name.
		case m.clusters[c] != nil || !named:
			clusters = append(clusters, c)
		}
	}
	return clusters
}

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
// exports may need mirrors with the same name. For example, the name web-eu-west fits both the
// mirror of web-eu for link west and the mirror of web for link eu-west. The longest link name that
// is a suffix of the mirror's name wins, regardless of the age of the exports. A client that
// connects to one cluster by name never reaches another cluster.

// The name of a deleted link stays reserved until UnlinkedAfter has passed.
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

func (m *maker) hasItsName(g group) bool {
	return g.kind != Mirror || m.linkOfName(g.target().Name) == g.cluster
}

// judgeName decides whether a mirror may use its name. If the name is reserved for a deleted link,
// the third result is the time at which the reservation ends.
func (m *maker) judgeName(g group) (s State, detail string, until time.Time) {
	name := g.target().Name
	link := m.linkOfName(name)
	if link == g.cluster {
		return Written, "", time.Time{}
	}
	detail = fmt.Sprintf(
		"the name %s is reserved for link %s: "+
			"if a Service name ends with the names of several links, "+
			"the link with the longest name takes precedence",
		name, link,
	)
	if since := m.after.links[link]; !since.IsZero() {
		return NameRefused, detail + "; link " + link + " no longer exists", since.Add(m.UnlinkedAfter)
	}
	return NameRefused, detail, time.Time{}
}

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

// judge decides whether an export may join a group, and returns the reason for a refusal.
func (m *maker) judge(c *Cluster, e *Export, g group) (s State, detail string) {
	switch {
	case !m.allowed(c, g):
		if g.kind == Import && c.Name == m.ClusterName {
			return NameRefused, "the name of the link is also the value of --cluster-name: change one of them"
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

// adoptExported finds Services that Linkerd's service mirror created for exports but no longer
// manages. If a Service can be adopted, adoptExported records the clusters that the Service lists
// as members. If a Service that the service mirror created cannot be adopted, the plan leaves the
// Service unchanged.
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

func (m *maker) mayAdopt(clusters []string) bool {
	return !slices.ContainsFunc(clusters, func(name string) bool { return m.lease(name) != Free })
}

// lease returns the state of a cluster's Lease, even if the cluster is not linked.
func (m *maker) lease(name string) Lease {
	if c := m.clusters[name]; c != nil {
		return c.Lease
	}
	if m.LeaseOf == nil {
		return Free
	}
	return m.LeaseOf(name)
}

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

func (m *maker) knows(c *Cluster, k Kind) bool {
	return c.knows(k) && (k != Import || m.Imports != nil) // ServiceImports are not read yet after a start
}

func (m *maker) allKnow(k Kind) bool {
	return !slices.ContainsFunc(m.Clusters, func(c Cluster) bool { return c.Joins != JoinsNone && !c.knows(k) })
}

func (m *maker) has(what memberKey) bool { return m.named[what.group].has(what.member) }

func (m *maker) hasMarked(what memberKey) bool {
	had := m.named[what.group]
	return had.has(what.member) && had.marked
}

// confirmed reports whether any export has requested the given member since this replica became the
// leader.
func (m *maker) confirmed(what memberKey) bool {
	_, seen := m.before.seen[what]
	return seen || m.after.lost[what].seen
}

func (m *maker) object(g group) ID {
	if m.headless[g] {
		return g.of
	}
	return g.target()
}

// The verdict method records a Verdict whose Object field is still empty. Object is set at the end
// of Make, when the types of all ServiceImports are known.
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
