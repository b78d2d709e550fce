package bench

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"isthmus/e2e/bench/fleet"
	"isthmus/e2e/bench/load"
)

// web is Services with many Pods, and app Services with few, in three clusters.
func (s Scale) web(int) fleet.Config { return s.Web.fleet() }
func (s Scale) app(int) fleet.Config { return s.App.fleet() }

// ServicesScale is how many Services there are in each of three clusters, and their endpoints there.
type ServicesScale struct{ Services, Endpoints int }

func (c ServicesScale) fleet() fleet.Config {
	return fleet.Config{Linked: 2, Services: c.Services, Slices: 1, Endpoints: c.Endpoints, Joined: true, Nodes: true}
}

// authorities returns those of Services, by number.
func authorities(joined bool) func(int) string {
	if joined {
		return federated
	}
	return local
}

// connect opens all streams at once, ends them at once and opens them again.
func connect(s Scale) Trial {
	return Trial{
		Name: "connect", Claims: overview, floor: true, repeats: s.Repeats, fleet: s.web,
		Figures: []Figure{
			{Key: "cpu", Label: "CPU to connect all", Unit: "s", MaxRatio: atFloor},
			{Key: "memory", Label: "memory per stream", Unit: "kB", MaxRatio: atFloor},
			{Key: "reconnect", Label: "CPU to drop and reconnect all", Unit: "s", MaxRatio: atFloor},
		},
		do: func(r *run) {
			r.start().connectTwice(spread(s.Streams, s.Conns, s.Web.Services, federated), func(*load.Load) {})
		},
	}
}

// connectTwice opens all streams at once and lets something be done under them, ends them at once and opens them again.
func (s *server) connectTwice(cfg load.Config, do func(*load.Load)) {
	keepFirst(cfg.Targets)
	before := s.settled()
	streams, cpu := s.connect(cfg, nil)
	s.set("cpu", cpu.Seconds())
	s.set("memory", perStream(s.rss()-before, streams))
	s.set("bytes", float64(streams.Bytes())/float64(streams.Streams()))
	do(streams)
	if s.kind == Gateway {
		s.record(streams)
	}
	_, cpu = s.connect(cfg, streams)
	s.set("reconnect", cpu.Seconds())
}

// connect ends the streams that there were, if any, and opens all, and returns what that cost.
func (s *server) connect(cfg load.Config, before *load.Load) (streams *load.Load, cpu time.Duration) {
	cpu = s.cost(func() {
		if before != nil {
			check(before.Close())
		}
		streams = s.open(cfg)
	})
	return streams, cpu
}

// ProxiesScale is how proxies connect, and what is changed under them.
type ProxiesScale struct {
	Crowd
	Changed int // Services that are changed, twice each: so that all is as it was
	Rate    int // changes a second
}

// proxies opens streams as proxies have them, changes some of their services, ends all streams at
// once and opens them again.
func proxies(s Scale) Trial {
	return Trial{
		Name: "proxies", Claims: optimizations, floor: true, repeats: s.Repeats, fleet: s.app,
		Figures: []Figure{
			{Key: "cpu", Label: "CPU to connect all", Unit: "s", MaxRatio: asProxies},
			{Key: "update", Label: "CPU per delivered update", Unit: "µs", MaxRatio: asProxies},
			{Key: "reconnect", Label: "CPU to drop and reconnect all", Unit: "s", MaxRatio: atFloor},
		},
		do: func(r *run) {
			at := r.start()
			streams := load.Config{Conns: s.Proxies.Conns, Targets: s.Proxies.targets(s.App.Services)}
			at.connectTwice(streams, func(streams *load.Load) {
				at.update(streams, s.Proxies)
			})
		},
	}
}

// update changes services under open streams: endpoints, which the federated Service has and the
// local one if the endpoint is local, and the profiles of both.
func (s *server) update(streams *load.Load, scale ProxiesScale) {
	of := map[[2]string]int{} // streams
	streams.Arrivals(func(t load.Target, _ []time.Time) { of[[2]string{t.Method, t.Authority}]++ })
	m, expected, every := s.meter(streams), 0, time.Second/time.Duration(scale.Rate)
	next := time.Now()
	for range 2 {
		for i := range scale.Changed {
			for _, c := range serviceChanges(i) {
				s.pause(time.Until(next))
				next = next.Add(every)
				c.authorities = slices.DeleteFunc(
					c.authorities,
					func(a string) bool { return of[[2]string{c.method, a}] == 0 },
				)
				s.change(c)
				for _, authority := range c.authorities {
					expected += of[[2]string{c.method, authority}]
				}
			}
		}
	}
	s.settle(streams)
	cpu, updates := m.spent(), m.expect(expected)
	s.set("update", microseconds(cpu)/updates)
	s.set("update bytes", m.bytes()/updates)
}

// serviceChanges returns changes of an endpoint of a service, in another cluster for each, and of
// the profiles of the local Service and the federated one.
func serviceChanges(i int) []change {
	name := fleet.Service(i)
	endpoint := change{cluster: i % 3, service: name, method: getMethod, authorities: []string{federated(i)}}
	if endpoint.cluster == 0 {
		endpoint.authorities = append(endpoint.authorities, local(i))
	}
	return []change{
		endpoint,
		{service: name, method: profileMethod, authorities: []string{local(i)}},
		{service: fleet.Federated(name), method: profileMethod, authorities: []string{federated(i)}},
	}
}

// expect returns how many messages have come since the meter began. Other than so many end the run.
func (m *meter) expect(messages int) float64 {
	got := m.messages()
	if got != messages {
		check(fmt.Errorf("%d messages have come, not %d: they can't be matched with changes", got, messages))
	}
	if got == 0 {
		check(errors.New("no message has come"))
	}
	return float64(got)
}

// Crowd is so many proxies, each a connection of so many streams.
type Crowd struct{ Conns, Streams int }

// targets returns the streams of all proxies in the order of load.Config, of so many Services: half
// are Get and half GetProfile, of either half the Services are federated. Each proxy has other
// Services than the next one, and each of its streams another.
func (c Crowd) targets(services int) []load.Target {
	const apart = 251 // the Services of one proxy's streams
	list := make([]load.Target, c.Conns*c.Streams)
	for i := range list {
		conn, n := i%c.Conns, i/c.Conns
		list[i] = load.Target{
			Method:    getMethod,
			Token:     fleet.Token(conn),
			Authority: authorities(n%4 == 1 || n%4 == 2)((conn + apart*n) % services),
		}
		if n%2 == 1 {
			list[i].Method = profileMethod
		}
	}
	return list
}
