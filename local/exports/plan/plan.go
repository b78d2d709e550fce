package plan

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// Plan is what is to be written, and what becomes of each export. Lists are sorted.
type Plan struct {
	Services []WantedService
	Imports  []WantedImport
	// Delete and DeleteImports are objects with the mark that nothing is exported for.
	Delete, DeleteImports []Unwanted
	// Exports are the conditions of the own cluster's ServiceExports.
	Exports  []ExportConditions
	Verdicts []Verdict
	// Conflicts are what exports of one name differ in.
	Conflicts []Conflict
	// Fullest has, for each limit, the link or the namespace that uses most of the limit.
	Fullest []Fullness
	// Due is when time alone changes the plan; zero: never.
	Due time.Time
}

// Unwanted is an object that is to be deleted.
type Unwanted struct {
	ID
	Of   ID // what it was written for
	Kind Kind
	Turn string // by which writes take turns
	UID  string
}

// Verdict is what becomes of an export.
type Verdict struct {
	Cluster string // empty: the own one
	Export  ID
	Kind    Kind
	// Object is the Service that the export is written as. For a headless ServiceImport, which has
	// no Service, Object is the ServiceImport.
	Object ID
	State  State
	Detail string    // may be empty
	Until  time.Time // when the state ends by itself; zero: never
}

// State is one of a fixed set of words.
type State string

// The states. Only a part that is Written or Kept has one in an object.
const (
	Written       State = "written"
	Kept          State = "kept"            // its cluster's exports are not known
	OnHold        State = "held"            // it is gone, and is removed later
	LeftToLinkerd State = "left to linkerd" // its service mirror writes it
	Taken         State = "taken"           // the name is another object's
	Waiting       State = "waiting"         // the namespace is missing, or the object of before still goes
	NotAllowed    State = "not allowed"     // by what is set for the link
	// NameRefused means that no Service may have the name, that the name belongs to another link,
	// or that the link has the own cluster's name.
	NameRefused   State = "name refused"
	NoPort        State = "no usable port"    // a Service has to have one
	OverNumber    State = "over the number"   // of objects or members
	HeadlessJoins State = "headless"          // it can't join a federated Service
	Unset         State = "setting unusable"  // an annotation of the link can't be read, so nothing is added
	Invalid       State = "not valid"         // a ServiceExport without a Service, or of one that can't be exported
	NoImports     State = "no serviceimports" // the own cluster does not have the kind, or it can't be read
)

// Conflict is what exports of one name differ in.
type Conflict struct {
	Of      ID // the exports
	Object  ID // as of a Verdict
	Kind    Kind
	Reason  string
	Message string
	// only are the clusters whose ServiceExports have the conflict. If it is nil, all of them do.
	only []string
}

// concerns reports whether a cluster's ServiceExport has the conflict.
func (c *Conflict) concerns(cluster string) bool {
	return c.only == nil || slices.Contains(c.only, cluster)
}

// maker makes one plan.
type maker struct {
	World
	before, after Memory
	clusters      map[string]*Cluster
	have          map[group]*holders // the clusters that have a part in what is written
	// parts holds the parts that exports ask for, or asked for while this leader led. The parts of
	// read and unlinked are added later.
	parts          map[group][]*part
	read           map[group][]*part  // of linked clusters, that only objects name
	unlinked       map[group][]string // clusters that are not linked, and that only objects name
	unplaced       map[gone]bool      // parts that stay in what is written, and have no place in the limits
	frozen         map[group]bool     // what is written for them is left as it is
	serviceExports map[ID][]join      // those that are allowed, whether they are valid or not
	replaced       map[gone]bool      // parts whose ServiceExports exist, by whether their Services are missing
	headless       map[group]bool     // ServiceImports by whether they need no Service
	unknown        []*Service         // with the mark, but without what they were written for
	verdicts       map[gone]Verdict   // one for each part
	out            Plan
}

