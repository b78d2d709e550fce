package bench

import (
	"context"
	"fmt"
	"slices"
	"time"

	"isthmus/e2e/bench/fleet"
	"isthmus/e2e/bench/load"
	"isthmus/e2e/harness"
	"isthmus/internal/adminapi"
)

// GrowthScale is how far growth is measured.
type GrowthScale struct {
	Endpoints, Clusters, Services []int // the sizes of each trial
	Changes                       int   // made at each; an even number
	Streams, Conns                int

	Crowds CrowdScale
	Linked LinkedScale
}

// CrowdScale is how many streams there are on how many connections, of the Services of two clusters.
type CrowdScale struct {
	Services, Endpoints int // in each of the clusters, and of each Service there

	Streams []int // the sizes of one trial, with so many on each connection:
	Each    int
	Conns   []int // the sizes of the other one, with so many streams in all:
	Of      int
}

// LinkedScale is how many clusters are linked.
type LinkedScale struct {
	Clusters            []int // the sizes of the trial
	Services, Endpoints int   // in each cluster, and of each Service there
	Spread              int   // clusters that have the same Services
	Rest                time.Duration
}

// inSlice is how many endpoints a large Service has in each slice, as Kubernetes writes them.
const inSlice = 100

// unpaced lets changes follow each other without a pause.
const unpaced = "-pace=0s"

func changeBySize(s Scale) Trial {
	t := changeCost(s, "one change, by Service size", 0)
	t.Sizes, t.Of = s.Growth.Endpoints, "endpoints"
	t.fleet = func(endpoints int) fleet.Config {
		return fleet.Config{Services: 1, Slices: endpoints / inSlice, Endpoints: inSlice}
	}
	return t
}

// changeByClusters has 20 endpoints in each cluster, in one slice.
func changeByClusters(s Scale) Trial {
	t := changeCost(s, "one change, by number of clusters", 1)
	t.Sizes, t.Of = s.Growth.Clusters, "clusters"
	t.fleet = func(clusters int) fleet.Config {
		return fleet.Config{Linked: clusters, Services: 1, Slices: 1, Endpoints: 20}
	}
	return t
}

// changeCost is what one change of an endpoint costs that is sent to one stream. It is made in the
// cluster of that number.
func changeCost(s Scale, name string, cluster int) Trial {
	return Trial{
		Name: name, Claims: sizing, repeats: s.Repeats,
		Figures: []Figure{{Key: "cpu", Label: name, Unit: "µs"}},
		do: func(r *run) {
			at := r.start(unpaced)
			stream := at.open(load.Config{Conns: 1, Targets: []load.Target{{Authority: authorities(cluster > 0)(0)}}})
			r.pause(aftermath)
			cpu := at.cost(func() {
				for first, i := stream.Received(), 1; i <= s.Growth.Changes; i++ {
					check(r.fleet.Flip(cluster, fleet.Service(0)))
					check(stream.Await(r.ctx, first+i))
				}
			})
			r.set("cpu", microseconds(cpu)/float64(s.Growth.Changes))
		},
	}
}

// subscription is what one stream costs until it has its first message, when there are so many
// Services of ten endpoints and the streams are spread over all of them.
func subscription(s Scale) Trial {
	const name = "one stream, by number of Services"
	return Trial{
		Name: name, Claims: sizing, repeats: s.Repeats, Sizes: s.Growth.Services, Of: "Services",
		Figures: []Figure{{Key: "cpu", Label: name, Unit: "µs"}},
		fleet:   func(services int) fleet.Config { return fleet.Config{Services: services, Slices: 1, Endpoints: 10} },
		do: func(r *run) {
			at := r.start(unpaced)
			cfg := spread(s.Growth.Streams, s.Growth.Conns, r.size, local)
			at.settled()
			cpu := at.cost(func() { at.open(cfg) })
			r.set("cpu", microseconds(cpu)/float64(s.Growth.Streams))
		},
	}
}

func crowdByStreams(s Scale) Trial {
	c := s.Growth.Crowds
	t := crowd(
		s,
		fmt.Sprintf("%d per connection", c.Each),
		func(streams int) (int, int) { return streams, streams / c.Each },
	)
	t.Sizes, t.Of = c.Streams, "streams"
	return t
}

