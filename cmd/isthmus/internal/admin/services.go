package admin

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"isthmus/clusterstore/cluster"
	"isthmus/federation"
	"isthmus/grpcapi"
	"isthmus/internal/adminapi"
	"isthmus/internal/panics"
)

// servicesHandler serves /debug/services.
type servicesHandler struct{ *Sources }

// The all method returns every known service with its problems and the tiers in use.
func (h servicesHandler) all() []adminapi.Service {
	services := h.known(h.Streams.Views())
	steered := make(map[federation.ServiceID]federation.SteeredService)
	for _, one := range h.Table.Steered(true) {
		steered[one.Service] = one
	}
	page := make([]adminapi.Service, 0, len(services))
	for _, s := range services {
		if s.definition != nil {
			h.addOwn(s)
		}
		if one, ok := steered[s.id]; ok {
			for i := range one.Clients {
				s.Clients = append(s.Clients, newClients(&one.Clients[i]))
			}
			s.MoreClients = one.MoreClients
			if s.Preference == nil { // otherwise the preference comes from the definition
				s.Preference = newPreference(one.Preference)
			}
		}
		page = append(page, s.Service)
	}
	return page
}

// known returns the services that are federated or mirrored, that proxies watch, or that have
// problems. The result is sorted by name and includes the members of each service.
func (h servicesHandler) known(views []grpcapi.ViewStatus) []*service {
	all := make(map[federation.ServiceID]*service)
	of := func(id federation.ServiceID) *service {
		if all[id] == nil {
			all[id] = &service{id: id, Service: adminapi.Service{
				Service: strings.TrimPrefix(id.String(), "/"),
				Members: []adminapi.Member{},
				Ports:   []adminapi.Port{},
			}}
		}
		return all[id]
	}
	for _, w := range h.Table.Watched() {
		s := of(w.Service)
		s.Ports = append(s.Ports, newPort(w))
	}
	for _, v := range views {
		if v.Service != (federation.ServiceID{}) && v.Streams > 0 {
			of(v.Service).Streams += v.Streams
		}
	}
	for _, one := range h.Local.Problems() {
		namespace, name, _ := strings.Cut(one.Service, "/")
		of(federation.ServiceID{Namespace: namespace, Name: name}).Problems = one.Problems
	}
	for _, f := range h.Failures() {
		id := f.Service
		if id == (federation.ServiceID{}) {
			id.Name = f.Object // not the name of a service but, for example, an address
		}
		if f.Work.Where != panics.Policy { // a policy is shown among the invalid objects of its cluster
			of(id).Failures = append(of(id).Failures, f.Failure)
		}
	}
	for id, d := range h.Table.Definitions() {
		if all[id] != nil || kindOf(d) != "plain" {
			of(id).define(d)
		}
	}
	for _, u := range h.Table.Unserved() {
		if s := all[u.Service]; s != nil && s.definition != nil {
			if i := slices.Index(s.definition.Members, u.Member); i >= 0 {
				s.Members[i].Reason = u.Status.String()
			}
		}
	}
	return slices.SortedFunc(maps.Values(all), func(a, b *service) int {
		return cmp.Compare(a.Service.Service, b.Service.Service)
	})
}

// addOwn records two kinds of problems with the definition of service s: ports that members lack,
// and preferred clusters that are not linked.
func (h servicesHandler) addOwn(s *service) {
	own := h.Local.Service(s.id)
	if own == nil {
		return
	}
	for i, m := range s.definition.Members {
		if m == (federation.Member{Service: s.id}) {
			continue
		}
		if there := h.serviceOf(m); there != nil && !there.ExternalName {
			s.Members[i].LacksPorts = lackedPorts(own, there)
		}
	}
	if _, annotated := own.Annotations["isthmus.io/prefer"]; !annotated || s.Preference == nil {
		return
	}
	for _, tier := range s.definition.Preference.Tiers {
		for _, term := range tier {
			if term.Kind != federation.Named {
				continue
			}
			if _, state := h.Links.LinkedCluster(term.Cluster); state == "" {
				s.Preference.Unlinked = append(s.Preference.Unlinked, term.Cluster.String())
			}
		}
	}
}

func (h servicesHandler) serviceOf(m federation.Member) *cluster.Service {
	if m.Cluster == federation.Local {
		return h.Local.Service(m.Service)
	}
	if c, state := h.Links.LinkedCluster(m.Cluster); c != nil && (state == cluster.Ready || state == cluster.Stale) {
		return c.Service(m.Service)
	}
	return nil
}

func (h servicesHandler) list(views []grpcapi.ViewStatus, clusters []adminapi.Cluster) (lines []adminapi.ServiceLine) {
	standings := make(map[string]string)
	for _, one := range clusters {
		if one.Standing != adminapi.InService {
			standings[one.Cluster] = one.Standing
		}
	}
	tiers := h.shownTiers()
	for _, s := range h.known(views) {
		line := h.line(s, standings)
		line.Tiers = tiers[s.id]
		lines = append(lines, line)
	}
	return lines
}

