package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// maker makes one plan.
type maker struct {
	World
	before, after Memory
	clusters      map[string]*Cluster
	named         map[group]*namedMembers // the clusters that have a member in what is written
	// members holds the members that exports ask for, or asked for while this leader led. The members of
	// read and unlinked are added later.
	members        map[group][]*member
	namedOnly      map[group][]*member   // of linked clusters, that only objects name
	unlinked       map[group][]string    // clusters that are not linked, and that only objects name
	unplaced       map[memberKey]bool    // members that stay in what is written, and have no place in the limits
	frozen         map[group]bool        // what is written for them is left as it is
	serviceExports map[ID][]join         // those that are allowed, whether they are valid or not
	replaced       map[memberKey]bool    // members whose ServiceExports exist, by whether their Services are missing
	headless       map[group]bool        // ServiceImports by whether they need no Service
	unknown        []*Service            // with the mark, but without what they were written for
	verdicts       map[memberKey]Verdict // one for each member
	out            Plan
}

// Make returns what is to be written, and what the next call is to remember. The first Memory is the zero value.
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

// enabled reports whether exports of a kind are written. What was written for others is left as it is.
func (m *maker) enabled(k Kind) bool {
	if k == Import {
		return m.ServiceExports
	}
	return m.Labels
}

// findWritten finds who has a member in what is written.
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

// inStatus returns the clusters that the status of a ServiceImport names, and those that only its annotation
// can name.
func (m *maker) inStatus(o *ServiceImport) (clusters []string) {
	g := group{kind: Import, of: o.ID}
	named := false // the derived Service names members
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
		// of one not linked the derived Service has whether it is a member: this may be a former
		// name of the own cluster
		case m.clusters[c] != nil || !named:
			clusters = append(clusters, c)
		}
	}
	return clusters
}

// recordMembers records that clusters have a member in what is written.
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

// Mirrors are called NAME-LINK, and both members may contain hyphens. So two exports may ask for one
// name: web-eu of link west, and web of link eu-west. Link names decide between the exports, not
// which of them came first: clients that ask for one cluster never reach another one. A mirror's
// name belongs to the longest link name that it ends in.

// rememberLinks records which links there are. A link that was deleted counts until UnlinkedAfter has passed.
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

// nameOwner returns the link that the name of a mirror belongs to. If no link name is a suffix of
// the name, nameOwner is empty.
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

// ownsName reports whether a group's name is its own. Only the names of mirrors can belong to another link.
func (m *maker) hasItsName(g group) bool {
	return g.kind != Mirror || m.linkOfName(g.target().Name) == g.cluster
}

// judgeName decides whether a mirror may have its name. until is when that may change by itself; zero: never.
func (m *maker) judgeName(g group) (s State, detail string, until time.Time) {
	name := g.target().Name
	link := m.linkOfName(name)
	if link == g.cluster {
		return Written, "", time.Time{}
	}
	detail = fmt.Sprintf("the name %s belongs to the link %s, the longest link name that it ends in", name, link)
	if since := m.after.links[link]; !since.IsZero() {
		return NameRefused, detail + ", which is linked no longer", since.Add(m.UnlinkedAfter)
	}
	return NameRefused, detail, time.Time{}
}

// offers adds the members that a cluster's exports are to have.
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

// groups returns what an export asks to be member of.
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

// judge decides whether an export may have its member, and if not, why.
func (m *maker) judge(c *Cluster, e *Export, g group) (s State, detail string) {
	switch {
	case !m.allowed(c, g):
		if g.kind == Import && c.Name == m.ClusterName {
			return NameRefused, "the link has the name of --cluster-name: give one of them another"
		}
		return NotAllowed, ""
	case g.kind == Import && e.invalid() != "":
		return Invalid, e.invalid()
	case g.kind == Federated && e.Service.Headless():
		return HeadlessJoins, "a headless Service can't join a federated one"
	case !usableName(g.of.Name) || !usableName(g.target().Name):
		return NameRefused, "no Service may have the name " + g.target().Name
	case g.kind == Import && m.Imports != nil && m.MCSVersion == "":
		return NoImports, noImports
	case !m.Namespaces[g.of.Namespace]:
		return Waiting, "there is no namespace " + g.of.Namespace
	case c.Joins == Unreadable && !m.named[g].has(c.Name): // nor is anything adopted for it
		return Unset, ""
	}
	return Written, ""
}

// allowed reports whether what is set for a link lets it have a member.
func (m *maker) allowed(c *Cluster, g group) bool {
	switch {
	case c.isLocal() || c.Joins == Unreadable:
		return true
	case c.Joins == JoinsNone || c.Joins == OnlyMirror && g.kind != Mirror:
		return false
	case g.kind == Import && c.Name == m.ClusterName: // status.clusters would not say which of the two is meant
		return false
	case g.of.Namespace == m.Controller || g.of.Namespace == m.Multicluster:
		return false
	}
	return c.Allow.allows(g.of.Namespace)
}

const noImports = "this cluster does not have them as a kind of object"

// adoptExported takes what Linkerd's service mirror wrote, and no longer minds, as written, where something is
// exported to it. The rest of it stays as it is.
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

// mayAdopt reports whether Linkerd's service mirror no longer minds what it wrote for these clusters.
func (m *maker) mayAdopt(clusters []string) bool {
	return !slices.ContainsFunc(clusters, func(name string) bool { return m.lease(name) != Free })
}

// lease returns what is known of the Lease of Linkerd's service mirror for a cluster, which may be linked no longer.
func (m *maker) lease(name string) Lease {
	if c := m.clusters[name]; c != nil {
		return c.Lease
	}
	if m.LeaseOf == nil {
		return Free
	}
	return m.LeaseOf(name)
}

// left reports whether Linkerd's service mirror writes what a group is for.
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

// knows reports whether what a linked cluster exports for a kind is known, and what is written for that kind.
func (m *maker) knows(c *Cluster, k Kind) bool {
	return c.knows(k) && (k != Import || m.Imports != nil) // not read yet after a start
}

// allKnow reports whether what all clusters export for a kind is known.
func (m *maker) allKnow(k Kind) bool {
	return !slices.ContainsFunc(m.Clusters, func(c Cluster) bool { return c.Joins != JoinsNone && !c.knows(k) })
}

// has reports whether an object names the cluster of a member.
func (m *maker) has(what memberKey) bool { return m.named[what.group].has(what.member) }

// hasMarked reports whether an object with the mark names the cluster of a member.
func (m *maker) hasMarked(what memberKey) bool {
	had := m.named[what.group]
	return had.has(what.member) && had.marked
}

// confirmed reports whether an export asked for a member while this leader led. Only an object names any other member
// that no export asks for.
func (m *maker) confirmed(what memberKey) bool {
	_, seen := m.before.seen[what]
	return seen || m.after.lost[what].seen
}

// object returns the object by which a group is shown: its Service, or the ServiceImport if that is headless.
func (m *maker) object(g group) ID {
	if m.headless[g] {
		return g.of
	}
	return g.target()
}

// verdict records what becomes of a member. Make sets the Object once the types of all ServiceImports are decided.
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
