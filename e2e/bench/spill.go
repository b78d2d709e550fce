package bench

import (
	"fmt"
	"time"

	"isthmus/e2e/bench/fleet"
)

// SpillScale is the size of the spill trial.
type SpillScale struct {
	Services  int           // federated Services, each with members in three clusters
	Endpoints int           // endpoints per Service and cluster
	Pods      int           // Pods per cluster, which several Services share
	Over      time.Duration // time in which all Services are scaled to zero, and then again back
	After     time.Duration // value of return-after
	Return    time.Duration // value of return-over
}

// spill returns a trial with streams to services that prefer the local cluster. One after the
// other, the services are scaled to zero in the local cluster and back. The floor then sends the
// recorded messages at the same times. The trial uses its own clusters, because 150,000 endpoints
// are too many for the other trials.
func spill(s Scale) Trial {
	c := s.Spill
	var sent []step // messages that the replica sent
	return Trial{
		Name: "spill", Claims: sizing, floor: true, repeats: 1,
		Figures: []Figure{
			{Key: "spill", Label: "delay until the last stream uses the next tier", Unit: "ms", Max: 1000},
			{Key: "back", Label: "delay until the last stream uses the first tier again", Unit: "ms", Max: 1000},
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
				check(fmt.Errorf("%d streams began with %d messages, want one each", streams.Streams(), n))
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

// step is a message for a service at a time since the start of the measurement.
type step struct {
	after     time.Duration
	authority string
	number    int
}
