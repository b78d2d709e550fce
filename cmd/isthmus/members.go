package main

import (
	"fmt"
	"slices"

	"isthmus/clusterstore/cluster"
	"isthmus/federation"
)

// members know the Services that make up others.
type members struct {
	here interface {
		Service(federation.ServiceID) *cluster.Service
	}
	links interface {
		Followed(federation.ClusterName) (*cluster.Cluster, cluster.State)
	}
}

// service returns a member's Service; nil: it is not known.
func (k members) service(m federation.Member) *cluster.Service {
	if m.Cluster == federation.Local {
		return k.here.Service(m.Service)
	}
	if c, state := k.links.Followed(m.Cluster); c != nil && (state == cluster.Ready || state == cluster.Stale) {
		return c.Service(m.Service)
	}
	return nil
}

// lacks returns the ports of a service that a member's Service does not have.
func (k members) lacks(id federation.ServiceID, m federation.Member) []string {
	if m.Cluster == federation.Local && m.Service == id {
		return nil
	}
	own, there := k.here.Service(id), k.service(m)
	if own == nil || there == nil || there.ExternalName {
		return nil
	}
	return lackedPorts(own, there)
}

func lackedPorts(own, there *cluster.Service) (lacks []string) {
	for _, p := range own.Ports {
		if there.Declares(p.Number) {
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

// unlinked returns the clusters that a Service's own annotation prefers and that are not linked.
func (k members) unlinked(id federation.ServiceID, p *federation.Preference) (names []string) {
	own := k.here.Service(id)
	if own == nil {
		return nil
	}
	if _, annotated := own.Annotations["isthmus.io/prefer"]; !annotated {
		return nil
	}
	for _, tier := range p.Tiers {
		for _, term := range tier {
			if term.Kind != federation.Named {
				continue
			}
			if _, state := k.links.Followed(term.Cluster); state == "" {
				names = append(names, term.Cluster.String())
			}
		}
	}
	return names
}
