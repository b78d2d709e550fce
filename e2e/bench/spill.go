package bench

import (
	"fmt"
	"time"

	"isthmus/e2e/bench/fleet"
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

// step is a message of a service, so long after the meter has begun.
type step struct {
	after     time.Duration
	authority string
	number    int
}
