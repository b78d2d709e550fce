package federation

import (
	"net/netip"
	"slices"
	"time"
)

// moment is what a table has been given, from a time on.
type moment struct {
	at     time.Time
	defs   map[ServiceID]*Definition
	links  map[ClusterName]Link
	shares map[memberPort]Share
}

type memberPort struct {
	member Member
	port   uint16
}

// history is everything a table has been given. It computes what a view must publish from
// nothing else.
type history struct {
	ipv6    bool
	moments []moment
}

// instant is a time at which facts change: a moment, or the next part of a cordon within it.
type instant struct {
	moment int
	at     time.Time
}

// instants lists all from a moment on, until now.
func (h *history) instants(from int, now time.Time) (list []instant) {
	for i := from; i < len(h.moments); i++ {
		list = append(list, instant{i, h.moments[i].at})
		end := now
		if i+1 < len(h.moments) {
			end = h.moments[i+1].at
		}
		var steps []time.Time
		for c := range h.moments[i].links {
			_, left := h.cordon(c, instant{i, h.moments[i].at})
			steps = append(steps, left...)
		}
		slices.SortFunc(steps, time.Time.Compare)
		for _, at := range steps {
			if !at.After(end) {
				list = append(list, instant{i, at})
			}
		}
	}
	return list
}

// cordon returns how far each part of a cluster is cordoned, and when more parts change.
func (h *history) cordon(c ClusterName, x instant) (now standings, left []time.Time) {
	var from standings
	var start time.Time
	was := Link{}
	at := func(t time.Time) (now standings, left []time.Time) {
		now = from
		n := 0
		for i := range now {
			if now[i] == was.Cordon {
				continue
			}
			n++
			if step := start.Add(time.Duration(n) * was.CordonOver / parts); step.After(t) {
				left = append(left, step)
			} else {
				now[i] = was.Cordon
			}
		}
		return now, left
	}
	for _, m := range h.moments[:x.moment+1] {
		l := m.links[c]
		switch {
		case l.State == Unlinked || was.State == Unlinked:
			from, start = uniform(l.Cordon), m.at
		case l.Cordon != was.Cordon || l.CordonOver != was.CordonOver:
			from, _ = at(m.at)
			start = m.at
		}
		was = l
	}
	return at(x.at)
}

// standing is an endpoint's.
func (h *history) standing(c ClusterName, x instant) standings {
	list, _ := h.cordon(c, x)
	for i := range list {
		list[i] = max(list[i], h.moments[x.moment].links[c].Lost)
	}
	return list
}

// facts are what a kind of client could get at an instant.
type facts struct {
	d       *Definition
	tiers   []Tier
	steered bool
	set     Set         // without endpoints
	ready   []*Endpoint // after the instance and the traffic policy
	unready []*Endpoint
	unknown bool
	tierOf  func(*Endpoint) int
	readyOf []int // by tier
	knownOf []int
	hints   bool // apply
}

func (h *history) facts(x instant, k Key) *facts {
	m := h.moments[x.moment]
	f := &facts{d: m.defs[k.Service], tiers: []Tier{{{Kind: AnyCluster}}}, hints: true}
	if f.d == nil {
		f.set = Set{Complete: true, Reason: Undefined}
		return f
	}
	f.set = Set{Exists: true, Complete: true}
	if len(f.d.Members) == 0 && !f.d.Federated {
		f.set.Reason = NoRemoteService
		return f
	}
	preferring := f.d.Preference != nil && len(f.d.Preference.Tiers) > 0
	if preferring {
		f.tiers = f.d.Preference.Tiers
	}
	zoneTerm := slices.ContainsFunc(f.tiers, func(t Tier) bool { return slices.Contains(t, Term{Kind: ClientZone}) })
	f.hints = !zoneTerm
	f.steered = preferring && (f.d.Federated || zoneTerm)
	f.tierOf = func(e *Endpoint) int { return h.tierOf(x, k, f, e) }
	for _, mem := range f.d.Members {
		now, left := h.cordon(mem.Cluster, x)
		f.steered = f.steered || len(left) > 0 || now != uniform(InService) || m.links[mem.Cluster].Lost != InService
	}
	ready, unready := make(map[netip.AddrPort]*Endpoint), make(map[netip.AddrPort]*Endpoint)
	for _, pass := range []Standing{InService, LastResort} {
		for _, mem := range f.d.Members {
			standing := h.standing(mem.Cluster, x)
			share := m.shares[memberPort{mem, k.Port}]
			if m.links[mem.Cluster].State != Ready || share.State != Present {
				continue
			}
			for _, s := range share.Slices {
				for _, e := range s.Endpoints {
					if standing[partOf(e)] == pass && ready[e.Addr] == nil {
						ready[e.Addr] = e
					}
				}
				for _, e := range s.Unready {
					if standing[partOf(e)] == pass && unready[e.Addr] == nil {
						unready[e.Addr] = e
					}
				}
			}
		}
	}
	h.summarize(f, m, x, k.Port)
	mine := func(all map[netip.AddrPort]*Endpoint, not map[netip.AddrPort]*Endpoint) (list []*Endpoint) {
		for _, e := range all {
			switch {
			case not[e.Addr] != nil || k.Client.Instance != "" && e.Hostname != k.Client.Instance:
			case e.Cluster == Local && f.set.ByNode && (e.Kind != Pod || k.Client.Node == "" || e.Node != k.Client.Node):
			default:
				list = append(list, e)
			}
		}
		slices.SortFunc(list, compareAddr)
		return list
	}
	f.ready, f.unready = mine(ready, nil), mine(unready, ready)
	count := func(list []*Endpoint) []int {
		n := make([]int, len(f.tiers)+1)
		for _, e := range h.oneFamily(list) {
			if i := f.tierOf(e); i < len(n) {
				n[i]++
			}
		}
		return n
	}
	f.readyOf, f.knownOf = count(f.ready), count(append(slices.Clone(f.ready), f.unready...))
	return f
}

