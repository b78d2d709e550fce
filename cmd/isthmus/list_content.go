package main

import (
	"cmp"
	"fmt"
	"slices"

	"isthmus/cmd/isthmus/internal/events"
	"isthmus/cmd/isthmus/internal/lists"
	"isthmus/federation"
	"isthmus/grpcapi"
	"isthmus/internal/adminapi"
	"isthmus/internal/legible"
)

// maxShownText is how many bytes of a text the lists have; /debug/clusters and /debug/services
// have all of it.
const maxShownText = 500

func shown(text string) string { return legible.Text(text, maxShownText) }

func shownAll(texts []string) []string {
	const limit = 5
	var list []string
	for _, t := range texts[:min(len(texts), limit)] {
		list = append(list, shown(t))
	}
	if more := len(texts) - limit; more > 0 {
		list = append(list, fmt.Sprintf("and %d more", more))
	}
	return list
}

// listContent is what the lists are made from.
type listContent struct {
	table    *federation.Table
	log      eventLog
	views    func() []grpcapi.ViewStatus
	here     func() adminapi.Cluster
	links    func() []adminapi.Cluster
	problems func() []adminapi.Problem
	portsOf  func(federation.ServiceID) []uint16 // that a Service declares
	self     func() adminapi.Replica
}

// now returns the gateway as it is now.
func (l *listContent) now() lists.Content {
	views, clusters := l.views(), shownClusters(l.here(), l.links())
	c := lists.Content{
		Replica: l.self(), Clusters: clusters, Services: l.services(views), Events: l.log.Newest(), MostEvents: events.Most,
	}
	addStandings(c.Services, clusters)
	for _, v := range views {
		if v.Streams > 0 {
			one := v.View
			one.Destination, one.Node, one.Zone, one.Namespace = shown(v.Destination), shown(v.Node), shown(v.Zone), shown(v.Namespace)
			c.Streams = append(c.Streams, one)
		}
	}
	return c
}

// addStandings adds, to members, the standing of their cluster if that is taken out.
func addStandings(services []adminapi.ServiceLine, clusters []adminapi.Cluster) {
	out := make(map[string]string)
	for _, c := range clusters {
		if c.Standing != adminapi.InService && c.Standing != "" {
			out[c.Cluster] = c.Standing
		}
	}
	if len(out) == 0 {
		return
	}
	for _, s := range services {
		for i := range s.Members {
			s.Members[i].Standing = out[s.Members[i].Cluster]
		}
	}
}

func shownClusters(here adminapi.Cluster, links []adminapi.Cluster) []adminapi.Cluster {
	here.Cluster = federation.Local.String()
	list := append([]adminapi.Cluster{here}, links...)
	for i := range list {
		c := &list[i]
		c.Cluster, c.Secret, c.Reason, c.Region = shown(c.Cluster), shown(c.Secret), shown(c.Reason), shown(c.Region)
		c.StandingReason, c.Server, c.Network, c.Warnings = shown(c.StandingReason), shown(c.Server), shown(c.Network), shownAll(c.Warnings)
		c.Gateways = slices.Clone(c.Gateways)
		for j := range c.Gateways {
			g := &c.Gateways[j]
			g.Name, g.Identity, g.Reason = shown(g.Name), shown(g.Identity), shown(g.Reason)
		}
		c.Resources, c.Memory, c.API, c.ObjectWarnings, c.GatewayProblems = nil, adminapi.Memory{}, nil, nil, nil
		c.Insecure, c.Unread, c.SecretRefused, c.NewCredentials = nil, nil, "", "" // Reason and Warnings have them
	}
	return list
}

// services lists those that /debug/services lists.
func (l *listContent) services(views []grpcapi.ViewStatus) []adminapi.ServiceLine {
	services := newServices(l.table, views, l.problems())
	list := make([]adminapi.ServiceLine, 0, len(services))
	for id, of := range services {
		d := of.definition
		s := adminapi.ServiceLine{
			Namespace: shown(id.Namespace), Name: shown(id.Name), Kind: kindOf(d), Watched: len(of.ports) > 0,
			Streams: of.streams, Problems: shownAll(of.problems),
		}
		if d != nil && d.Preference != nil && len(d.Preference.Tiers) > 0 {
			s.Prefer = shown(d.Preference.String())
		}
		addMembers(&s, d, of.ports, of.unserved)
		s.Ports, s.Port = l.knownPorts(id, of.ports)
		list = append(list, s)
	}
	addTiers(list, l.table.Steered(false))
	return list
}

// maxMembers is how many members of a service a line has.
const maxMembers = 12

// addMembers adds the members, with the endpoints of the first of the watched ports.
func addMembers(s *adminapi.ServiceLine, d *federation.Definition, ports []federation.WatchedPort, unserved map[federation.Member]string) {
	s.Members = []adminapi.MemberLine{}
	if d == nil {
		return
	}
	s.Members = make([]adminapi.MemberLine, 0, len(d.Members))
	var idle []adminapi.MemberLine // that do not serve
	for i, m := range d.Members {
		shownMember := adminapi.MemberLine{Cluster: shown(m.Cluster.String())}
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
	if s.MoreMembers = len(s.Members) - maxMembers; s.MoreMembers <= 0 {
		s.MoreMembers = 0
		return
	}
	serving := slices.DeleteFunc(slices.Clone(s.Members), func(m adminapi.MemberLine) bool { return m.Reason != "" })
	s.Members = slices.Concat(idle, serving)[:maxMembers:maxMembers]
}

// knownPorts returns the ports that proxies watch, and those that the Service declares, and which of
// them the page is about: that of addMembers.
func (l *listContent) knownPorts(id federation.ServiceID, watched []federation.WatchedPort) (all []uint16, first uint16) {
	const limit = 20
	for _, w := range watched {
		if w.Port != 0 { // 0 stands for all that are not declared
			all = append(all, w.Port)
		}
	}
	all = append(all, l.portsOf(id)...)
	if len(all) == 0 {
		return nil, 0
	}
	first = all[0]
	slices.Sort(all)
	all = slices.Compact(all)
	return all[:min(len(all), limit)], first
}

// addTiers adds the tiers in use where clients do not simply get everything.
func addTiers(list []adminapi.ServiceLine, steered []federation.SteeredService) {
	const limit = 6 // zones
	tiers := make(map[string][]adminapi.ZoneTiers, len(steered))
	for _, one := range steered {
		var use []adminapi.ZoneTiers
		for zone, n := range one.InUse {
			use = append(use, adminapi.ZoneTiers{Zone: shown(zone), InUse: shown(one.TiersFor(zone)), Count: n})
		}
		slices.SortFunc(use, func(a, b adminapi.ZoneTiers) int {
			return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Zone, b.Zone))
		})
		tiers[one.Service.String()] = use[:min(len(use), limit)]
	}
	for i := range list {
		list[i].Tiers = tiers[list[i].Namespace+"/"+list[i].Name]
	}
}
