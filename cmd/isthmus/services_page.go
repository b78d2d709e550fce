package main

import (
	"cmp"
	"slices"
	"strings"

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

// servicesPage is /debug/services while it is made.
type servicesPage map[federation.ServiceID]*adminapi.Service

// newServicesPage lists, by name, the services that are federated or mirrored, that
// proxies watch or that have problems, with their members.
func newServicesPage(t *federation.Table, views []grpcapi.ViewStatus, problems []adminapi.Problem, known members) []adminapi.Service {
	services := make(servicesPage)
	services.addWatched(t.Watched())
	for _, v := range views {
		if v.Service != (federation.ServiceID{}) && v.Streams > 0 {
			services.entry(v.Service).Streams += v.Streams
		}
	}
	for _, p := range problems {
		namespace, name, _ := strings.Cut(p.Service, "/")
		services.entry(federation.ServiceID{Namespace: namespace, Name: name}).Problems = p.Problems
	}
	services.addDefinitions(t, known)
	for _, one := range t.Steered() {
		s := services.entry(one.Service)
		s.Clients, s.MoreClients = one.Clients, one.MoreClients
		if s.Preference == nil { // or it has come by addDefinitions, with what is not linked
			s.Preference = newPreferenceEntry(one.Preference)
		}
	}
	list := make([]adminapi.Service, 0, len(services))
	for _, s := range services {
		list = append(list, *s)
	}
	slices.SortFunc(list, func(a, b adminapi.Service) int { return cmp.Compare(a.Service, b.Service) })
	return list
}

// entry returns a service's, which it adds if there is none.
func (p servicesPage) entry(id federation.ServiceID) *adminapi.Service {
	if p[id] == nil {
		p[id] = &adminapi.Service{Service: id.String(), Members: []adminapi.Member{}, Ports: []adminapi.Port{}}
	}
	return p[id]
}

// addWatched adds the ports that proxies watch.
func (p servicesPage) addWatched(list []federation.WatchedPort) {
	for _, w := range list {
		port := adminapi.Port{Port: w.Port, Members: []adminapi.PortMember{}}
		for _, m := range w.Members {
			port.Members = append(port.Members, newPortMemberEntry(m))
		}
		s := p.entry(w.Service)
		s.Ports = append(s.Ports, port)
	}
}

// addDefinitions adds the services that are federated or mirrored, and the members of all.
func (p servicesPage) addDefinitions(t *federation.Table, known members) {
	reasons := make(map[federation.ServiceID]map[federation.Member]string)
	for _, u := range t.Unserved() {
		if reasons[u.Service] == nil {
			reasons[u.Service] = make(map[federation.Member]string)
		}
		reasons[u.Service][u.Member] = u.Status.String()
	}
	for id, d := range t.Definitions() {
		if p[id] == nil && !d.Federated && len(d.Members) == 1 && d.Members[0].Cluster == federation.Local {
			continue // a plain Service that no proxy watches
		}
		s := p.entry(id)
		s.Federated = d.Federated
		if d.Preference != nil && len(d.Preference.Tiers) > 0 {
			s.Preference = newPreferenceEntry(d.Preference)
			s.Preference.Unlinked = known.unlinked(id, d.Preference)
		}
		for _, m := range d.Members {
			s.Members = append(s.Members, adminapi.Member{
				Cluster: m.Cluster.String(), Service: m.Service.String(), Reason: reasons[id][m], LacksPorts: known.lacks(id, m),
			})
		}
	}
}
