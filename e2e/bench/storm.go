package bench

import (
	"time"

	"isthmus/e2e/bench/fleet"
	"isthmus/e2e/bench/load"
)

// StormScale is what a replica has to take over.
type StormScale struct {
	Proxies   Crowd
	Services  int           // federated ones, each of three clusters
	Endpoints int           // of each in a cluster
	Servers   int           // in each cluster
	Profiles  int           // ServiceProfiles
	Over      time.Duration // in which proxies come to the first replica
	Later     time.Duration // after the storm, when the other's memory is to be as that of the first was
}

// storm lets all proxies come to one replica, one after the other, and kills it, so that all go to the other one at once.
// The floor is two bare servers that send what the gateway's streams began with.
func storm(s Scale) Trial {
	c := s.Storm
	return Trial{
		Name: "storm", floor: true, repeats: 1,
		Figures: []Figure{
			{Key: "first p50", Label: "a first message takes, median", Unit: "ms"},
			{Key: "first", Label: "the slowest first message takes", Unit: "ms", Max: 1000},
			{Key: "after", Label: "the last proxy has its first message, after the kill", Unit: "ms"},
			{Key: "refused", Label: "connections that failed", Unit: "%", Max: 0.01},
			{Key: "cpu", Label: "CPU to take over", Unit: "s"},
			{Key: "calm", Label: "resident memory of the killed replica", Unit: "MB"},
			{Key: "peak", Label: "peak resident memory of the other replica", Unit: "MB"},
			{Key: "rest", Label: "resident memory of the other replica a minute later, above the killed one's", Unit: "%", Max: 10},
		},
		fleet: func(int) fleet.Config {
			return fleet.Config{Linked: 2, Services: c.Services, Slices: 1, Endpoints: c.Endpoints, Servers: c.Servers, Profiles: c.Profiles, Joined: true}
		},
		do: func(r *run) {
			killed, other := r.start(), r.start()
			proxies := load.StartProxies(load.ProxiesConfig{Addrs: []string{killed.addr, other.addr}, Targets: c.targets(), Over: c.Over})
			defer proxies.Close()
			check(proxies.Await(r.ctx, runLimit, c.Proxies.Conns))
			if r.kind == Gateway {
				r.record(proxies.Loads()...)
			}
			calm := killed.settled()
			other.resetPeak()
			since := time.Now()
			cpu := other.cost(func() {
				killed.kill()
				check(proxies.Await(r.ctx, runLimit, 2*c.Proxies.Conns))
			})
			r.set("cpu", cpu.Seconds())
			r.openings(proxies, since)
			if r.kind == Floor {
				return
			}
			r.pause(c.Later)
			r.set("calm", megabytes(calm))
			r.set("peak", megabytes(other.peak()))
			r.set("rest", 100*(other.rss()/calm-1))
		},
	}
}

// targets returns the streams of all proxies.
func (c StormScale) targets() (list [][]load.Target) {
	all := kept{}
	for conn := range c.Proxies.Conns {
		own := c.Proxies.proxy(conn, c.Services)
		all.first(own)
		list = append(list, own)
	}
	return list
}

// openings sets how long proxies waited that have connected since a moment.
func (r *run) openings(proxies *load.Proxies, since time.Time) {
	var first, after []float64
	for _, o := range proxies.Openings(since) {
		for _, at := range o.First {
			first, after = append(first, milliseconds(at.Sub(o.Began))), append(after, milliseconds(at.Sub(since)))
		}
	}
	bytes, streams := 0, 0
	for _, l := range proxies.Loads() {
		bytes, streams = bytes+l.Bytes(), streams+l.Streams()
	}
	sorted(first)
	r.set("first p50", percentile(first, 50))
	r.set("first", percentile(first, 100))
	r.set("after", percentile(sorted(after), 100))
	r.set("refused", 100*float64(len(proxies.Failures()))/float64(len(first)))
	r.set("bytes", float64(bytes)/float64(streams))
}
