package main

import (
	"cmp"
	"slices"

	"isthmus/cmd/isthmus/internal/events"
	"isthmus/cmd/isthmus/internal/lists"
	"isthmus/federation"
	"isthmus/internal/adminapi"
	"isthmus/internal/text"
)

// maxShownText is how many bytes of a text the lists have; /debug/clusters and /debug/services
// have all of it.
const maxShownText = 500

func shown(s string) string { return text.Clean(s, maxShownText) }

func shownAll(texts []string) []string {
	return text.CleanAll(text.First(texts, 5), maxShownText)
}

// lists returns what the lists are made from: the gateway as it is now.
func (p *pages) lists() lists.Content {
	views := p.streams.Views()
	c := lists.Content{Replica: p.self(), Clusters: p.shownClusters(), Events: p.events.Newest(), MostEvents: events.Most}
	standings, tiers := make(map[string]string), p.shownTiers()
	for _, one := range c.Clusters {
		if one.Standing != adminapi.InService {
			standings[one.Cluster] = one.Standing
		}
	}
	for _, s := range p.services(views) {
		line := p.line(s, standings)
		line.Tiers = tiers[s.id]
		c.Services = append(c.Services, line)
	}
	for _, v := range views {
		if v.Streams > 0 {
			one := v.View
			one.Destination, one.Node, one.Zone, one.Namespace = shown(v.Destination), shown(v.Node), shown(v.Zone), shown(v.Namespace)
			c.Streams = append(c.Streams, one)
		}
	}
	return c
}

func (p *pages) shownClusters() []adminapi.Cluster {
	here := p.here.Status()
	here.Cluster = federation.Local.String()
	list := append([]adminapi.Cluster{here}, p.links.Status()...)
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
		// Reason and Warnings have what these fields say.
		c.Insecure, c.Ignored, c.Unread = nil, nil, nil
		c.SecretRefused, c.NewCredentials = "", ""
	}
	return list
}

// line returns a service in short. standings are those of clusters that are taken out.
func (p *pages) line(s *service, standings map[string]string) adminapi.ServiceLine {
	line := adminapi.ServiceLine{
		Namespace: shown(s.id.Namespace), Name: shown(s.id.Name), Kind: kindOf(s.definition), Watched: len(s.Ports) > 0,
		Streams: s.Streams, Problems: shownAll(s.Problems),
	}
	if s.Preference != nil {
		line.Prefer = shown(s.Preference.Prefer)
	}
	line.Ports, line.Port = knownPorts(s.Ports, p.here.Ports(s.id))
	addMembers(&line, s, standings)
	return line
}

// maxMembers is how many members of a service a line has.
const maxMembers = 12

// addMembers adds the members, with the endpoints of the first of the watched ports.
func addMembers(line *adminapi.ServiceLine, s *service, standings map[string]string) {
	line.Members = make([]adminapi.MemberLine, 0, len(s.Members))
	for i, m := range s.Members {
		one := adminapi.MemberLine{Cluster: shown(m.Cluster), Reason: shown(m.Reason), Standing: standings[m.Cluster]}
		if m.Service != s.Service.Service {
			one.Service = shown(m.Service)
		}
		if port := s.mainPort(); port != nil && i < len(port.Members) {
			if of := port.Members[i]; of.Cluster == m.Cluster && of.Service == m.Service {
				one.Endpoints = of.Endpoints - of.Refused
			}
		}
		line.Endpoints += one.Endpoints
		if one.Reason == "" {
			line.Serving++
		}
		line.Members = append(line.Members, one)
	}
	if line.MoreMembers = max(0, len(line.Members)-maxMembers); line.MoreMembers > 0 { // those that do not serve stay
		slices.SortStableFunc(line.Members, func(a, b adminapi.MemberLine) int { return cmp.Compare(min(1, len(b.Reason)), min(1, len(a.Reason))) })
		line.Members = slices.Clone(line.Members[:maxMembers])
	}
}

// knownPorts returns the declared ports that proxies watch, and those that the Service declares,
// and which of them the page is about: that of addMembers.
func knownPorts(watched []adminapi.Port, declared []uint16) (all []uint16, first uint16) {
	const limit = 20
	for _, w := range watched {
		if !w.Undeclared { // clients can make up any number of these
			all = append(all, w.Port)
		}
	}
	if all = append(all, declared...); len(all) == 0 {
		return nil, 0
	}
	first = all[0]
	slices.Sort(all)
	all = slices.Compact(all)
	return all[:min(len(all), limit)], first
}

// shownTiers returns the tiers in use where clients do not simply get everything.
func (p *pages) shownTiers() map[federation.ServiceID][]adminapi.ZoneTiers {
	const limit = 6 // zones
	tiers := make(map[federation.ServiceID][]adminapi.ZoneTiers)
	for _, one := range p.table.Steered(false) {
		var use []adminapi.ZoneTiers
		for zone, n := range one.InUse {
			use = append(use, adminapi.ZoneTiers{Zone: shown(zone), InUse: shown(one.TiersFor(zone)), Count: n})
		}
		slices.SortFunc(use, func(a, b adminapi.ZoneTiers) int {
			return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Zone, b.Zone))
		})
		tiers[one.Service] = use[:min(len(use), limit)]
	}
	return tiers
}