// summarize sets what a set has besides endpoints.
func (h *history) summarize(f *facts, m moment, x instant, port uint16) {
	for _, mem := range f.d.Members {
		l, share := m.links[mem.Cluster], m.shares[memberPort{mem, port}]
		taken := h.standing(mem.Cluster, x) == uniform(Withdrawn)
		named := f.names(mem.Cluster, m) < len(f.tiers) || !f.hints
		if taken || !named {
			if taken && !f.d.Federated {
				return // it exists, and is empty
			}
			continue
		}
		switch {
		case l.State == Pending:
			f.unknown, f.set.Complete = true, false
		case l.State == Unreachable:
			f.unknown = true
		case l.State == Ready && mem.Cluster == Local && share.State == Present:
			f.set.ByNode = share.NodeLocal
		}
		if f.d.Federated {
			continue
		}
		switch {
		case l.State == Unlinked:
			f.set.Exists, f.set.Reason, f.set.Cluster = false, NotLinked, mem.Cluster
		case l.State == Ready && share.State == Missing:
			f.set.Exists = false
		case l.State == Ready && share.State == ExternalName:
			f.set.Reason = External
		}
	}
	if f.unknown {
		f.set.Reason = Unknown
	}
}

// names returns the first tier that has a term, other than zone, for the cluster; as many as
// there are: none has.
func (f *facts) names(c ClusterName, m moment) int {
	for i, tier := range f.tiers {
		for _, t := range tier {
			switch {
			case t.Kind == ClientZone:
			case !f.d.Federated,
				t.Kind == AnyCluster,
				t.Kind == LocalCluster && c == Local,
				t.Kind == Remote && c != Local,
				t.Kind == SameRegion && c == Local,
				t.Kind == SameRegion && m.links[c].Region != "" && m.links[c].Region == m.links[Local].Region,
				t.Kind == Named && c != Local && c == t.Cluster:
				return i
			}
		}
	}
	return len(f.tiers)
}

// tierOf returns the tier of an endpoint; as many as there are: last resort; more: none.
func (h *history) tierOf(x instant, k Key, f *facts, e *Endpoint) int {
	first := f.names(e.Cluster, h.moments[x.moment])
	for i, tier := range f.tiers {
		if i < first && slices.Contains(tier, Term{Kind: ClientZone}) && k.Client.Zone != "" && e.Zone == k.Client.Zone {
			first = i
		}
	}
	switch {
	case first == len(f.tiers):
		return first + 1
	case h.standing(e.Cluster, x)[partOf(e)] != InService:
		return len(f.tiers)
	}
	return first
}

// oneFamily chooses the address family.
func (h *history) oneFamily(list []*Endpoint) (out []*Endpoint) {
	for _, e := range list {
		drop := e.Addr.Addr().Is6() && !h.ipv6
		if e.Addr.Addr().Is4() && h.ipv6 && e.Twin != "" {
			for _, o := range list {
				drop = drop || o.Addr.Addr().Is6() && o.Twin == e.Twin && o.Cluster == e.Cluster
			}
		}
		if !drop {
			out = append(out, e)
		}
	}
	return out
}

