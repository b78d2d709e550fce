package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"isthmus/e2e/bench/fleet"
	"isthmus/e2e/bench/load"
	"isthmus/e2e/bench/proc"
	"isthmus/e2e/poll"
)

// Growth is how what something costs grows with what there is.
type Growth struct {
	Machine Machine
	Lines   []Line
}

// Line is one kind of cost: the gateway's processor time each.
type Line struct {
	Title  string
	X      string // what is counted on the way from point to point
	Unit   string
	Points []Point
}

// Point is the cost at one size: the median of the samples.
type Point struct {
	X       int
	Cost    float64
	Samples []float64
}

// GrowthScale is how far growth is measured.
type GrowthScale struct {
	Endpoints, Clusters, Services []int // the points of each line
	Changes                       int   // made at each; an even number
	Streams, Conns                int
	Repeats                       int
	Settle                        time.Duration
}

// FullGrowth is the scale of the chart.
func FullGrowth() GrowthScale {
	return GrowthScale{
		Endpoints: []int{100, 1000, 10_000}, Clusters: []int{1, 10, 50}, Services: []int{10, 1000, 10_000},
		Changes: 400, Streams: 10_000, Conns: 100, Repeats: 3, Settle: 10 * time.Second,
	}
}

// inSlice is how many endpoints a large Service has in each slice, as Kubernetes writes them.
const inSlice = 100

// MeasureGrowth measures the gateway, with clusters of package fleet.
func MeasureGrowth(ctx context.Context, cfg Config, s GrowthScale) (*Growth, error) {
	g := &Growth{Machine: thisMachine(), Lines: []Line{
		{Title: "one change, by the Service's size", X: "endpoints", Unit: "µs"},
		{Title: "one change, by the number of clusters", X: "clusters", Unit: "µs"},
		{Title: "one subscription, by the number of Services", X: "Services", Unit: "µs"},
	}}
	for i, line := range []struct {
		points []int
		once   func(context.Context, Config, GrowthScale, int) (float64, error)
	}{{s.Endpoints, changeBySize}, {s.Clusters, changeByClusters}, {s.Services, subscription}} {
		l := &g.Lines[i]
		for _, x := range line.points {
			p := Point{X: x}
			for range s.Repeats {
				cost, err := line.once(ctx, cfg, s, x)
				if err != nil {
					return nil, fmt.Errorf("%s, %d: %w", l.Title, x, err)
				}
				p.Samples = append(p.Samples, cost)
			}
			p.Cost = median(p.Samples)
			cfg.Log("%s: %d %s: %.0f %s", l.Title, x, l.X, p.Cost, l.Unit)
			l.Points = append(l.Points, p)
		}
	}
	return g, nil
}

func changeBySize(ctx context.Context, cfg Config, s GrowthScale, endpoints int) (float64, error) {
	return changeCost(ctx, cfg, s, fleet.Config{Services: 1, Slices: endpoints / inSlice, Endpoints: inSlice})
}

// changeByClusters has 20 endpoints in each cluster, in one slice.
func changeByClusters(ctx context.Context, cfg Config, s GrowthScale, clusters int) (float64, error) {
	return changeCost(ctx, cfg, s, fleet.Config{Linked: clusters, Services: 1, Slices: 1, Endpoints: 20})
}

// changeCost is what one change of an endpoint costs that is sent to one stream.
func changeCost(ctx context.Context, cfg Config, s GrowthScale, what fleet.Config) (float64, error) {
	return withFleet(ctx, cfg, what, func(f *fleet.Fleet, addr string, pid int) (cost float64, err error) {
		linked := min(1, what.Linked) // the changes are in the first linked cluster, if there is one
		service, authority := fleet.Service(0, linked > 0)
		streams, err := load.Open(ctx, load.Config{Addr: addr, Method: "Get", Conns: 1, Targets: []load.Target{{Authority: authority}}})
		if err != nil {
			return 0, err
		}
		defer func() { err = errors.Join(err, streams.Close()) }()
		if err := poll.Pause(ctx, aftermath); err != nil {
			return 0, err
		}
		start, err := proc.CPU(pid)
		if err != nil {
			return 0, err
		}
		for first, i := streams.Received(), 1; i <= s.Changes; i++ {
			if err := f.Flip(linked, service); err != nil {
				return 0, err
			}
			if err := streams.Await(ctx, first+i); err != nil {
				return 0, err
			}
		}
		if err := poll.Pause(ctx, aftermath); err != nil {
			return 0, err
		}
		end, err := proc.CPU(pid)
		return microseconds(end-start) / float64(s.Changes), err
	})
}

// subscription is what one stream costs until it has its first message, when there are so many Services of ten endpoints
// and the streams are spread over all of them.
func subscription(ctx context.Context, cfg Config, s GrowthScale, services int) (float64, error) {
	return withFleet(ctx, cfg, fleet.Config{Services: services, Slices: 1, Endpoints: 10}, func(_ *fleet.Fleet, addr string, pid int) (float64, error) {
		open := load.Config{Addr: addr, Method: "Get", Conns: s.Conns}
		for i := range s.Streams {
			_, authority := fleet.Service(i%services, false)
			open.Targets = append(open.Targets, load.Target{Authority: authority})
		}
		if _, err := proc.Settled(ctx, pid, s.Settle); err != nil {
			return 0, err
		}
		start, err := proc.CPU(pid)
		if err != nil {
			return 0, err
		}
		streams, err := load.Open(ctx, open)
		if err != nil {
			return 0, err
		}
		err = poll.Pause(ctx, aftermath)
		end, cpuErr := proc.CPU(pid)
		return microseconds(end-start) / float64(s.Streams), errors.Join(err, cpuErr, streams.Close())
	})
}

// withFleet measures with a fresh fleet and gateway.
func withFleet(ctx context.Context, cfg Config, what fleet.Config, do func(f *fleet.Fleet, addr string, pid int) (float64, error)) (cost float64, err error) {
	ctx, cancel := context.WithTimeout(ctx, trialLimit)
	defer cancel()
	f, err := follow(ctx, cfg, what, "-pace=0s")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, f.end(ctx)) }()
	return do(f.fleet, f.gateway.Addr(), f.gateway.Pid())
}
