package bench

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
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

// Line is one kind of cost, such as processor time or memory.
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

	Crowds CrowdScale
	Linked LinkedScale
}

// FullGrowth is the scale of the page.
func FullGrowth() GrowthScale {
	return GrowthScale{
		Endpoints: []int{100, 1000, 10_000}, Clusters: []int{1, 10, 50}, Services: []int{10, 1000, 10_000},
		Changes: 400, Streams: 10_000, Conns: 100, Repeats: 3, Settle: 10 * time.Second,
		Crowds: CrowdScale{
			Services: 1000, Endpoints: 10, Streams: []int{1200, 12_000, 120_000}, Each: 12, Conns: []int{100, 1000, 10_000}, Of: 12_000,
		},
		Linked: LinkedScale{Clusters: []int{20, 200, 2000}, Services: 10, Endpoints: 10, Spread: 20, Rest: 15 * time.Second},
	}
}

// inSlice is how many endpoints a large Service has in each slice, as Kubernetes writes them.
const inSlice = 100

// curve is what is measured at some sizes: a sample has a cost for each line.
type curve struct {
	points  []int
	x       string // of all lines
	repeats int
	lines   []Line
	once    func(context.Context, Config, GrowthScale, int) ([]float64, error)
}

func (s GrowthScale) curves() []curve {
	c := s.Crowds
	return []curve{
		{s.Endpoints, "endpoints", s.Repeats, []Line{{Title: "one change, by the Service's size", Unit: "µs"}}, changeBySize},
		{s.Clusters, "clusters", s.Repeats, []Line{{Title: "one change, by the number of clusters", Unit: "µs"}}, changeByClusters},
		{s.Services, "Services", s.Repeats, []Line{{Title: "one subscription, by the number of Services", Unit: "µs"}}, subscription},
		{c.Streams, "streams", s.Repeats, crowdLines(fmt.Sprintf("%d a connection", c.Each)), crowdByStreams},
		{c.Conns, "connections", s.Repeats, crowdLines(fmt.Sprintf("of %d in all", c.Of)), crowdByConns},
		{s.Linked.Clusters, "clusters", 1, linkedLines(), linkedClusters},
	}
}

// MeasureGrowth measures the gateway, with clusters of package fleet: the lines of those titles, and those that are measured
// with them. None is an error.
func MeasureGrowth(ctx context.Context, cfg Config, s GrowthScale, titles *regexp.Regexp) (*Growth, error) {
	g := &Growth{Machine: thisMachine()}
	for _, c := range s.curves() {
		if !slices.ContainsFunc(c.lines, func(l Line) bool { return titles.MatchString(l.Title) }) {
			continue
		}
		for _, x := range c.points {
			if err := c.measure(ctx, cfg, s, x); err != nil {
				return nil, fmt.Errorf("%s, %d: %w", c.lines[0].Title, x, err)
			}
		}
		g.Lines = append(g.Lines, c.lines...)
	}
	if g.Lines == nil {
		return nil, fmt.Errorf("%q matches no title of a line, such as %q", titles, s.curves()[0].lines[0].Title)
	}
	return g, nil
}

// measure adds a point to each line.
func (c curve) measure(ctx context.Context, cfg Config, s GrowthScale, x int) error {
	samples := make([][]float64, len(c.lines))
	for range c.repeats {
		costs, err := c.once(ctx, cfg, s, x)
		if err != nil {
			return err
		}
		for i, cost := range costs {
			samples[i] = append(samples[i], cost)
		}
	}
	for i := range c.lines {
		l, p := &c.lines[i], Point{X: x, Cost: median(samples[i]), Samples: samples[i]}
		l.X, l.Points = c.x, append(l.Points, p)
		cfg.Log("%s: %d %s: %s", l.Title, x, l.X, number(p.Cost, l.Unit))
	}
	return nil
}

func changeBySize(ctx context.Context, cfg Config, s GrowthScale, endpoints int) ([]float64, error) {
	return changeCost(ctx, cfg, s, fleet.Config{Services: 1, Slices: endpoints / inSlice, Endpoints: inSlice})
}

// changeByClusters has 20 endpoints in each cluster, in one slice.
func changeByClusters(ctx context.Context, cfg Config, s GrowthScale, clusters int) ([]float64, error) {
	return changeCost(ctx, cfg, s, fleet.Config{Linked: clusters, Services: 1, Slices: 1, Endpoints: 20})
}

// changeCost is what one change of an endpoint costs that is sent to one stream.
func changeCost(ctx context.Context, cfg Config, s GrowthScale, what fleet.Config) ([]float64, error) {
	return withFleet(ctx, cfg, what, func(f *followed) (cost []float64, err error) {
		pid := f.gateway.Pid()
		linked := min(1, what.Linked) // the changes are in the first linked cluster, if there is one
		service, authority := fleet.Service(0, linked > 0)
		streams, err := load.Open(ctx, load.Config{Addr: f.gateway.Addr(), Method: "Get", Conns: 1, Targets: []load.Target{{Authority: authority}}})
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, streams.Close()) }()
		if err := poll.Pause(ctx, aftermath); err != nil {
			return nil, err
		}
		cpu, err := cpuOf(ctx, pid, func() error {
			for first, i := streams.Received(), 1; i <= s.Changes; i++ {
				if err := f.fleet.Flip(linked, service); err != nil {
					return err
				}
				if err := streams.Await(ctx, first+i); err != nil {
					return err
				}
			}
			return nil
		})
		return []float64{microseconds(cpu) / float64(s.Changes)}, err
	})
}

// subscription is what one stream costs until it has its first message, when there are so many Services of ten endpoints
// and the streams are spread over all of them.
func subscription(ctx context.Context, cfg Config, s GrowthScale, services int) ([]float64, error) {
	return withFleet(ctx, cfg, fleet.Config{Services: services, Slices: 1, Endpoints: 10}, func(f *followed) ([]float64, error) {
		pid, open := f.gateway.Pid(), load.Config{Addr: f.gateway.Addr(), Method: "Get", Conns: s.Conns}
		for i := range s.Streams {
			_, authority := fleet.Service(i%services, false)
			open.Targets = append(open.Targets, load.Target{Authority: authority})
		}
		if _, err := proc.Settled(ctx, pid, s.Settle); err != nil {
			return nil, err
		}
		var streams *load.Load
		cpu, err := cpuOf(ctx, pid, func() (err error) {
			streams, err = load.Open(ctx, open)
			return err
		})
		if streams != nil {
			err = errors.Join(err, streams.Close())
		}
		return []float64{microseconds(cpu) / float64(s.Streams)}, err
	})
}

// withFleet measures with a fresh fleet and gateway.
func withFleet(ctx context.Context, cfg Config, what fleet.Config, do func(*followed) ([]float64, error)) (costs []float64, err error) {
	ctx, cancel := context.WithTimeout(ctx, 2*trialLimit)
	defer cancel()
	f, err := follow(ctx, cfg, what, "-pace=0s")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.end(ctx)) }()
	return do(f)
}
