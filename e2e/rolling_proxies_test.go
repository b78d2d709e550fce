package e2e

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"isthmus/e2e/object"
	"isthmus/e2e/proxy"
)

// audience is what some proxies ask for, and the clusters, by id, whose endpoints they must have.
type audience struct {
	name, service string
	kind          proxy.Kind
	clusters      []byte
}

var audiences = []audience{
	{"local", "web", proxy.Get, []byte{10}},
	{"federated", "web-federated", proxy.Get, []byte{10, 20}},
	{"steered", "web-steered", proxy.Get, []byte{10}},
	{"spilled", "web-spilled", proxy.Get, []byte{10, 20}},
	{"profile", "web", proxy.GetProfile, nil},
	{"federated profile", "web-federated", proxy.GetProfile, nil},
}

// lingers is how long after its endpoint has been deleted an application takes requests: so much of a grace most have. The
// short form runs beside other tests.
func lingers() time.Duration { return either(20*time.Second, 5*time.Second) }

// rollingProxy is a proxy that routes requests, and what it has seen.
type rollingProxy struct {
	*proxy.Subscriber
	audience
	world *rolling

	mu       sync.Mutex
	seen     map[int]time.Time // when it first saw a change
	newest   int               // of these
	had      []netip.AddrPort
	folded   int64 // number of the last message looked at
	stalest  time.Duration
	requests int
	wrong    []error // the first of what must not be
}

// startProxies runs proxies whose DNS caches are of all ages, until the test ends.
func (w *rolling) startProxies(t *testing.T, records *proxy.Records, ttl time.Duration, count int) (all []*rollingProxy) {
	t.Helper()
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	var running sync.WaitGroup
	t.Cleanup(func() {
		stop()
		running.Wait()
	})
	for i := range count {
		p := &rollingProxy{audience: audiences[i%len(audiences)], world: w, seen: map[int]time.Time{}, newest: -1}
		p.Subscriber = proxy.NewSubscriber(proxy.SubscriberConfig{
			Records: records, TTL: ttl, Age: ttl * time.Duration(i) / time.Duration(count), Kind: p.kind,
			Authority: object.Authority("shop", p.service), Token: `{"ns":"shop","nodeName":"` + rollingNodes[0] + `"}`, Pulse: &w.pulse,
		})
		all = append(all, p)
		running.Go(func() { p.Run(ctx) })
	}
	for _, p := range all {
		await(t, p.name+" proxy has its first message, with all endpoints", func() error { return p.settled(0) })
		p.Stream().Mark()
		running.Go(func() { p.watch(ctx) })
	}
	return all
}

// settled returns an error unless the proxy has a stream with a message and has seen a change, or a later one.
func (p *rollingProxy) settled(n int) error {
	snap := p.Stream().Snapshot()
	if snap.First == nil || snap.Phase != proxy.Open {
		return fmt.Errorf("it has no stream: %v", snap.Err)
	}
	if got := p.shown(snap); got < n {
		return fmt.Errorf("it shows change %d, not %d", got, n)
	}
	return nil
}

// shown returns the last change that a state shows whole; -1: none.
func (p *rollingProxy) shown(snap proxy.Snapshot) int {
	if p.kind == proxy.GetProfile {
		for _, r := range snap.Profile.Profile().GetRoutes() {
			if n, err := strconv.Atoi(r.GetMetricsLabels()["route"]); err == nil {
				return n
			}
		}
		return -1
	}
	latest := map[byte]int{}
	for _, a := range snap.Get.Addrs() {
		id, n := changeOf(a)
		latest[id] = max(latest[id], n+1)
	}
	whole := latest[p.clusters[0]]
	for _, id := range p.clusters {
		whole = min(whole, latest[id])
	}
	return whole - 1
}

