package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"isthmus/e2e/bench/load"
	"isthmus/e2e/bench/proc"
	"isthmus/e2e/bench/world"
)

// ProxiesScale is how proxies connect, and what is changed under them.
type ProxiesScale struct {
	Many, Busy Crowd
	Changed    int // Services that are changed, twice each: so that all is as it was
	Rate       int // changes a second
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

// meshed opens streams as proxies have them, changes some of their services, ends all streams at once and opens them again.
func meshed(of func(ProxiesScale) Crowd) func(context.Context, *Lab, subject) (Sample, error) {
	return func(ctx context.Context, l *Lab, at subject) (_ Sample, err error) {
		crowd := of(l.cfg.Scale.Proxies)
		cfg := load.Config{Addr: at.Addr(), Conns: crowd.Conns, Targets: crowd.targets(l.cfg.Scale.World.App, world.App)}
		open := func() (*load.Load, error) { return load.Open(ctx, cfg) }
		before, err := proc.Settled(ctx, at.Pid(), l.cfg.Scale.Settle)
		if err != nil {
			return nil, err
		}
		first, err := reopen(ctx, at, open, nil)
		if err != nil {
			return nil, err
		}
		sample, err := l.update(ctx, at, first, before)
		if err != nil {
			return nil, errors.Join(err, first.streams.Close())
		}
		again, err := reopen(ctx, at, open, first.streams)
		if err != nil {
			return nil, err
		}
		sample["reconnect"], sample["again"] = again.cpu.Seconds(), milliseconds(again.took)
		return sample, again.streams.Close()
	}
}

// update changes services under open streams, and returns what the streams and the updates have cost.
func (l *Lab) update(ctx context.Context, at subject, o opened, before proc.Memory) (Sample, error) {
	held, err := proc.ReadMemory(at.Pid())
	if err != nil {
		return nil, err
	}
	list := l.edits()
	m, err := startMeter(at.Pid(), o.streams)
	if err != nil {
		return nil, err
	}
	if _, err := changes(ctx, at, list, l.cfg.Scale.Proxies.Rate); err != nil {
		return nil, err
	}
	took := time.Since(m.began)
	if err := settle(ctx, o.streams); err != nil {
		return nil, err
	}
	cpu, err := m.cpu()
	if err != nil {
		return nil, err
	}
	updates := m.messages()
	if want := expected(o.streams, list); updates != want {
		return nil, fmt.Errorf("%d updates for %d changes, not %d", updates, len(list), want)
	}
	return Sample{
		"cpu": o.cpu.Seconds(), "all": milliseconds(o.took), "memory": perStream(before, held, o.streams),
		"update": microseconds(cpu) / float64(updates), "rate": float64(len(list)) / took.Seconds(),
		"bytes": float64(m.beforeBytes) / float64(o.streams.Streams()), "update bytes": m.bytes() / float64(updates),
	}, nil
}

// edits are the changes: of endpoints, which the federated Service has and the local one if the endpoint is local, and of
// the profiles of both.
func (l *Lab) edits() (list []service) {
	for range 2 {
		for i := range l.cfg.Scale.Proxies.Changed {
			for _, f := range []family{appFederated, profilesLocal, profilesFederated} {
				list = append(list, f.of(i))
			}
		}
	}
	return list
}

// expected returns how many updates follow from changes.
func expected(streams *load.Load, list []service) (n int) {
	type topic struct{ method, authority string }
	of := map[topic]int{}
	streams.Arrivals(func(t load.Target, _ []time.Time) { of[topic{t.Method, t.Authority}]++ })
	for _, s := range list {
		n += of[topic{s.method, s.authority}]
		if s.also != "" {
			n += of[topic{s.method, s.also}]
		}
	}
	return n
}
