package main

import (
	"cmp"
	"slices"
	"strings"

	"isthmus/federation"
	"isthmus/grpcapi"
	"isthmus/local"
)

// serviceEntry is one service on /debug/services.
type serviceEntry struct {
	Service   string        `json:"service"`
	Federated bool          `json:"federated"`
	Members   []memberEntry `json:"members"` // in definition order
	Ports     []portEntry   `json:"ports"`   // that proxies watch
	Streams   int           `json:"streams"`

	Problems   []string         `json:"problems,omitempty"`   // of its annotations and labels
	Preference *preferenceEntry `json:"preference,omitempty"` // that is asked for, whether or not it makes a difference
	Clients    []clientsEntry   `json:"clients,omitempty"`    // what they use, if they don't simply get everything
	// MoreClients is how many kinds of clients are left out.
	MoreClients int `json:"moreClients,omitempty"`
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

// servicesPage is /debug/services while it is made.
type servicesPage map[federation.ServiceID]*serviceEntry

// newServicesPage lists, by name, the services that are federated or mirrored, that
// proxies watch or that have problems, with their members.
func newServicesPage(t *federation.Table, views []grpcapi.ViewStatus, problems []local.Problem) []serviceEntry {
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
	services.addDefinitions(t)
	services.addSteered(t.Steered())
	list := make([]serviceEntry, 0, len(services))
	for _, s := range services {
		list = append(list, *s)
	}
	slices.SortFunc(list, func(a, b serviceEntry) int { return cmp.Compare(a.Service, b.Service) })
	return list
}

// entry returns a service's, which it adds if there is none.
func (p servicesPage) entry(id federation.ServiceID) *serviceEntry {
	if p[id] == nil {
		p[id] = &serviceEntry{Service: id.String(), Members: []memberEntry{}, Ports: []portEntry{}}
	}
	return p[id]
}

// addWatched adds the ports that proxies watch.
func (p servicesPage) addWatched(list []federation.WatchedPort) {
	for _, w := range list {
		port := portEntry{Port: w.Port, Members: []portMemberEntry{}}
		for _, m := range w.Members {
			port.Members = append(port.Members, newPortMemberEntry(m))
		}
		s := p.entry(w.Service)
		s.Ports = append(s.Ports, port)
	}
}

// addDefinitions adds the services that are federated or mirrored, and the members of all.
func (p servicesPage) addDefinitions(t *federation.Table) {
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
		}
		for _, m := range d.Members {
			s.Members = append(s.Members, memberEntry{m.Cluster.String(), m.Service.String(), reasons[id][m]})
		}
	}
}
