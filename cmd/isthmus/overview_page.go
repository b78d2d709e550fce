package main

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"

	"isthmus/clusterstore/cluster"
	"isthmus/cmd/isthmus/internal/events"
	"isthmus/cmd/isthmus/internal/overview"
	"isthmus/federation"
	"isthmus/grpcapi"
	"isthmus/internal/adminapi"
)

// maxShownText is how many bytes of a text the page at / shows; /debug/clusters and
// /debug/services have all of it.
const maxShownText = 500

func shown(text string) string { return events.Printable(text, maxShownText) }

func shownAll(texts []string) []string {
	const most = 5
	var list []string
	for _, t := range texts[:min(len(texts), most)] {
		list = append(list, shown(t))
	}
	if more := len(texts) - most; more > 0 {
		list = append(list, fmt.Sprintf("and %d more", more))
	}
	return list
}

// overviewOf is what the page at / is made from.
type overviewOf struct {
	table    *federation.Table
	log      eventLog
	views    func() []grpcapi.ViewStatus
	here     func() adminapi.Cluster
	links    func() []adminapi.Cluster
	problems func() []adminapi.Problem
	portsOf  func(federation.ServiceID) []uint16 // that a Service declares
	ready    func() bool
	domain   string
}

// look returns the gateway as it is now.
func (o *overviewOf) look() *overview.World {
	views, clusters := o.views(), shownClusters(o.here().ClusterStatus, o.links())
	w := &overview.World{
		Gateway: overview.Gateway{Ready: o.ready(), Domain: o.domain}, Events: o.log.Newest(),
		Clusters: clusters, Services: o.services(views),
	}
	addStandings(w.Services, clusters)
	w.Gateway.Name, _ = os.Hostname()
	w.Gateway.Version = version(buildInfo())
	for _, v := range views {
		if v.Streams > 0 {
			w.Streams = append(w.Streams, overview.Stream{Method: v.Method, Destination: shown(v.Destination), Node: shown(v.Node),
				Zone: shown(v.Zone), Namespace: shown(v.Namespace), Streams: v.Streams, Endpoints: v.Endpoints})
		}
	}
	return w
}

// addStandings adds, to members, the standing of their cluster if that is taken out.
func addStandings(services []overview.Service, clusters []overview.Cluster) {
	out := make(map[string]string)
	for _, c := range clusters {
		if c.Standing != federation.InService.String() && c.Standing != "" {
			out[c.Name] = c.Standing
		}
	}
	for _, s := range services {
		for i := range s.Members {
			s.Members[i].Standing = out[s.Members[i].Cluster]
		}
	}
}

func shownClusters(here cluster.Status, links []adminapi.Cluster) []overview.Cluster {
	list := []overview.Cluster{shownCluster(federation.Local.String(), "", here)}
	for _, l := range links {
		list = append(list, shownCluster(l.Cluster, l.Secret, l.ClusterStatus))
	}
	return list
}

func shownCluster(name, secret string, st cluster.Status) overview.Cluster {
	var gateways []overview.Through
	for _, g := range st.Gateways {
		gateways = append(gateways, overview.Through{Address: g.Address, State: g.State, Reason: shown(g.Reason)})
	}
	return overview.Cluster{
		Network: shown(st.Network), Gateways: gateways,
		Name: shown(name), Secret: shown(secret), State: string(st.State), Since: st.Since, Reason: shown(st.Reason), Region: shown(st.Region),
		Standing: st.Standing, StandingReason: shown(st.StandingReason), Server: shown(st.Server), Warnings: shownAll(st.Warnings),
	}
}