// watch looks at all that the proxy gets, and routes a request now and then.
func (p *rollingProxy) watch(ctx context.Context) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		changed := p.Stream().Changed()
		p.look(p.Stream().Snapshot(), time.Now())
		select {
		case <-ctx.Done():
			return
		case <-changed:
		case <-tick.C:
			p.request(p.Stream().Snapshot())
		}
	}
}

// look notes which changes a state shows, and what must not be in it.
func (p *rollingProxy) look(snap proxy.Snapshot, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := p.shown(snap); n > p.newest {
		p.newest, p.seen[n] = n, now
	}
	if p.kind == proxy.GetProfile {
		return
	}
	addrs := snap.Get.Addrs()
	for _, a := range slices.Concat(p.had, addrs) {
		p.stalest = max(p.stalest, p.world.staleness(a, now))
	}
	p.had = addrs
	for _, m := range p.Stream().Recent() {
		if m.Number <= p.folded {
			continue
		}
		p.folded = m.Number
		for _, a := range m.Addrs {
			if id, _ := changeOf(a); !slices.Contains(p.clusters, id) {
				p.fault(fmt.Errorf("%v is of a cluster that it must have none of: %v", a, m))
			}
			if m.Kind == "add" {
				p.stalest = max(p.stalest, p.world.staleness(a, m.At))
			}
		}
	}
}

// request routes a request as the proxy would now. It fails if there is nowhere to route it, or nothing listens there.
func (p *rollingProxy) request(snap proxy.Snapshot) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.requests++
	if p.kind == proxy.GetProfile {
		if profile := snap.Profile.Profile(); profile.GetFullyQualifiedName() != object.FullName("shop", p.service) || len(profile.GetRoutes()) != 1 {
			p.fault(fmt.Errorf("a request has no route: %v", profile))
		}
		return
	}
	addrs := snap.Get.Addrs()
	if len(addrs) == 0 {
		p.fault(errors.New("a request fails: there is no endpoint"))
		return
	}
	a := addrs[rand.IntN(len(addrs))]
	if gone := p.world.staleness(a, time.Now()); gone > lingers() {
		p.fault(fmt.Errorf("a request fails: %v was deleted %v ago", a, gone))
	}
}

// fault notes what must not be. The caller holds mu.
func (p *rollingProxy) fault(err error) {
	if len(p.wrong) < 3 {
		p.wrong = append(p.wrong, err)
	}
}

// saw returns when the proxy first saw a change or a later one.
func (p *rollingProxy) saw(n, last int) (time.Time, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for ; n <= last; n++ {
		if at, ok := p.seen[n]; ok {
			return at, true
		}
	}
	return time.Time{}, false
}

// faults returns all that the proxy, or one like it, would hold against the gateways, which serve for some time.
func (p *rollingProxy) faults(serves func(addr string, at time.Time) bool) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	errs := p.wrong
	s := p.Stream()
	if f := s.Status().Faults; len(f) > 0 {
		errs = append(errs, fmt.Errorf("faults %q", f))
	}
	var stay []netip.AddrPort
	for _, id := range p.clusters {
		stay = append(stay, staying(id)...)
	}
	errs = append(errs, s.Flapped(stay...)) // of a profile: it was empty
	if few, m := s.Fewest(); p.kind == proxy.Get && few < len(stay)+len(p.clusters) {
		errs = append(errs, fmt.Errorf("it had %d endpoints, fewer than ever were there, after %v", few, m))
	}
	for _, o := range p.Openings() {
		if !o.Lost.IsZero() && status.Code(o.Why) != codes.Unavailable {
			errs = append(errs, fmt.Errorf("a stream ended with %v, which a proxy reports", o.Why))
		}
	}
	for _, r := range p.Refusals() {
		if !serves(r.Addr, r.At) && status.Code(r.Err) == codes.Unavailable {
			continue // it was just closing its listener: as if it had closed before
		}
		errs = append(errs, fmt.Errorf("a stream was refused by %s at %v: %w", r.Addr, r.At, r.Err))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("%s: %w", p.name, err)
	}
	return nil
}
