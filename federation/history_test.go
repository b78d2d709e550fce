package federation

import (
	"net/netip"
	"slices"
	"time"

	"isthmus/internal/spec"
)

// moment contains the inputs of a table from one time until the next moment.
type moment struct {
	at     time.Time
	defs   map[ServiceID]*Definition
	links  map[ClusterName]Link
	shares map[memberPort]Share
	owned  map[netip.Addr]string
}

type memberPort struct {
	member Member
	port   uint16
}

// history contains all inputs that a table has had. The history determines the set that each view
// must publish. Package spec computes the endpoints.
type history struct {
	ipv6    bool
	moments []moment
	steps   [][]time.Time      // for each moment so far, when parts of cordons change
	states  map[stateKey]state // cache of former results
}

type stateKey struct {
	instant
	Key
}

type state struct {
	set Set // without endpoints
	*spec.State
}

// instant is a time at which something changes: a moment, or the next part of a cordon within a
// moment.
type instant struct {
	moment int
	at     time.Time
}

// instants lists all instants from a moment until now.
func (h *history) instants(from int, now time.Time) (list []instant) {
	for i := from; i < len(h.moments); i++ {
		list = append(list, instant{i, h.moments[i].at})
		end := now
		if i+1 < len(h.moments) {
			end = h.moments[i+1].at
		}
		for _, at := range h.stepsOf(i) {
			if !at.After(end) {
				list = append(list, instant{i, at})
			}
		}
	}
	return list
}

// stepsOf returns the times when parts of cordons change, as known at a moment. The results are
// cached, because moments are only added.
func (h *history) stepsOf(moment int) []time.Time {
	for i := len(h.steps); i <= moment; i++ {
		var steps []time.Time
		for c := range h.moments[i].links {
			_, next := h.cordon(c, instant{i, h.moments[i].at})
			steps = append(steps, next...)
		}
		slices.SortFunc(steps, time.Time.Compare)
		h.steps = append(h.steps, steps)
	}
	return h.steps[moment]
}

// cordon returns the standing of each part of a cluster, and the times when further parts change.
func (h *history) cordon(c ClusterName, x instant) (now spec.Standings, next []time.Time) {
	links := make([]spec.Link, 0, x.moment+1)
	for _, m := range h.moments[:x.moment+1] {
		l := m.links[c]
		links = append(links, spec.Link{
			At:     m.at,
			Linked: l.State != Unlinked,
			Cordon: spec.Standing(l.Cordon),
			Over:   l.CordonOver,
		})
	}
	return spec.Cordoned(links, x.at)
}

// view returns the set that a view must now publish if it has been watched since a moment. The
// second result lists those given nodes whose clients get endpoints chosen by node hints.
func (h *history) view(k Key, since int, now time.Time, nodes ...string) (set Set, hinted []string) {
	var list []spec.Instant
	for _, x := range h.instants(since, now) {
		st, known := h.states[stateKey{x, k}]
		if !known {
			set, s := h.facts(x, k)
			st = state{set, s.State()}
			h.states[stateKey{x, k}] = st
		}
		set = st.set
		list = append(list, spec.Instant{At: x.at, State: st.State})
	}
	for _, e := range spec.Sent(list, now) {
		set.Endpoints = append(set.Endpoints, e.Of.(*Endpoint))
	}
	if len(set.Endpoints) > 0 {
		set.Reason, set.Cluster = None, ""
	}
	last, inUse := list[len(list)-1], spec.InUse(list, now)
	set.Hinted = last.HintedTo(inUse, k.Client.Node)
	for _, node := range nodes {
		if last.HintedTo(inUse, node) {
			hinted = append(hinted, node)
		}
	}
	return set, hinted
}