// part is what a cluster has, or is to have, in what is written for a group.
type part struct {
	cluster string
	link    *Cluster // nil: it is linked no longer
	export  *Export  // nil: it is not known, and what is there of it is kept
	state   State
	until   time.Time
	index   *portIndex // of the export's ports; nil: not made yet
	copies  *copies    // of its ServiceExport; nil: not made yet
	notes   []string   // what is reported of this part alone
}

// exported returns the ports of the part's export that are read. The export is known.
func (p *part) exported() []Port {
	ports := p.export.Service.Ports
	return ports[:min(len(ports), maxExportedPorts)]
}

// ports returns the index of the ports of the part's export, which is known.
func (p *part) ports() *portIndex {
	if p.index == nil {
		p.index = indexPorts(p.exported())
	}
	return p.index
}

// Make returns what is to be written, and what the next call is to remember. The first Memory is the zero value.
func Make(w World, before Memory) (*Plan, Memory) {
	m := &maker{
		World:          w,
		before:         before,
		after:          newMemory(),
		clusters:       make(map[string]*Cluster),
		have:           make(map[group]*holders),
		parts:          make(map[group][]*part),
		headless:       make(map[group]bool),
		serviceExports: make(map[ID][]join),
		replaced:       make(map[gone]bool),
		verdicts:       make(map[gone]Verdict),
		read:           make(map[group][]*part),
		unlinked:       make(map[group][]string),
		unplaced:       make(map[gone]bool),
		frozen:         make(map[group]bool),
	}
	for i := range w.Clusters {
		m.clusters[w.Clusters[i].Name] = &w.Clusters[i]
	}
	m.rememberLinks()
	m.findWritten()
	for i := range w.Clusters {
		m.offers(&w.Clusters[i])
	}
	m.adoptExported()
	m.keepMissing()
	m.limit()
	m.write()
	m.out.Verdicts = make([]Verdict, 0, len(m.verdicts))
	for what, v := range m.verdicts {
		v.Object = m.object(what.group)
		m.out.Verdicts = append(m.out.Verdicts, v)
	}
	slices.SortFunc(m.out.Verdicts, func(a, b Verdict) int {
		return cmp.Or(cmp.Compare(a.Cluster, b.Cluster), compareIDs(a.Export, b.Export), cmp.Compare(a.Kind, b.Kind))
	})
	m.conditions()
	return &m.out, m.after
}

// enabled reports whether exports of a kind are written. What was written for others is left as it is.
func (m *maker) enabled(k Kind) bool {
	if k == Import {
		return m.ServiceExports
	}
	return m.Labels
}

