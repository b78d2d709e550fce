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

// GrowthScale contains the sizes at which growth is measured.
type GrowthScale struct {
	Endpoints, Clusters, Services []int // sizes of each trial
	Changes                       int   // changes at each size; an even number
	Streams, Conns                int

	Crowds CrowdScale
	Linked LinkedScale
}

// CrowdScale contains numbers of streams and connections, for Services in two clusters.
type CrowdScale struct {
	Services, Endpoints int // Services per cluster, and endpoints per Service and cluster

	Streams []int // sizes of the trial with Each streams per connection
	Each    int
	Conns   []int // sizes of the trial with Of streams in total
	Of      int
}

// LinkedScale contains numbers of linked clusters.
type LinkedScale struct {
	Clusters            []int // sizes of the trial
	Services, Endpoints int   // Services per cluster, and endpoints per Service and cluster
	Spread              int   // number of clusters with the same Services
	Rest                time.Duration
}

const inSlice = 100

const unpaced = "-pace=0s"

func changeBySize(s Scale) Trial {
	t := changeCost(s, "one change, by Service size", 0)
	t.Sizes, t.Of = s.Growth.Endpoints, "endpoints"
	t.fleet = func(endpoints int) fleet.Config {
		return fleet.Config{Services: 1, Slices: endpoints / inSlice, Endpoints: inSlice}
	}
	return t
}

// changeByClusters uses one slice of 20 endpoints in each cluster.
func changeByClusters(s Scale) Trial {
	t := changeCost(s, "one change, by number of clusters", 1)
	t.Sizes, t.Of = s.Growth.Clusters, "clusters"
	t.fleet = func(clusters int) fleet.Config {
		return fleet.Config{Linked: clusters, Services: 1, Slices: 1, Endpoints: 20}
	}
	return t
}

// changeCost returns a trial that measures the CPU time for a change to an endpoint that is sent to
// one stream. The change is made in the cluster with the given number.
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

// subscription returns a trial that measures the CPU time for one stream until its first message.
// The streams are spread over all Services, each with ten endpoints.
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

// crowd returns a trial that opens many streams. It opens up to CrowdScale.Of streams at once, and
// more than that in waves, so that the replica reads each request within its time limit.
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

// linkedClusters returns a trial that measures the cost of idle clusters without any proxy. The API
// servers use TLS and HTTP/2 like real ones, because every watch over plain HTTP needs its own
// connection.
func linkedClusters(s Scale) Trial {
	c := s.Growth.Linked
	return Trial{
		Name: "linked clusters", Claims: sizing, repeats: 1, Sizes: c.Clusters, Of: "clusters",
		Figures: []Figure{
			{Key: "peak", Label: "peak memory at start, by linked clusters", Unit: "MB"},
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
			r.pause(c.Rest) // until the connections and the memory used at startup have been released
			rested := at.cpu()
			r.pause(c.Rest)
			r.set("share", share(at.cpu()-rested, c.Rest))
			r.set("peak", megabytes(at.peak()))
			r.set("rest", megabytes(at.rss()))
		},
	}
}

// allRead checks that the given number of clusters is linked and that all have synced.
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