func crowdByConns(s Scale) Trial {
	c := s.Growth.Crowds
	t := crowd(s, fmt.Sprintf("%d in total", c.Of), func(conns int) (int, int) { return c.Of, conns })
	t.Sizes, t.Of = c.Conns, "connections"
	return t
}

// crowd opens streams, all at once if there are no more than Of: else wave by wave, since some of
// more would not be read within the time that the gateway gives a request.
func crowd(s Scale, kind string, of func(size int) (streams, conns int)) Trial {
	c := s.Growth.Crowds
	return Trial{
		Name: "streams, " + kind, Claims: sizing, repeats: s.Repeats,
		Figures: []Figure{
			{Key: "memory", Label: "memory per stream, " + kind, Unit: "kB"},
			{Key: "cpu", Label: "CPU per stream, " + kind, Unit: "µs"},
		},
		fleet: func(int) fleet.Config {
			return fleet.Config{Linked: 1, Services: c.Services, Slices: 1, Endpoints: c.Endpoints, Joined: true}
		},
		do: func(r *run) {
			streams, conns := of(r.size)
			waves := max(1, streams/c.Of)
			proxies := Crowd{Conns: streams / waves / c.Each, Streams: c.Each}
			wave := load.Config{Conns: conns / waves, Targets: proxies.targets(c.Services)}
			at := r.start(unpaced)
			before := at.settled()
			cpu := at.cost(func() {
				for range waves {
					at.open(wave)
				}
			})
			r.set("memory", (at.rss()-before)/1000/float64(streams))
			r.set("cpu", microseconds(cpu)/float64(streams))
		},
	}
}

// linkedClusters is what clusters cost in which nothing changes, while no proxy is connected. Their API servers
// are reached as real ones are, by TLS and HTTP/2: by plain HTTP each watch would be a connection of its own.
func linkedClusters(s Scale) Trial {
	c := s.Growth.Linked
	return Trial{
		Name: "linked clusters", Claims: sizing, repeats: 1, Sizes: c.Clusters, Of: "clusters",
		Figures: []Figure{
			{Key: "peak", Label: "linked clusters, peak memory at start", Unit: "MB"},
			{Key: "rest", Label: "linked clusters, memory at rest", Unit: "MB"},
			{Key: "share", Label: "linked clusters, CPU at rest", Unit: "%"},
			{Key: "cpu", Label: "linked clusters, CPU to start", Unit: "s"},
			{Key: "ready", Label: "linked clusters, time until ready", Unit: "s"},
		},
		fleet: func(clusters int) fleet.Config {
			return fleet.Config{
				Linked:    clusters,
				Services:  c.Services,
				Slices:    1,
				Endpoints: c.Endpoints,
				Spread:    c.Spread,
				TLS:       true,
			}
		},
		do: func(r *run) {
			at := r.start(unpaced)
			check(harness.Poll(r.ctx, runLimit, time.Second, func() error { return allRead(r.ctx, at.admin, r.size) }))
			r.set("ready", time.Since(at.started).Seconds())
			r.set("cpu", at.cpu().Seconds())
			r.pause(c.Rest) // until connections and memory that the start took are given back
			rested := at.cpu()
			r.pause(c.Rest)
			r.set("share", share(at.cpu()-rested, c.Rest))
			r.set("peak", megabytes(at.peak()))
			r.set("rest", megabytes(at.rss()))
		},
	}
}

// allRead checks that so many clusters are linked, and all have been read.
func allRead(ctx context.Context, addr string, clusters int) error {
	page, err := harness.ReadClusters(ctx, addr)
	if err != nil {
		return err
	}
	if i := slices.IndexFunc(
		page.Clusters,
		func(c adminapi.Cluster) bool { return c.State != adminapi.Ready },
	); i >= 0 {
		return fmt.Errorf(
			"cluster %s is %s: %s",
			page.Clusters[i].Cluster,
			page.Clusters[i].State,
			page.Clusters[i].Reason,
		)
	}
	if n := len(page.Clusters); n != clusters {
		return fmt.Errorf("%d clusters are linked, not %d", n, clusters)
	}
	return nil
}
