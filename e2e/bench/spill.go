package bench

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"isthmus/e2e/bench/fleet"
	"isthmus/e2e/bench/load"
)

// SpillScale is how much spills.
type SpillScale struct {
	Services  int           // federated ones, each of three clusters
	Endpoints int           // of each in a cluster
	Pods      int           // in each cluster, several Services having the same
	Over      time.Duration // in which all Services are scaled to nothing, one after the other, and then back
	After     time.Duration // return-after
	Return    time.Duration // return-over
}

// spill opens all streams to services that prefer the local cluster, scales that to nothing,
// service after service, and back. Then the floor sends what one stream of each service was sent,
// when it was. The clusters are simulated: 150,000 endpoints would make those of the other trials
// too large.
func spill(s Scale) Trial {
	c := s.Spill
	var sent []step // to the gateway's streams
	return Trial{
		Name: "spill", Claims: sizing, floor: true, repeats: 1,
		Figures: []Figure{
			{Key: "spill", Label: "delay until the last stream spills", Unit: "ms", Max: 1000},
			{Key: "back", Label: "delay until the first tier returns", Unit: "ms", Max: 1000},
			{Key: "return", Label: "delay of the last removal", Unit: "ms", Max: 1000},
			{Key: "cpu", Label: "CPU per delivered message", Unit: "µs", MaxRatio: 2.5},
			{Key: "memory", Label: "memory per stream", Unit: "kB", MaxRatio: 2},
		},
		fleet: func(int) fleet.Config {
			return fleet.Config{
				Linked:    2,
				Services:  c.Services,
				Slices:    1,
				Endpoints: c.Endpoints,
				Pods:      c.Pods,
				Joined:    true,
				Annotations: map[string]string{
					"isthmus.io/prefer":       "local, any",
					"isthmus.io/return-after": c.After.String(),
					"isthmus.io/return-over":  c.Return.String(),
				},
			}
		},
		do: func(r *run) {
			at := r.start()
			before := at.settled()
			cfg := spread(max(c.Services, s.Streams), s.Conns, c.Services, federated)
			keepFirst(cfg.Targets)
			streams := at.open(cfg)
			r.pause(aftermath)
			if n := streams.Received(); n != streams.Streams() {
				check(fmt.Errorf("%d streams began with %d messages, not one each", streams.Streams(), n))
			}
			r.set("memory", perStream(at.rss()-before, streams))
			m := at.meter(streams)
			if r.kind == Gateway {
				m.spill(c)
				sent = m.recordSent()
			} else {
				m.replay(sent)
			}
			r.settle(streams)
			r.set("cpu", microseconds(m.spent())/float64(m.messages()))
			r.set("bytes", m.bytes()/float64(m.messages()))
		},
	}
}

// spill scales the Services to nothing, scales them back, and waits until all has returned.
func (m *meter) spill(c SpillScale) {
	gone := m.scale(c, false)
	m.settle(m.streams)
	var had []int // messages, of each stream
	m.streams.Arrivals(func(_ load.Target, at []time.Time) { had = append(had, len(at)) })
	back := m.scale(c, true)
	m.pause(c.After + c.Return)
	m.settle(m.streams)
	m.set("spill", m.slowest(gone, func(stream int, at []time.Time) time.Time { return at[had[stream]-1] }))
	m.set("back", m.slowest(back, func(stream int, at []time.Time) time.Time { return at[had[stream]] }))
	m.set(
		"return",
		m.slowest(back, func(_ int, at []time.Time) time.Time { return at[len(at)-1] })-milliseconds(c.After+c.Return),
	)
}

// scale makes all endpoints that Services have in the local cluster ready, or none, service after
// service, and returns when the API server had taken each.
func (m *meter) scale(c SpillScale, ready bool) map[string]time.Time {
	taken := map[string]time.Time{}
	began, every := time.Now(), c.Over/time.Duration(c.Services)
	for i := range c.Services {
		m.pause(time.Until(began.Add(time.Duration(i) * every)))
		check(m.fleet.Scale(0, fleet.Service(i), ready))
		taken[federated(i)] = time.Now()
	}
	return taken
}

// slowest returns how long after a change of its service the last stream had a message.
func (m *meter) slowest(
	since map[string]time.Time,
	message func(stream int, at []time.Time) time.Time,
) (slowest float64) {
	i := 0
	m.streams.Arrivals(func(to load.Target, at []time.Time) {
		slowest = max(slowest, milliseconds(message(i, at).Sub(since[to.Authority])))
		i++
	})
	return slowest
}

// step is a message of a service, so long after the meter has begun.
type step struct {
	after     time.Duration
	authority string
	number    int
}

// recordSent records the messages that have been kept, and returns in order when they came.
func (m *meter) recordSent() (steps []step) {
	m.record(m.streams)
	m.streams.Arrivals(func(to load.Target, at []time.Time) {
		if to.Keep {
			for i, at := range at[1:] {
				steps = append(steps, step{at.Sub(m.began), to.Authority, i})
			}
		}
	})
	slices.SortStableFunc(steps, func(a, b step) int { return cmp.Compare(a.after, b.after) })
	return steps
}

// replay has the floor send each step when it is due.
func (m *meter) replay(steps []step) {
	ordered := map[string][]time.Time{}
	for _, step := range steps {
		m.pause(time.Until(m.began.Add(step.after)))
		check(m.floor.Step(getMethod, step.authority, step.number))
		ordered[step.authority] = append(ordered[step.authority], time.Now())
	}
	m.settle(m.streams)
	late := 0.0 // of all messages
	m.streams.Arrivals(func(to load.Target, at []time.Time) {
		for i, ordered := range ordered[to.Authority] {
			late = max(late, milliseconds(at[1+i].Sub(ordered)))
		}
	})
	m.set("spill", late)
	m.set("back", late)
	m.set("return", late)
}