// services lists those that /debug/services lists.
func (o *overviewOf) services(views []grpcapi.ViewStatus) []overview.Service {
	streams := make(map[federation.ServiceID]int)
	for _, v := range views {
		if v.Service != (federation.ServiceID{}) {
			streams[v.Service] += v.Streams
		}
	}
	watched := make(map[federation.ServiceID][]federation.WatchedPort)
	for _, w := range o.table.Watched() {
		watched[w.Service] = append(watched[w.Service], w)
	}
	problems := make(map[federation.ServiceID][]string)
	for _, p := range o.problems() {
		namespace, name, _ := strings.Cut(p.Service, "/")
		problems[federation.ServiceID{Namespace: namespace, Name: name}] = p.Problems
	}
	unserved := make(map[federation.ServiceID]map[federation.Member]string)
	for _, u := range o.table.Unserved() {
		if unserved[u.Service] == nil {
			unserved[u.Service] = make(map[federation.Member]string)
		}
		unserved[u.Service][u.Member] = u.Status.String()
	}
	definitions := o.table.Definitions()
	list := make([]overview.Service, 0, len(definitions))
	add := func(id federation.ServiceID, d *federation.Definition) {
		ports := watched[id]
		s := overview.Service{
			Namespace: shown(id.Namespace), Name: shown(id.Name), Kind: kindOf(d), Watched: len(ports) > 0,
			Streams: streams[id], Problems: shownAll(problems[id]),
		}
		if d != nil && d.Preference != nil && len(d.Preference.Tiers) > 0 {
			s.Prefer = shown(d.Preference.String())
		}
		addMembers(&s, d, ports, unserved[id])
		s.Ports, s.Port = o.knownPorts(id, ports)
		list = append(list, s)
	}
	for id, d := range definitions {
		if kindOf(d) == "plain" && watched[id] == nil && problems[id] == nil && streams[id] == 0 {
			continue
		}
		add(id, d)
	}
	for id := range watched {
		if definitions[id] == nil {
			add(id, nil)
		}
	}
	addTiers(list, o.table.TiersInUse())
	return list
}

func kindOf(d *federation.Definition) string {
	switch {
	case d == nil:
		return "undefined"
	case d.Federated:
		return "federated"
	case len(d.Members) == 1 && d.Members[0].Cluster == federation.Local:
		return "plain"
	}
	return "mirrored"
}

// addMembers adds the members, with the endpoints of the first of the watched ports.
func addMembers(s *overview.Service, d *federation.Definition, ports []federation.WatchedPort, unserved map[federation.Member]string) {
	s.Members = []overview.Member{}
	if d == nil {
		return
	}
	s.Members = make([]overview.Member, 0, len(d.Members))
	var idle []overview.Member // that do not serve
	for i, m := range d.Members {
		shownMember := overview.Member{Cluster: shown(m.Cluster.String())}
		if m.Service.Namespace != s.Namespace || m.Service.Name != s.Name {
			shownMember.Service = shown(m.Service.String())
		}
		if len(ports) > 0 && i < len(ports[0].Members) && ports[0].Members[i].Member == m {
			shownMember.Endpoints = ports[0].Members[i].Offered - ports[0].Members[i].Refused.Outside - ports[0].Members[i].Refused.Owned
			s.Endpoints += shownMember.Endpoints
		}
		if shownMember.Reason = shown(unserved[m]); shownMember.Reason != "" {
			idle = append(idle, shownMember)
		} else {
			s.Serving++
		}
		s.Members = append(s.Members, shownMember)
	}
	if s.MoreMembers = len(s.Members) - overview.MaxMembers; s.MoreMembers <= 0 {
		s.MoreMembers = 0
		return
	}
	serving := slices.DeleteFunc(slices.Clone(s.Members), func(m overview.Member) bool { return m.Reason != "" })
	s.Members = slices.Concat(idle, serving)[:overview.MaxMembers:overview.MaxMembers]
}

// knownPorts returns the ports that proxies watch, and those that the Service declares, and which of
// them the page is about: that of addMembers.
func (o *overviewOf) knownPorts(id federation.ServiceID, watched []federation.WatchedPort) (all []uint16, first uint16) {
	const most = 20
	for _, w := range watched {
		if w.Port != 0 { // 0 stands for all that are not declared
			all = append(all, w.Port)
		}
	}
	all = append(all, o.portsOf(id)...)
	if len(all) == 0 {
		return nil, 0
	}
	first = all[0]
	slices.Sort(all)
	all = slices.Compact(all)
	return all[:min(len(all), most)], first
}

// addTiers adds the tiers in use where clients do not simply get everything.
func addTiers(list []overview.Service, steered []federation.SteeredService) {
	const most = 6 // zones
	tiers := make(map[string][]overview.Tiers, len(steered))
	for _, one := range steered {
		var use []overview.Tiers
		for zone, n := range one.InUse {
			use = append(use, overview.Tiers{Zone: shown(zone), InUse: shown(one.TiersFor(zone)), Count: n})
		}
		slices.SortFunc(use, func(a, b overview.Tiers) int {
			return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Zone, b.Zone))
		})
		tiers[one.Service.String()] = use[:min(len(use), most)]
	}
	for i := range list {
		list[i].Tiers = tiers[list[i].Namespace+"/"+list[i].Name]
	}
}