func (h servicesHandler) line(s *service, standings map[string]string) adminapi.ServiceLine {
	line := adminapi.ServiceLine{
		Namespace: shown(s.id.Namespace),
		Name:      shown(s.id.Name),
		Kind:      kindOf(s.definition),
		Watched:   len(s.Ports) > 0,
		Streams:   s.Streams,
		Problems:  shownAll(s.Problems),
	}
	if s.Preference != nil {
		line.Prefer = shown(s.Preference.Prefer)
	}
	line.Ports, line.Port = knownPorts(s.Ports, h.Local.Ports(s.id))
	addMembers(&line, s, standings)
	return line
}

// For each watched service whose endpoints depend on a preference or on a cluster's standing,
// shownTiers returns the tiers that clients in each zone use.
func (h servicesHandler) shownTiers() map[federation.ServiceID][]adminapi.ZoneTiers {
	const limit = 6 // zones
	tiers := make(map[federation.ServiceID][]adminapi.ZoneTiers)
	for _, one := range h.Table.Steered(false) {
		var use []adminapi.ZoneTiers
		for zone, n := range one.InUse {
			use = append(use, adminapi.ZoneTiers{Zone: shown(zone), InUse: shown(one.TiersFor(zone)), Count: n})
		}
		slices.SortFunc(use, func(a, b adminapi.ZoneTiers) int {
			return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Zone, b.Zone))
		})
		tiers[one.Service] = use[:min(len(use), limit)]
	}
	return tiers
}

type service struct {
	adminapi.Service
	id         federation.ServiceID
	definition *federation.Definition // nil if there is no such Service
}

func newPort(w federation.WatchedPort) adminapi.Port {
	port := adminapi.Port{Port: w.Port, Undeclared: w.Undeclared, Members: []adminapi.PortMember{}}
	for _, m := range w.Members {
		e := adminapi.PortMember{
			Cluster:   m.Member.Cluster.String(),
			Service:   m.Member.Service.String(),
			Endpoints: m.Offered,
			Conflicts: m.Yielded,
			Refused:   m.Refused.Outside + m.Refused.Owned,
			Updates:   m.Updates,
		}
		for _, c := range m.Conflicts {
			e.ConflictsWith = append(e.ConflictsWith, c.String())
		}
		for _, r := range m.Refused.Examples {
			e.Refusals = append(e.Refusals, r.String())
		}
		port.Members = append(port.Members, e)
	}
	return port
}

func (s *service) mainPort() *adminapi.Port {
	for i := range s.Ports {
		if !s.Ports[i].Undeclared {
			return &s.Ports[i]
		}
	}
	if len(s.Ports) == 0 {
		return nil
	}
	return &s.Ports[0]
}

func (s *service) define(d *federation.Definition) {
	s.definition = d
	s.Federated = d.Federated
	s.Imported = d.Imported
	if d.Preference != nil && len(d.Preference.Tiers) > 0 {
		s.Preference = newPreference(d.Preference)
	}
	for _, m := range d.Members {
		s.Members = append(s.Members, adminapi.Member{Cluster: m.Cluster.String(), Service: m.Service.String()})
	}
}

func newPreference(p *federation.Preference) *adminapi.Preference {
	return &adminapi.Preference{
		Prefer:      p.String(),
		MinReady:    p.MinReady.String(),
		ReturnAfter: p.ReturnAfter.String(),
		ReturnOver:  p.ReturnOver.String(),
	}
}

func newClients(c *federation.SteeredClient) adminapi.Clients {
	clients := adminapi.Clients{
		Port:     c.Port,
		Zone:     c.Client.Zone,
		Instance: c.Client.Instance,
		Node:     c.Client.Node,
		Since:    c.Since,
		Why:      c.Why,
		WaitsFor: c.WaitsFor,
	}
	for _, t := range c.Tiers {
		clients.Tiers = append(clients.Tiers, adminapi.Tier(t))
	}
	if !c.Next.IsZero() {
		clients.Next = new(c.Next)
	}
	return clients
}

func kindOf(d *federation.Definition) string {
	switch {
	case d == nil:
		return "undefined"
	case d.Imported:
		return "import"
	case d.Federated:
		return "federated"
	case len(d.Members) == 1 && d.Members[0].Cluster == federation.Local:
		return "plain"
	}
	return "mirrored"
}

// lackedPorts returns the ports that the local Service declares but the member's Service does not.
func lackedPorts(own, there *cluster.Service) (lacks []string) {
	for _, p := range own.Ports {
		if there.HasPort(p.Number) {
			continue
		}
		text := fmt.Sprint(p.Number)
		i := slices.IndexFunc(there.Ports, func(o cluster.ServicePort) bool { return p.Name != "" && o.Name == p.Name })
		if i >= 0 {
			text += fmt.Sprintf(" (%s is %d there)", p.Name, there.Ports[i].Number)
		}
		lacks = append(lacks, text)
	}
	return lacks
}

