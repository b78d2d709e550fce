package main

import (
	"cmp"
	"slices"

	"isthmus/federation"
	"isthmus/grpcapi"
	"isthmus/internal/adminapi"
)

func newPortMemberEntry(m federation.WatchedMember) adminapi.PortMember {
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
	return e
}

func newPreferenceEntry(p *federation.Preference) *adminapi.Preference {
	return &adminapi.Preference{Prefer: p.String(), MinReady: p.MinReady.String(), ReturnAfter: p.ReturnAfter.String(), ReturnOver: p.ReturnOver.String()}
}

// newServicesPage lists by name, with their members, the services that are federated or mirrored, that proxies watch or
// that have problems.
func newServicesPage(t *federation.Table, views []grpcapi.ViewStatus, problems []adminapi.Problem, known members) []adminapi.Service {
	services := newServices(t, views, problems)
	page := make(map[federation.ServiceID]*adminapi.Service, len(services))
	for id, s := range services {
		page[id] = newServiceEntry(id, s, known)
	}
	for _, one := range t.Steered(true) {
		s := page[one.Service]
		if s == nil {
			continue // it has come to be watched since
		}
		s.Clients, s.MoreClients = one.Clients, one.MoreClients
		if s.Preference == nil { // or it has that of its definition, with what is not linked
			s.Preference = newPreferenceEntry(one.Preference)
		}
	}
	list := make([]adminapi.Service, 0, len(page))
	for _, s := range page {
		list = append(list, *s)
	}
	slices.SortFunc(list, func(a, b adminapi.Service) int { return cmp.Compare(a.Service, b.Service) })
	return list
}

func newServiceEntry(id federation.ServiceID, s *service, known members) *adminapi.Service {
	e := &adminapi.Service{Service: id.String(), Members: []adminapi.Member{}, Ports: []adminapi.Port{}, Streams: s.streams, Problems: s.problems}
	for _, w := range s.ports {
		port := adminapi.Port{Port: w.Port, Members: []adminapi.PortMember{}}
		for _, m := range w.Members {
			port.Members = append(port.Members, newPortMemberEntry(m))
		}
		e.Ports = append(e.Ports, port)
	}
	d := s.definition
	if d == nil {
		return e
	}
	e.Federated, e.Imported = d.Federated, d.Imported
	if d.Preference != nil && len(d.Preference.Tiers) > 0 {
		e.Preference = newPreferenceEntry(d.Preference)
		e.Preference.Unlinked = known.unlinked(id, d.Preference)
	}
	for _, m := range d.Members {
		e.Members = append(e.Members, adminapi.Member{
			Cluster: m.Cluster.String(), Service: m.Service.String(), Reason: s.unserved[m], LacksPorts: known.lacks(id, m),
		})
	}
	return e
}
