package bench

import (
	"context"
	"errors"

	"isthmus/e2e/bench/fleet"
	"isthmus/e2e/bench/load"
	"isthmus/e2e/bench/proc"
)

// CrowdScale is how many streams there are on how many connections, of the Services of two clusters.
type CrowdScale struct {
	Services, Endpoints int // in each of the clusters, and of each Service there

	Streams []int // the points of one curve, with so many on each connection:
	Each    int
	Conns   []int // the points of the other one, with so many streams in all:
	Of      int
}

// crowdLines are what streams cost of which there are so many somewhere.
func crowdLines(many string) []Line {
	return []Line{{Title: "memory a stream, " + many, Unit: "kB"}, {Title: "CPU to connect a stream, " + many, Unit: "µs"}}
}

func crowdByStreams(ctx context.Context, cfg Config, s GrowthScale, streams int) ([]float64, error) {
	return connectCrowd(ctx, cfg, s, streams, streams/s.Crowds.Each)
}

func crowdByConns(ctx context.Context, cfg Config, s GrowthScale, conns int) ([]float64, error) {
	return connectCrowd(ctx, cfg, s, s.Crowds.Of, conns)
}

// connectCrowd opens streams, all at once if there are no more than Of: else wave by wave, since some of more would not be read
// within the time that the gateway gives a request.
func connectCrowd(ctx context.Context, cfg Config, s GrowthScale, streams, conns int) ([]float64, error) {
	c, waves := s.Crowds, max(1, streams/s.Crowds.Of)
	what := fleet.Config{Linked: 1, Services: c.Services, Slices: 1, Endpoints: c.Endpoints, Joined: true}
	return withFleet(ctx, cfg, what, func(f *followed) (costs []float64, err error) {
		pid, crowd := f.gateway.Pid(), Crowd{Conns: streams / waves / c.Each, Streams: c.Each}
		before, err := proc.Settled(ctx, pid, s.Settle)
		if err != nil {
			return nil, err
		}
		wave := load.Config{Addr: f.gateway.Addr(), Conns: conns / waves, Targets: crowd.targets(c.Services, fleetName)}
		var open []*load.Load
		defer func() {
			for _, l := range open {
				err = errors.Join(err, l.Close())
			}
		}()
		cpu, err := cpuOf(ctx, pid, func() error {
			for range waves {
				l, err := load.Open(ctx, wave)
				if err != nil {
					return err
				}
				open = append(open, l)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
		with, err := proc.ReadMemory(pid)
		return []float64{
			(float64(with.RSS) - float64(before.RSS)) / 1000 / float64(streams), microseconds(cpu) / float64(streams),
		}, err
	})
}

// fleetName returns the name of a Service of a fleet.
func fleetName(i int) string {
	name, _ := fleet.Service(i, false)
	return name
}