const maxMembers = 12

// addMembers adds the members of service s to line, with the number of endpoints that each member
// has for the main port.
func addMembers(line *adminapi.ServiceLine, s *service, standings map[string]string) {
	line.Members = make([]adminapi.MemberLine, 0, len(s.Members))
	for i, m := range s.Members {
		one := adminapi.MemberLine{
			Cluster:  shown(m.Cluster),
			Reason:   shown(m.Reason),
			Standing: standings[m.Cluster],
		}
		if m.Service != s.Service.Service {
			one.Service = shown(m.Service)
		}
		if port := s.mainPort(); port != nil && i < len(port.Members) {
			if of := port.Members[i]; of.Cluster == m.Cluster && of.Service == m.Service {
				one.Endpoints = of.Endpoints - of.Refused
			}
		}
		line.Endpoints += one.Endpoints
		if one.Reason == "" {
			line.Serving++
		}
		line.Members = append(line.Members, one)
	}
	line.MoreMembers = max(0, len(line.Members)-maxMembers)
	if line.MoreMembers > 0 { // show members that are not serving first
		slices.SortStableFunc(line.Members, func(a, b adminapi.MemberLine) int {
			return cmp.Compare(min(1, len(b.Reason)), min(1, len(a.Reason)))
		})
		line.Members = slices.Clone(line.Members[:maxMembers])
	}
}

// knownPorts returns the ports that a service declares, including ports that no proxy watches.
func knownPorts(watched []adminapi.Port, declared []uint16) (all []uint16, first uint16) {
	const limit = 20
	for _, w := range watched {
		if !w.Undeclared { // clients can invent any number of undeclared ports
			all = append(all, w.Port)
		}
	}
	all = append(all, declared...)
	if len(all) == 0 {
		return nil, 0
	}
	first = all[0]
	slices.Sort(all)
	all = slices.Compact(all)
	return all[:min(len(all), limit)], first
}

var serviceLines = lineKind[adminapi.ServiceLine]{
	text: func(s *adminapi.ServiceLine) string {
		all := []string{s.Namespace + "/" + s.Name, s.Kind}
		for _, m := range s.Members {
			all = append(all, m.Cluster, m.Service, m.Reason)
		}
		return strings.Join(append(all, s.Problems...), "\n")
	},
	parts: choices[func(*adminapi.ServiceLine) bool]{
		{"", nil},
		{"problems", func(s *adminapi.ServiceLine) bool { return s.Severity > adminapi.Fine }},
		{"import", ofKind("import")},
		{"federated", ofKind("federated")},
		{"mirrored", ofKind("mirrored")},
		{"plain", ofKind("plain")},
	},
	order: choices[func(a, b *adminapi.ServiceLine) int]{
		{"problems", func(a, b *adminapi.ServiceLine) int {
			return cmp.Or(cmp.Compare(b.Severity, a.Severity), byService(a, b))
		}},
		{"name", byService},
		{"streams", func(a, b *adminapi.ServiceLine) int {
			return cmp.Or(cmp.Compare(b.Streams, a.Streams), byService(a, b))
		}},
		{"endpoints", func(a, b *adminapi.ServiceLine) int {
			return cmp.Or(cmp.Compare(b.Endpoints, a.Endpoints), byService(a, b))
		}},
	},
}

func ofKind(kind string) func(*adminapi.ServiceLine) bool {
	return func(s *adminapi.ServiceLine) bool { return s.Kind == kind }
}

func byService(a, b *adminapi.ServiceLine) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

func serviceSeverity(s *adminapi.ServiceLine) adminapi.Severity {
	switch {
	case s.Streams > 0 && s.Watched && s.Endpoints == 0:
		return adminapi.Broken
	case s.Serving == 0 && (s.Kind == "federated" || s.Kind == "import"):
		return adminapi.Broken
	case len(s.Problems) > 0 || s.Serving < len(s.Members)+s.MoreMembers && s.Kind != "plain":
		return adminapi.Partial
	case slices.ContainsFunc(s.Tiers, func(t adminapi.ZoneTiers) bool { return t.Count > 1 }):
		return adminapi.Notable
	}
	return adminapi.Fine
}

// newServiceList sets the severity of each line. The returned list contains the totals of all
// lines, but not the lines themselves.
func newServiceList(lines []adminapi.ServiceLine) (list adminapi.ServiceList) {
	for i := range lines {
		one := &lines[i]
		one.Severity = serviceSeverity(one)
		if one.Severity >= adminapi.Partial {
			list.Troubled++
		}
		if one.Severity == adminapi.Broken {
			list.Unserved++
		}
	}
	return list
}