// facts returns the state that clients see at an instant: a set without endpoints, and the service
// for package spec.
func (h *history) facts(x instant, k Key) (Set, *spec.Service) {
	m, c := h.moments[x.moment], k.Client
	d, s := m.defs[k.Service], &spec.Service{IPv6: h.ipv6, Zone: c.Zone, Node: c.Node, Instance: c.Instance}
	switch {
	case d == nil:
		return Set{Complete: true, Reason: Undefined}, s
	case len(d.Members) == 0 && !d.Federated:
		return Set{Exists: true, Complete: true, Reason: NoRemoteService}, s
	}
	s.Federated = d.Federated
	if p := d.Preference; p != nil {
		s.Preference = spec.Preference{
			Count:       p.MinReady.Count,
			Percent:     p.MinReady.Percent,
			ReturnAfter: p.ReturnAfter,
			ReturnOver:  p.ReturnOver,
		}
		for _, tier := range p.Tiers {
			s.Tiers = append(s.Tiers, terms(tier))
		}
	}
	for _, mem := range d.Members {
		s.Members = append(s.Members, h.member(x, d, mem, k.Port))
	}
	set := summarized(d, s, m, k.Port)
	s.NodeLocal = set.ByNode
	return set, s
}

func terms(t Tier) (list []string) {
	for _, term := range t {
		if term.Kind == Named {
			list = append(list, spec.Explicit+string(term.Cluster))
		} else {
			list = append(list, term.String())
		}
	}
	return list
}

// member returns a member's offer for a port.
func (h *history) member(x instant, d *Definition, mem Member, port uint16) spec.Member {
	m := h.moments[x.moment]
	l, share := m.links[mem.Cluster], m.shares[memberPort{mem, port}]
	list, next := h.cordon(mem.Cluster, x)
	for i := range list {
		list[i] = max(list[i], spec.Standing(l.Lost))
	}
	one := spec.Member{
		Cluster: spec.Cluster{
			Name:   string(mem.Cluster),
			Region: l.Region != "" && l.Region == m.links[Local].Region,
		},
		Unlinked:  l.State == Unlinked,
		Unlisted:  l.State == Pending || l.State == Unreachable,
		Service:   modelledState[share.State],
		Standings: list,
		Spreading: len(next) > 0,
	}
	if l.State != Ready || share.State != Present || d.Strict && share.Undeclared {
		return one
	}
	var offered []spec.Slice
	for _, s := range share.Slices {
		offered = append(offered, spec.Slice{
			Ready:   modelledList(s.Endpoints),
			Unready: modelledList(s.Unready),
			Behind:  (*spec.Behind)(s.Behind),
		})
	}
	one.Accept(offered, l.Within.Contains, func(ip netip.Addr) bool { return m.owned[ip] != "" })
	return one
}

var modelledState = map[ServiceState]spec.ServiceState{
	Missing:      spec.Missing,
	Present:      spec.Present,
	ExternalName: spec.ExternalName,
}

func modelledList(all []*Endpoint) (list []spec.Endpoint) {
	for _, e := range all {
		list = append(list, modelled(e))
	}
	return list
}

func modelled(e *Endpoint) spec.Endpoint {
	c := e.Common.Get()
	x := spec.Endpoint{
		Addr:     e.Addr,
		Zone:     e.Zone,
		Hostname: e.Hostname,
		Pod:      e.Twin,
		Zones:    e.Hints.Zones(),
		Nodes:    e.Hints.Nodes(),
		Part:     partOf(e),
		Of:       e,
		Text:     string(rune(e.Kind)) + c.Authority + " " + c.Identity.DNS,
	}
	if e.Kind == Pod {
		x.Node = e.Node
	}
	return x
}

// summarized returns the fields of a set other than its endpoints.
func summarized(d *Definition, s *spec.Service, m moment, port uint16) Set {
	set := Set{Exists: s.Exists(), Complete: true}
	for i, mem := range d.Members {
		l, share := m.links[mem.Cluster], m.shares[memberPort{mem, port}]
		if s.Unused(&s.Members[i]) {
			if !d.Federated && l.State == Ready && share.State == ExternalName {
				set.Reason = External
			}
			continue // it exists and is empty
		}
		switch {
		case l.State == Pending:
			set.Reason, set.Complete = Unknown, false
		case l.State == Unreachable:
			set.Reason = Unknown
		case l.State == Ready && mem.Cluster == Local && share.State == Present:
			set.ByNode = share.NodeLocal
		}
		switch {
		case d.Federated:
		case l.State == Unlinked:
			set.Reason, set.Cluster = NotLinked, mem.Cluster
		case l.State == Ready && share.State == ExternalName:
			set.Reason = External
		}
	}
	return set
}