// findWritten finds who has a part in what is written.
func (m *maker) findWritten() {
	for _, o := range m.Services {
		if !m.Marked(o) {
			continue
		}
		if g, clusters, ok := identify(o); ok {
			m.hasParts(g, clusters, true)
			if had := m.have[g]; had != nil && g.kind != Mirror {
				had.more = namesMore(o.Annotations)
			}
		} else {
			m.unknown = append(m.unknown, o)
		}
	}
	for _, o := range m.Imports {
		if m.MarkedImport(o) {
			m.hasParts(group{kind: Import, of: o.ID}, m.inStatus(o), true)
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

// adoptExported takes what Linkerd's service mirror wrote, and no longer minds, as written, where something is
// exported to it. The rest of it stays as it is.
func (m *maker) adoptExported() {
	for g, parts := range m.parts {
		o := m.Service(g.target())
		if o == nil || m.Marked(o) || !adoptable(o, g) {
			continue
		}
		if is, clusters, ok := identify(o); ok && is == g && m.mayAdopt(clusters) && m.mayAdopt(clustersOf(parts)) {
			m.hasParts(g, clusters, false)
		}
	}
}

// hasParts records that clusters have a part in what is written.
func (m *maker) hasParts(g group, clusters []string, marked bool) {
	if !m.enabled(g.kind) || !m.Namespaces[g.of.Namespace] {
		return
	}
	had := m.have[g]
	if had == nil {
		had = &holders{marked: marked}
		m.have[g] = had
	}
	had.clusters = append(had.clusters, clusters...)
	slices.Sort(had.clusters)
	had.clusters = slices.Compact(had.clusters)
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
func (m *maker) left(g group) bool {
	held := func(name string) bool { return m.lease(name) == Held }
	if g.kind == Import {
		return false
	}
	if had := m.have[g]; had != nil && slices.ContainsFunc(had.clusters, held) {
		return true
	}
	return slices.ContainsFunc(m.parts[g], func(p *part) bool { return held(p.cluster) })
}

// offers adds the parts that a cluster's exports are to have.
func (m *maker) offers(c *Cluster) {
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
				m.replaced[gone{g, c.Name}] = e.serviceMissing()
			}
			if state == Written {
				m.parts[g] = append(m.parts[g], &part{cluster: c.Name, link: c, export: e, state: Written})
			} else {
				m.verdict(g, c.Name, state, detail, until)
			}
		}
	}
}

// groups returns what an export asks to be part of.
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
	if e.Mirror && !c.own() {
		all = append(all, group{kind: Mirror, of: e.ID, cluster: c.Name})
	}
	return all
}

// unexportable returns why a Service can't be exported; empty: it can. What a gateway or service mirror
// wrote would go round in a circle.
func (s *Service) unexportable() string {
	switch {
	case s.Type == "ExternalName":
		return "it is of type ExternalName"
	case IsWritten(s.Labels) || s.OwnerKind == "ServiceImport":
		return "it was written for the exports of other clusters"
	case s.Deleting:
		return "it is being deleted"
	}
	return ""
}

// invalid returns why a ServiceExport is not valid; empty: it is valid.
func (e *Export) invalid() string {
	if e.Service == nil {
		return "there is no Service of that name"
	}
	return e.Service.unexportable()
}

// serviceMissing reports whether there is no Service behind a ServiceExport. It may be about to be created anew.
func (e *Export) serviceMissing() bool { return e.Service == nil || e.Service.Deleting }

// hasPart reports whether a cluster has a part in what is written for a group.
func (m *maker) hasPart(g group, cluster string) bool {
	return m.have[g].has(cluster)
}

// judge decides whether an export may have its part, and if not, why.
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
	case !usable(g.of.Name) || !usable(g.target().Name):
		return NameRefused, "no Service may have the name " + g.target().Name
	case g.kind == Import && m.Imports != nil && m.MCSVersion == "":
		return NoImports, noImports
	case !m.Namespaces[g.of.Namespace]:
		return Waiting, "there is no namespace " + g.of.Namespace
	case c.Joins == Unreadable && !m.have[g].has(c.Name): // nor is anything adopted for it
		return Unset, ""
	}
	return Written, ""
}

// allowed reports whether what is set for a link lets it have a part.
func (m *maker) allowed(c *Cluster, g group) bool {
	switch {
	case c.own() || c.Joins == Unreadable:
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

// verdict records what becomes of a part. Make sets the Object once the types of all ServiceImports are decided.
func (m *maker) verdict(g group, cluster string, s State, detail string, until time.Time) {
	m.verdicts[gone{g, cluster}] = Verdict{
		Cluster: cluster,
		Export:  g.of,
		Kind:    g.kind,
		State:   s,
		Detail:  detail,
		Until:   until,
	}
	m.due(until)
}

// object returns the object by which a group is shown: its Service, or the ServiceImport if that is headless.
func (m *maker) object(g group) ID {
	if m.headless[g] {
		return g.of
	}
	return g.target()
}

func (m *maker) due(at time.Time) {
	if !at.IsZero() && (m.out.Due.IsZero() || at.Before(m.out.Due)) {
		m.out.Due = at
	}
}
