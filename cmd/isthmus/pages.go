package main

import (
	"cmp"
	"slices"

	"isthmus/federation"
	"isthmus/grpcapi"
)

// servicePage is a service on /debug/services.
type servicePage struct {
	Service   string        `json:"service"`
	Federated bool          `json:"federated"`
	Members   []memberPage  `json:"members"` // in definition order
	Ports     []watchedPage `json:"ports"`   // that somebody watches
	Streams   int           `json:"streams"`
}

type memberPage struct {
	Cluster string `json:"cluster"`
	Service string `json:"service"`          // its name in that cluster
	Reason  string `json:"reason,omitempty"` // why it does not serve; empty: it does
}

type watchedPage struct {
	Port    uint16     `json:"port"`
	Members []partPage `json:"members"`
}

type partPage struct {
	Cluster   string `json:"cluster"`
	Service   string `json:"service"`
	Endpoints int    `json:"endpoints"`           // on offer
	Conflicts int    `json:"conflicts,omitempty"` // addresses that another member wins
	Updates   uint64 `json:"updates"`             // while it is watched
}

// newServicesPage tells what services are made of: those that are federated or
// mirrored, and those that proxies ask for.
func newServicesPage(t *federation.Table, views []grpcapi.ViewStatus) []servicePage {
	services := make(map[federation.ServiceID]*servicePage)
	at := func(id federation.ServiceID) *servicePage {
		if services[id] == nil {
			services[id] = &servicePage{Service: id.String(), Members: []memberPage{}, Ports: []watchedPage{}}
		}
		return services[id]
	}
	for _, w := range t.Watched() {
		port := watchedPage{Port: w.Port, Members: []partPage{}}
		for _, p := range w.Members {
			port.Members = append(port.Members, partPage{p.Member.Cluster.String(), p.Member.Service.String(), p.Offered, p.Yielded, p.Updates})
		}
		s := at(w.Service)
		s.Ports = append(s.Ports, port)
	}
	for _, v := range views {
		if v.Service != (federation.ServiceID{}) && v.Streams > 0 {
			at(v.Service).Streams += v.Streams
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
			continue // one that stands for itself, and that nobody asks for
		}
		s := at(id)
		s.Federated = d.Federated
		for _, m := range d.Members {
			s.Members = append(s.Members, memberPage{m.Cluster.String(), m.Service.String(), reasons[id][m]})
		}
	}
	list := make([]servicePage, 0, len(services))
	for _, s := range services {
		list = append(list, *s)
	}
	slices.SortFunc(list, func(a, b servicePage) int { return cmp.Compare(a.Service, b.Service) })
	return list
}

// streamsPage is /debug/streams.
type streamsPage struct {
	Streams int                  `json:"streams"`
	Views   []grpcapi.ViewStatus `json:"views"` // what they share
}

func newStreamsPage(views []grpcapi.ViewStatus) streamsPage {
	page := streamsPage{Views: views}
	for _, v := range views {
		page.Streams += v.Streams
	}
	return page
}
