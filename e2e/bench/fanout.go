package bench

import (
	"time"

	"isthmus/e2e/bench/fleet"
)

// flipEvery is the time from one flip to the next.
const flipEvery = 500 * time.Millisecond

// fanOut opens all streams to one service, and flips one of its endpoints again and again. What a stream takes is measured
// then: its goroutine's stack grows with what it has done.
func fanOut(s Scale, name, claims string, joined bool) Trial {
	flip := change{service: fleet.Service(0), method: getMethod, authorities: []string{authorities(joined)(0)}}
	if joined {
		flip.cluster = 1
	}
	return Trial{
		Name: name, Claims: claims, floor: true, repeats: 1, fleet: s.web,
		Figures: []Figure{
			{Key: "cpu", Label: "CPU a delivered update", Unit: "µs", MaxRatio: atFloor},
			{Key: "last", Label: "the last stream has a change", Unit: "ms", MaxRatio: atFloor},
			{Key: "memory", Label: "memory a stream, after the changes", Unit: "kB", MaxRatio: 1},
		},
		do: func(r *run) {
			at := r.start()
			before := at.settled()
			cfg := spread(s.Streams, s.Conns, 1, authorities(joined))
			keepFirst(cfg.Targets)
			streams := at.open(cfg)
			r.pause(aftermath)
			m := at.meter(streams)
			var lasts []float64
			for range s.Flips {
				r.pause(flipEvery)
				messages := streams.Received() / streams.Streams() // that each has had
				changed := at.change(flip)
				check(streams.Await(r.ctx, messages+1))
				lasts = append(lasts, milliseconds(latest(streams).Sub(changed)))
			}
			r.pause(flipEvery)
			cpu, updates := m.spent(), m.expect(s.Flips*streams.Streams())
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
