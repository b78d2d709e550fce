package main

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

// service is what is shown of a service, by its page and by lists.
type service struct {
	adminapi.Service
	id         federation.ServiceID
	definition *federation.Definition // nil: there is no such Service
}

// services lists by name, with their members, the services that are federated or mirrored, that
// proxies watch or that have problems.
func (p *pages) services(views []grpcapi.ViewStatus) []*service {
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
	for _, w := range p.table.Watched() {
		s := of(w.Service)
		s.Ports = append(s.Ports, newPort(w))
	}
	for _, v := range views {
		if v.Service != (federation.ServiceID{}) && v.Streams > 0 {
			of(v.Service).Streams += v.Streams
		}
	}
	for _, one := range p.here.Problems() {
		namespace, name, _ := strings.Cut(one.Service, "/")
		of(federation.ServiceID{Namespace: namespace, Name: name}).Problems = one.Problems
	}
	for _, f := range p.failures() {
		id := f.Service
		if id == (federation.ServiceID{}) {
			id.Name = f.Object // such as an address
		}
		if f.Work.Where != panics.Policy { // which is shown as an object of its cluster that can't be used
			of(id).Failures = append(of(id).Failures, f.Failure)
		}
	}
	for id, d := range p.table.Definitions() {
		if all[id] != nil || kindOf(d) != "plain" {
			of(id).define(d)
		}
	}
	for _, u := range p.table.Unserved() {
		if s := all[u.Service]; s != nil && s.definition != nil {
			if i := slices.Index(s.definition.Members, u.Member); i >= 0 {
				s.Members[i].Reason = u.Status.String()
			}
		}
	}
	return slices.SortedFunc(maps.Values(all), func(a, b *service) int { return cmp.Compare(a.Service.Service, b.Service.Service) })
}

func newPort(w federation.WatchedPort) adminapi.Port {
	port := adminapi.Port{Port: w.Port, Undeclared: w.Undeclared, Members: []adminapi.PortMember{}}
	for _, m := range w.Members {
		e := adminapi.PortMember{
			Cluster: m.Member.Cluster.String(), Service: m.Member.Service.String(),
			Endpoints: m.Offered, Conflicts: m.Yielded, Refused: m.Refused.Outside + m.Refused.Owned, Updates: m.Updates,
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

// mainPort returns the watched port whose endpoints stand for the service: the first declared port,
// or the first port if no declared port is watched. It returns nil if no port is watched.
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
	s.definition, s.Federated, s.Imported = d, d.Federated, d.Imported
	if d.Preference != nil && len(d.Preference.Tiers) > 0 {
		s.Preference = newPreference(d.Preference)
	}
	for _, m := range d.Members {
		s.Members = append(s.Members, adminapi.Member{Cluster: m.Cluster.String(), Service: m.Service.String()})
	}
}

func newPreference(p *federation.Preference) *adminapi.Preference {
	return &adminapi.Preference{Prefer: p.String(), MinReady: p.MinReady.String(), ReturnAfter: p.ReturnAfter.String(), ReturnOver: p.ReturnOver.String()}
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

func (p *pages) servicesPage() []adminapi.Service {
	services := p.services(p.streams.Views())
	steered := make(map[federation.ServiceID]federation.SteeredService)
	for _, one := range p.table.Steered(true) {
		steered[one.Service] = one
	}
	page := make([]adminapi.Service, 0, len(services))
	for _, s := range services {
		if s.definition != nil {
			p.addOwn(s)
		}
		if one, ok := steered[s.id]; ok {
			for i := range one.Clients {
				s.Clients = append(s.Clients, newClients(&one.Clients[i]))
			}
			s.MoreClients = one.MoreClients
			if s.Preference == nil { // or it has that of its definition, with what is not linked
				s.Preference = newPreference(one.Preference)
			}
		}
		page = append(page, s.Service)
	}
	return page
}

// addOwn adds what is wrong with a service by what its own Service is like: ports that members
// lack, and clusters which its own annotation prefers and that are not linked.
func (p *pages) addOwn(s *service) {
	own := p.here.Service(s.id)
	if own == nil {
		return
	}
	for i, m := range s.definition.Members {
		if m == (federation.Member{Service: s.id}) {
			continue
		}
		if there := p.serviceOf(m); there != nil && !there.ExternalName {
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
			if _, state := p.links.Followed(term.Cluster); state == "" {
				s.Preference.Unlinked = append(s.Preference.Unlinked, term.Cluster.String())
			}
		}
	}
}

// serviceOf returns a member's Service; nil: it is not known.
func (p *pages) serviceOf(m federation.Member) *cluster.Service {
	if m.Cluster == federation.Local {
		return p.here.Service(m.Service)
	}
	if c, state := p.links.Followed(m.Cluster); c != nil && (state == cluster.Ready || state == cluster.Stale) {
		return c.Service(m.Service)
	}
	return nil
}

// lackedPorts returns the ports of a service that a member's Service does not have.
func lackedPorts(own, there *cluster.Service) (lacks []string) {
	for _, p := range own.Ports {
		if there.HasPort(p.Number) {
			continue
		}
		text := fmt.Sprint(p.Number)
		if i := slices.IndexFunc(there.Ports, func(o cluster.ServicePort) bool { return p.Name != "" && o.Name == p.Name }); i >= 0 {
			text += fmt.Sprintf(" (%s is %d there)", p.Name, there.Ports[i].Number)
		}
		lacks = append(lacks, text)
	}
	return lacks
}
