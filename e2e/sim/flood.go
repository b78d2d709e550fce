package sim

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"

	"isthmus/e2e/gateway"
	"isthmus/e2e/poll"
	"isthmus/e2e/proxy"
	"isthmus/e2e/pulse"
)

// Flood is how long one cluster's changes take to reach a client while another cluster is quiet, and while it is not.
type Flood struct {
	Rate        int // of the other cluster's changes, a second
	Churned     int // of them, made meanwhile
	Watchers    int // clients that see those
	Quiet, Amid []time.Duration
}

// Ratio compares what 99 of 100 changes take at most.
func (f Flood) Ratio() float64 {
	return float64(percentile(f.Amid, 99)) / float64(percentile(f.Quiet, 99))
}

func (f Flood) String() string {
	line := func(list []time.Duration) string {
		return fmt.Sprintf("p50 %v, p99 %v", percentile(list, 50).Round(10*time.Microsecond), percentile(list, 99).Round(10*time.Microsecond))
	}
	return fmt.Sprintf("a change of one cluster reaches a client\n  while another cluster is quiet:  %s\n"+
		"  amid %d changes of that a second: %s (%.1f times p99)\n%d changes each; %d of the other cluster, seen by %d clients",
		line(f.Quiet), f.Rate, line(f.Amid), f.Ratio(), len(f.Quiet), f.Churned, f.Watchers)
}

// percentile returns what so many percent of the list are at most; it is not empty.
func percentile(list []time.Duration, percent int) time.Duration {
	sorted := slices.Sorted(slices.Values(list))
	return sorted[min(len(sorted)-1, len(sorted)*percent/100)]
}

const (
	floodServices  = 20
	floodEndpoints = 50
	// floodGap is the time between two changes: longer than the gateway pauses after each message.
	floodGap = 100 * time.Millisecond
	// floodLimit is how long a change may take before something must be wrong.
	floodLimit = 30 * time.Second
)

// MeasureFlood makes so many changes twice, the second time amid changes of another cluster, of so many a second. Each
// cluster has services of its own, and clients for every one.
func MeasureFlood(ctx context.Context, cfg Config, changes, rate int) (f Flood, err error) {
	cfg.Clusters, cfg.Services, cfg.Endpoints, cfg.Clients = 3, floodServices, 0, 0
	w, err := newWorld(cfg)
	if err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, w.close()) }()
	w.fillFlood()
	g, err := w.startGateway(ctx, "-log-level=info")
	if err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, g.Stop()) }()
	cs, err := w.watchFlood(ctx, g)
	if err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, cs.stop()) }()

	var beating pulse.Pulse
	life, still := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer still()
	running.Go(func() { beating.Run(life) })
	f = Flood{Rate: rate, Watchers: len(cs.all) - 1}
	if f.Quiet, err = w.timeChanges(ctx, &beating, cs.all[0], changes); err != nil {
		return f, err
	}
	churning, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() {
		var err error
		f.Churned, err = w.churn(churning, rate)
		ended <- err
	}()
	amid, err := w.timeChanges(ctx, &beating, cs.all[0], changes)
	stop()
	err = errors.Join(err, <-ended)
	f.Amid = amid
	return f, err
}

// fillFlood gives the first service to the second cluster and all others to the third, each with a mirror.
func (w *world) fillFlood() {
	for _, c := range w.clusters[1:] {
		w.relink(c)
	}
	for i, s := range w.services {
		c := w.clusters[min(i+1, 2)]
		w.put(c, s, newService(s))
		for n := range floodEndpoints {
			c.made++
			pod := newPod(fmt.Sprintf("%s-%d", s, n), s, look{meshed: true})
			slice := w.roomySlice(c, s)
			slice.Endpoints = append(slice.Endpoints, newEndpoint(fmt.Sprintf("10.%d.%d.%d", c.number, c.made/256, c.made%256), pod.Name, ""))
			w.put(c, s, pod, slice)
		}
		w.put(w.clusters[0], s, mirror(s, c))
	}
}

// watchFlood subscribes to every mirror and returns when all is there.
func (w *world) watchFlood(ctx context.Context, g *gateway.Gateway) (*clients, error) {
	conn, err := proxy.Dial(g.Addr())
	if err != nil {
		return nil, err
	}
	cs := &clients{links: []*connection{{addr: g.Addr(), now: conn}}}
	for i, s := range w.services {
		c := newClient(cs.links[0], proxy.Get, mirrorName(s, w.clusters[min(i+1, 2)]), "", "")
		cs.all = append(cs.all, c)
		if err := c.stream.Open(ctx); err != nil {
			return nil, errors.Join(err, cs.stop())
		}
		if err := c.await(ctx, func(s *proxy.GetState) bool { return s.Len() == floodEndpoints }); err != nil {
			return nil, errors.Join(err, cs.stop())
		}
	}
	return cs, nil
}

// await returns once the client's state satisfies a condition.
func (c *client) await(ctx context.Context, holds func(*proxy.GetState) bool) error {
	var ended error
	err := c.stream.Until(ctx, floodLimit, func() error {
		now := c.stream.Snapshot()
		if holds(now.Get) {
			return nil
		}
		if now.Phase != proxy.Open {
			ended = fmt.Errorf("%s: the stream has ended: %w", c.service, now.Err)
			return nil
		}
		return fmt.Errorf("%s: %d endpoints, which are not those awaited", c.service, now.Get.Len())
	})
	return errors.Join(err, ended)
}

// timeChanges takes an endpoint of the second cluster away and brings it back, again and again, and returns how long it was
// until the client knew, without the pauses of this process.
func (w *world) timeChanges(ctx context.Context, p *pulse.Pulse, c *client, n int) (took []time.Duration, err error) {
	of := w.clusters[1]
	slice := of.slicesOf(w.services[0])[0].DeepCopy()
	addr := netip.AddrPortFrom(netip.MustParseAddr(slice.Endpoints[0].Addresses[0]), 8080)
	for i := range n {
		ready := i%2 == 1
		slice.Endpoints[0].Conditions.Ready = &ready
		began := time.Now()
		if err := of.api.Put(slice); err != nil {
			return nil, err
		}
		if err := c.await(ctx, func(s *proxy.GetState) bool { return s.Has(addr) == ready }); err != nil {
			return nil, err
		}
		took = append(took, p.Between(began, time.Now()))
		if err := poll.Pause(ctx, floodGap); err != nil {
			return nil, err
		}
	}
	return took, nil
}

// churn changes the readiness of endpoints of the third cluster, so often a second, until ctx ends.
func (w *world) churn(ctx context.Context, rate int) (n int, err error) {
	c := w.clusters[2]
	var all []*discoveryv1.EndpointSlice
	for _, s := range w.services[1:] {
		for _, l := range c.slicesOf(s) {
			all = append(all, l.DeepCopy())
		}
	}
	began := time.Now()
	for ctx.Err() == nil {
		for ; n < int(time.Since(began).Seconds()*float64(rate)); n++ {
			l := all[n%len(all)]
			ready := &l.Endpoints[n/len(all)%len(l.Endpoints)].Conditions.Ready
			*ready = new(!**ready)
			if err := c.api.Put(l); err != nil {
				return n, err
			}
		}
		if err := poll.Pause(ctx, time.Millisecond); err != nil {
			break // ctx has ended
		}
	}
	return n, nil
}
