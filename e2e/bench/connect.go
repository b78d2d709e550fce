package bench

import (
	"errors"
	"fmt"
	"time"

	"isthmus/e2e/bench/load"
	"isthmus/e2e/bench/world"
)

// idle measures a server without streams.
func idle(s Scale) Trial {
	return Trial{
		Name: "idle", kinds: gatewayOnly, repeats: 1,
		Figures: []Figure{{Key: "rss", Label: "resident memory, no streams", Unit: "MB", Max: 100}},
		do: func(r *run) {
			at := r.start()
			r.pause(s.Settle)
			r.set("rss", megabytes(at.rss()))
		},
	}
}

// connect opens all streams of a family at once, ends them at once and opens them again.
func connect(s Scale, name string, f family) Trial {
	return Trial{
		Name: name, kinds: bothKinds, repeats: s.Repeats, families: []family{f},
		Figures: []Figure{
			{Key: "cpu", Label: "CPU to connect all", Unit: "s", MaxRatio: atFloor},
			{Key: "all", Label: "the last stream has its first message", Unit: "ms"},
			{Key: "memory", Label: "memory a stream", Unit: "kB", MaxRatio: atFloor},
			{Key: "reconnect", Label: "CPU to drop and reconnect all", Unit: "s", MaxRatio: atFloor},
		},
		do: func(r *run) {
			r.start().connectTwice(r.spread(f, f.count(s.World)), func(*load.Load) {})
		},
	}
}

// connectTwice opens all streams at once and lets something be done under them, ends them at once and opens them again.
func (s *server) connectTwice(cfg load.Config, do func(*load.Load)) {
	before := s.settled()
	streams, cpu := s.connect(cfg, nil)
	s.set("cpu", cpu.Seconds())
	s.set("memory", perStream(s.rss()-before, streams))
	s.set("bytes", float64(streams.Bytes())/float64(streams.Streams()))
	do(streams)
	_, cpu = s.connect(cfg, streams)
	s.set("reconnect", cpu.Seconds())
}

// connect ends the streams that there were, if any, and opens all, and returns what that cost.
func (s *server) connect(cfg load.Config, before *load.Load) (streams *load.Load, cpu time.Duration) {
	cpu = s.cost(func() {
		began := time.Now()
		if before != nil {
			check(before.Close())
		}
		streams = s.open(cfg)
		if before == nil {
			s.set("all", milliseconds(latest(streams).Sub(began)))
		}
	})
	return streams, cpu
}

// ProxiesScale is how proxies connect, and what is changed under them.
type ProxiesScale struct {
	Many, Busy Crowd
	Changed    int // Services that are changed, twice each: so that all is as it was
	Rate       int // changes a second
}

// proxies opens streams as proxies have them, changes some of their services, ends all streams at once and opens them again.
func proxies(s Scale, name string, crowd Crowd) Trial {
	return Trial{
		Name: name, kinds: bothKinds, repeats: s.Repeats, families: []family{appLocal, appFederated, profilesLocal, profilesFederated},
		Figures: []Figure{
			{Key: "cpu", Label: "CPU to connect all", Unit: "s", MaxRatio: asProxies},
			{Key: "all", Label: "the last stream has its first message", Unit: "ms"},
			{Key: "memory", Label: "memory a stream, with its share of the connection's", Unit: "kB"}, // a target: see fanOut
			{Key: "update", Label: "CPU a delivered update", Unit: "µs", MaxRatio: asProxies},
			{Key: "reconnect", Label: "CPU to drop and reconnect all", Unit: "s", MaxRatio: atFloor},
		},
		do: func(r *run) {
			at := r.start()
			at.connectTwice(load.Config{Conns: crowd.Conns, Targets: crowd.targets(s.World.App, world.App)}, func(streams *load.Load) {
				at.update(streams, s.Proxies)
			})
		},
	}
}

// update changes services under open streams: endpoints, which the federated Service has and the local one if the endpoint is
// local, and the profiles of both.
func (s *server) update(streams *load.Load, scale ProxiesScale) {
	var list []service
	for range 2 {
		for i := range scale.Changed {
			list = append(list, appFederated.of(i), profilesLocal.of(i), profilesFederated.of(i))
		}
	}
	m := s.meter(streams)
	s.changeAll(list, scale.Rate)
	s.settle(streams)
	cpu := m.spent()
	updates := m.expect(expected(streams, list))
	s.set("update", microseconds(cpu)/updates)
	s.set("update bytes", m.bytes()/updates)
}

// expected returns how many updates follow from changes.
func expected(streams *load.Load, list []service) (n int) {
	of := map[[2]string]int{}
	streams.Arrivals(func(t load.Target, _ []time.Time) { of[[2]string{t.Method, t.Authority}]++ })
	for _, s := range list {
		n += of[[2]string{s.method, s.authority}] + of[[2]string{s.method, s.also}]
	}
	return n
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

// proxy returns the streams of one proxy, of so many Services: half are Get and half GetProfile, of either half the
// Services are federated. Each proxy has other Services than the next one, and each of its streams another.
func (c Crowd) proxy(conn, services int, name func(int) string) (list []load.Target) {
	const apart = 251 // the Services of one proxy's streams
	for n := range c.Streams {
		t := load.Target{Method: getMethod, Token: world.Token(conn)}
		if n%2 == 1 {
			t.Method = profileMethod
		}
		service := name((conn + apart*n) % services)
		if n%4 == 1 || n%4 == 2 {
			service = world.Federated(service)
		}
		t.Authority = world.Authority(service)
		list = append(list, t)
	}
	return list
}

// targets returns the streams of all proxies in the order of load.Config.
func (c Crowd) targets(services int, name func(int) string) []load.Target {
	list := make([]load.Target, c.Conns*c.Streams)
	for conn := range c.Conns {
		for n, t := range c.proxy(conn, services, name) {
			list[conn+n*c.Conns] = t
		}
	}
	return list
}
