package federation

import (
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

// standing is that of a cluster's endpoints, by their parts, in a service.
func (h *history) standing(d *Definition, c ClusterName, x instant) standings {
	list, _ := h.cordon(c, x)
	for i := range list {
		list[i] = max(list[i], h.moments[x.moment].links[c].Lost)
		if list[i] == LastResort && !d.Federated {
			list[i] = InService
		}
	}
	return list
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
