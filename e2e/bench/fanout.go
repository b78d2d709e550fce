package bench

import (
	"time"

	"isthmus/e2e/bench/fleet"
)

const flipEvery = 500 * time.Millisecond

// fanOut returns a trial that opens all streams to one service and repeatedly flips one of its
// endpoints. It measures the memory of a stream after the flips, because updates increase the stack
// of the stream's goroutine.
func fanOut(s Scale, name, claims string, joined bool) Trial {
	flip := change{service: fleet.Service(0), method: getMethod, authorities: []string{authorities(joined)(0)}}
	if joined {
		flip.cluster = 1
	}
	return Trial{
		Name: name, Claims: claims, floor: true, repeats: 1, fleet: s.web,
		Figures: []Figure{
			{Key: "cpu", Label: "CPU per delivered update", Unit: "µs", MaxRatio: atFloor},
			{Key: "last", Label: "delay to the last stream", Unit: "ms", MaxRatio: atFloor},
			{Key: "memory", Label: "memory per stream after the changes", Unit: "kB", MaxRatio: 1},
		},
		do: func(r *run) {
			at := r.start()
			before := at.settled()
			cfg := spread(s.Streams, s.Conns, 1, authorities(joined))
			keepFirst(cfg.Targets)
			streams := at.open(cfg)
			r.pause(aftermath)
			m := at.meter(streams)
			cpu, updates, lasts := m.flip(flip, s.Flips)
			r.set("cpu", microseconds(cpu)/updates)
			r.set("last", median(lasts))
			r.set("memory", perStream(at.settled()-before, streams))
			r.set("bytes", m.bytes()/updates)
			if r.kind == Gateway {
				r.record(streams)
			}
		},
	}
}

// MostScale is a small number of proxies, and the number that a replica with a memory limit of
// 512Mi admits.
type MostScale struct{ Few, Most Crowd }

// mostStreams returns a trial that makes the same changes with few proxies and with the maximum
// number of proxies. Garbage collection must not use an increasing share of the CPU as memory runs
// out.
func mostStreams(s Scale) Trial {
	flip := change{service: fleet.Service(0), method: getMethod, authorities: []string{local(0)}}
	return Trial{
		Name: "most streams", Claims: sizing, repeats: 1, fleet: s.web,
		Figures: []Figure{
			{Key: "few", Label: "CPU per update with 4,000 streams", Unit: "µs"},
			{Key: "most", Label: "CPU per update with 16,000 streams", Unit: "µs"},
			{Key: "ratio", Label: "ratio of both CPU figures", Unit: "×", Max: 2},
			{Key: "peak", Label: "peak resident memory", Unit: "MB", Max: 512},
		},
		do: func(r *run) {
			r.env = []string{"GOMEMLIMIT=460MiB"} // 90 % of 512Mi, as in a container with that limit
			at := r.start()
			measure := func(c Crowd) float64 {
				streams := at.open(spread(c.Conns*c.Streams, c.Conns, 1, local))
				r.pause(aftermath)
				cpu, updates, _ := at.meter(streams).flip(flip, s.Flips)
				check(streams.Close())
				return microseconds(cpu) / updates
			}
			few, most := measure(s.Most.Few), measure(s.Most.Most)
			r.set("few", few)
			r.set("most", most)
			r.set("ratio", most/few)
			r.set("peak", megabytes(at.peak()))
		},
	}
}