// hinted applies zone hints to the local endpoints.
func hinted(list []*Endpoint, zone string) (out []*Endpoint) {
	all, some := true, false
	for _, e := range list {
		if e.Cluster == Local {
			all = all && len(e.Hints) > 0
			some = some || slices.Contains(e.Hints, zone)
		}
	}
	for _, e := range list {
		if e.Cluster != Local || !all || !some || slices.Contains(e.Hints, zone) {
			out = append(out, e)
		}
	}
	return out
}

func (f *facts) preference() Preference {
	if f.d.Preference == nil {
		return Preference{}
	}
	return *f.d.Preference
}

// suffices reports whether the first n tiers do. Anything ready makes last resort unneeded.
func (f *facts) suffices(n int) bool {
	ready, known := 0, 0
	for i := range min(n, len(f.tiers)) {
		ready, known = ready+f.readyOf[i], known+f.knownOf[i]
	}
	p := f.preference().MinReady
	switch {
	case n > len(f.tiers):
		return ready > 0
	case p.Percent > 0:
		return ready >= 1 && ready*100 >= p.Percent*known
	}
	return ready >= max(p.Count, 1)
}

// needed is the number of tiers that clients need.
func (f *facts) needed() int {
	for n := 1; n <= len(f.tiers); n++ {
		if f.suffices(n) {
			return n
		}
	}
	if !f.suffices(len(f.tiers)+1) && f.readyOf[len(f.tiers)] > 0 {
		return len(f.tiers) + 1
	}
	return len(f.tiers)
}

// dropped returns how many parts of the tier at a place have been dropped at a time. facts are
// those of all instants since the view has been decided anew.
func dropped(place int, seen []*facts, times []time.Time, now time.Time) int {
	var since time.Time
	for n := 1; n <= place; n++ {
		if place == len(seen[len(seen)-1].tiers) {
			n = place + 1 // what makes last resort unneeded
		}
		for j := len(seen) - 1; j >= 0 && seen[j].suffices(n); j-- {
			if since.IsZero() || times[j].Before(since) {
				since = times[j]
			}
		}
	}
	p := seen[len(seen)-1].preference()
	switch late := now.Sub(since) - p.ReturnAfter; {
	case since.IsZero() || late < 0:
		return 0
	case late >= p.ReturnOver:
		return parts
	default:
		return int(late * parts / p.ReturnOver)
	}
}

// view replays a view that has been watched since a moment, and returns the set that it must
// publish now.
func (h *history) view(k Key, since int, now time.Time) Set {
	var seen []*facts // since the view has been decided anew
	var times []time.Time
	used := 0
	var sent []*Endpoint
	drop := func(now time.Time) {
		for used > seen[len(seen)-1].needed() && dropped(used-1, seen, times, now) == parts {
			used--
		}
	}
	var f *facts
	for _, x := range h.instants(since, now) {
		before := f
		if len(seen) > 0 {
			drop(x.at)
		}
		f = h.facts(x, k)
		if !f.steered {
			seen, times, used = nil, nil, 0
			sent = h.choose(k, f, f.ready)
			continue
		}
		if len(seen) == 0 || !sameTiers(seen[0].tiers, f.tiers) || !before.steered {
			seen, times, used = nil, nil, 1
			for _, e := range sent {
				if i := f.tierOf(e); i < len(f.tiers) {
					used = max(used, i+1)
				}
			}
		}
		seen, times = append(seen, f), append(times, x.at)
		used = max(used, f.needed())
		drop(x.at)
		sent = h.sent(k, f, used, seen, times, x.at)
	}
	if f.steered {
		drop(now)
		sent = h.sent(k, f, used, seen, times, now)
	}
	set := f.set
	set.Endpoints = sent
	if len(sent) > 0 {
		set.Reason, set.Cluster = None, ""
	}
	return set
}

// sent returns what clients get of the tiers in use.
func (h *history) sent(k Key, f *facts, used int, seen []*facts, times []time.Time, now time.Time) []*Endpoint {
	var list []*Endpoint
	for _, e := range f.ready {
		i := f.tierOf(e)
		if i >= used || i > 0 && partOf(e) < dropped(i, seen, times, now) {
			continue
		}
		list = append(list, e)
	}
	return h.choose(k, f, list)
}

func (h *history) choose(k Key, f *facts, list []*Endpoint) []*Endpoint {
	if f.hints && !f.set.ByNode {
		list = hinted(list, k.Client.Zone)
	}
	return h.oneFamily(list)
}
