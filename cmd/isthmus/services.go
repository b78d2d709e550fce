package main

import (
	"strings"

	"isthmus/federation"
	"isthmus/grpcapi"
	"isthmus/internal/adminapi"
)

// service is what is shown of a service, by its page and by lists.
type service struct {
	definition *federation.Definition   // nil: there is no such Service
	ports      []federation.WatchedPort // that proxies watch
	unserved   map[federation.Member]string
	streams    int
	problems   []string
}

// newServices returns the services that are federated or mirrored, that proxies watch or
// that have problems.
func newServices(t *federation.Table, views []grpcapi.ViewStatus, problems []adminapi.Problem) map[federation.ServiceID]*service {
	all := make(map[federation.ServiceID]*service)
	of := func(id federation.ServiceID) *service {
		if all[id] == nil {
			all[id] = new(service)
		}
		return all[id]
	}
	for _, w := range t.Watched() {
		s := of(w.Service)
		s.ports = append(s.ports, w)
	}
	for _, v := range views {
		if v.Service != (federation.ServiceID{}) && v.Streams > 0 {
			of(v.Service).streams += v.Streams
		}
	}
	for _, p := range problems {
		namespace, name, _ := strings.Cut(p.Service, "/")
		of(federation.ServiceID{Namespace: namespace, Name: name}).problems = p.Problems
	}
	for id, d := range t.Definitions() {
		if all[id] != nil || kindOf(d) != "plain" {
			of(id).definition = d
		}
	}
	for _, u := range t.Unserved() {
		if s := all[u.Service]; s != nil {
			if s.unserved == nil {
				s.unserved = make(map[federation.Member]string)
			}
			s.unserved[u.Member] = u.Status.String()
		}
	}
	return all
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
