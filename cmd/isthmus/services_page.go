package main

import (
	"cmp"
	"slices"

	"isthmus/federation"
	"isthmus/grpcapi"
)

// serviceEntry is one service on /debug/services.
type serviceEntry struct {
	Service   string        `json:"service"`
	Federated bool          `json:"federated"`
	Members   []memberEntry `json:"members"` // in definition order
	Ports     []portEntry   `json:"ports"`   // that proxies watch
	Streams   int           `json:"streams"`
}

type memberEntry struct {
	Cluster string `json:"cluster"`
	Service string `json:"service"`          // its name in that cluster
	Reason  string `json:"reason,omitempty"` // why it does not serve; empty: it does
}

type portEntry struct {
	Port    uint16            `json:"port"`
	Members []portMemberEntry `json:"members"`
}

type portMemberEntry struct {
	Cluster   string `json:"cluster"`
	Service   string `json:"service"`
	Endpoints int    `json:"endpoints"`           // on offer
	Conflicts int    `json:"conflicts,omitempty"` // addresses that another member wins
	Refused   int    `json:"refused,omitempty"`   // addresses that are not taken from its cluster
	Updates   uint64 `json:"updates"`             // while it is watched

	ConflictsWith []string `json:"conflictsWith,omitempty"` // which member wins them, the first ten
	Refusals      []string `json:"refusals,omitempty"`      // why they are not, the first ten
}

func newPortMemberEntry(m federation.WatchedMember) portMemberEntry {
	e := portMemberEntry{
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

// newServicesPage lists, by name, the services that are federated or mirrored or that
// proxies watch, with their members.
func newServicesPage(t *federation.Table, views []grpcapi.ViewStatus) []serviceEntry {
	services := make(map[federation.ServiceID]*serviceEntry)
	entry := func(id federation.ServiceID) *serviceEntry {
		if services[id] == nil {
			services[id] = &serviceEntry{Service: id.String(), Members: []memberEntry{}, Ports: []portEntry{}}
		}
		return services[id]
	}
	for _, w := range t.Watched() {
		port := portEntry{Port: w.Port, Members: []portMemberEntry{}}
		for _, p := range w.Members {
			port.Members = append(port.Members, newPortMemberEntry(p))
		}
		s := entry(w.Service)
		s.Ports = append(s.Ports, port)
	}
	for _, v := range views {
		if v.Service != (federation.ServiceID{}) && v.Streams > 0 {
			entry(v.Service).Streams += v.Streams
		}
	}
	reasons := make(map[federation.ServiceID]map[federation.Member]string)
	for _, u := range t.Unserved() {
		if reasons[u.Service] == nil {
			reasons[u.Service] = make(map[federation.Member]string)
		}
		reasons[u.Service][u.Member] = u.Status.String()
	}
	for id, d := range t.Definitions() {
		if services[id] == nil && !d.Federated && len(d.Members) == 1 && d.Members[0].Cluster == federation.Local {
			continue // a plain Service that no proxy watches
		}
		s := entry(id)
		s.Federated = d.Federated
		for _, m := range d.Members {
			s.Members = append(s.Members, memberEntry{m.Cluster.String(), m.Service.String(), reasons[id][m]})
		}
	}
	list := make([]serviceEntry, 0, len(services))
	for _, s := range services {
		list = append(list, *s)
	}
	slices.SortFunc(list, func(a, b serviceEntry) int { return cmp.Compare(a.Service, b.Service) })
	return list
}
