package mcgateway

import (
	"context"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"

	"isthmus/clusterstore/cluster"
)

// perHost is how far apart the probes of one IP begin at least.
const perHost = time.Second

// probeKey is what is probed. Gateways that have it in common share its health.
type probeKey struct {
	ip   netip.Addr
	port uint16
	path string
}

// health is what is known by probing.
type health struct {
	failures int // in a row
	failure  string
	since    time.Time // of being alive or dead; zero: not known yet
}

// probed is the state of a probeKey. It is remembered for some time after it is needed no more: a
// name may have other addresses each time. All under Tracker.mu.
type probed struct {
	health
	period time.Duration // 0: it is not needed now
	began  time.Time     // when it was probed last; zero: never
	left   time.Time     // since when it is not needed
}

// host is an IP that is probed, by one goroutine: the probes of its ports and paths take turns.
// All under Tracker.mu.
type host struct {
	own   string             // what of the own cluster or host has it: it is not probed; empty: nothing
	stop  context.CancelFunc // ends what its goroutine does now; it looks then what is needed
	again chan struct{}      // closed when something else is needed
}

func keyOf(ip netip.Addr, p cluster.Probe) probeKey { return probeKey{ip, p.Port, p.Path} }

// useProbes makes what the list needs be probed, and nothing else. A gateway that is probed in another
// way than in the list before is as dead, or alive, as it was, until that way shows otherwise. t.mu is
// held.
func (t *Tracker) useProbes(ctx context.Context, running *sync.WaitGroup, before, list []Address) {
	periods, first := make(map[probeKey]time.Duration), make(map[probeKey]netip.AddrPort)
	for _, a := range list {
		if a.usable() && a.Probe != (cluster.Probe{}) {
			key := keyOf(a.Addr.Addr(), a.Probe)
			period := max(a.Probe.Period, perHost)
			if !first[key].IsValid() {
				first[key], periods[key] = a.Addr, period
			}
			periods[key] = min(periods[key], period)
		}
	}
	now := time.Now()
	t.forgetOld(now)
	for key, period := range periods {
		if t.probed[key] == nil {
			t.probed[key] = &probed{health: t.healthOf(before, first[key])}
		}
		t.probed[key].period = period
	}
	for key, p := range t.probed {
		if p.period > 0 && periods[key] == 0 {
			p.period, p.left = 0, now
		}
	}
	t.forgetMany()
	for ip, h := range t.hosts {
		close(h.again)
		h.again = make(chan struct{})
		if !t.needed(ip) {
			h.stop()
		}
	}
	for key := range periods {
		if t.hosts[key.ip] == nil {
			t.hosts[key.ip] = &host{again: make(chan struct{}), stop: func() {}}
			running.Go(func() { t.runHost(ctx, key.ip) })
		}
	}
}

// healthOf returns what is known of an address in the list before. The zero health means nothing.
func (t *Tracker) healthOf(before []Address, addr netip.AddrPort) health {
	i := slices.IndexFunc(before, func(a Address) bool { return a.Addr == addr })
	if i < 0 {
		return health{}
	}
	if p := t.probed[keyOf(addr.Addr(), before[i].Probe)]; p != nil {
		return p.health
	}
	return health{}
}

// forgetOld forgets what has not been needed for long. t.mu is held.
func (t *Tracker) forgetOld(now time.Time) {
	maps.DeleteFunc(t.probed, func(_ probeKey, p *probed) bool { return p.period == 0 && now.Sub(p.left) > rememberFor })
}

// forgetMany leaves mostRemembered of those that are not needed: the last ones that were. t.mu is held.
func (t *Tracker) forgetMany() {
	var left []probeKey
	for key, p := range t.probed {
		if p.period == 0 {
			left = append(left, key)
		}
	}
	if len(left) <= mostRemembered {
		return
	}
	slices.SortFunc(left, func(a, b probeKey) int { return t.probed[b].left.Compare(t.probed[a].left) })
	for _, key := range left[mostRemembered:] {
		delete(t.probed, key)
	}
}

// needed reports whether an IP is to be probed. t.mu is held.
func (t *Tracker) needed(ip netip.Addr) bool {
	for key, p := range t.probed {
		if key.ip == ip && p.period > 0 {
			return true
		}
	}
	return false
}

// next returns which probe of an IP is due first, and when; nil: none is needed. t.mu is held.
func (t *Tracker) next(ip netip.Addr) (key probeKey, p *probed, at time.Time) {
	var last time.Time // a probe that is no longer needed counts too
	for k, x := range t.probed {
		if k.ip != ip {
			continue
		}
		if x.began.After(last) {
			last = x.began
		}
		if due := x.began.Add(x.period); x.period > 0 && (p == nil || due.Before(at)) {
			key, p, at = k, x, due
		}
	}
	if turn := last.Add(perHost); at.Before(turn) {
		at = turn
	}
	return key, p, at
}

// runHost probes an IP for as long as it is needed.
func (t *Tracker) runHost(ctx context.Context, ip netip.Addr) {
	for {
		t.mu.Lock()
		h := t.hosts[ip]
		key, p, at := t.next(ip)
		if p == nil || ctx.Err() != nil {
			delete(t.hosts, ip)
			t.mu.Unlock()
			return
		}
		wait, again := time.Until(at), h.again
		if wait <= 0 {
			p.began = time.Now()
		}
		now, stop := context.WithCancel(ctx)
		h.stop = stop
		t.mu.Unlock()
		if wait > 0 {
			await(now, wait, again)
		} else {
			t.turn(now, h, key, p)
		}
		stop()
	}
}

// await returns after some time, when ctx ends, or when again is closed.
func await(ctx context.Context, d time.Duration, again <-chan struct{}) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-again:
	case <-ctx.Done():
	}
}

// turn probes once, unless the own cluster or host has the address, and notes what comes of it.
func (t *Tracker) turn(ctx context.Context, h *host, key probeKey, p *probed) {
	own, err := t.cfg.Own(ctx, key.ip), error(nil)
	if own == "" && ctx.Err() == nil {
		err = t.probe(ctx, key.ip, cluster.Probe{Port: key.port, Path: key.path})
	}
	if ctx.Err() != nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if h.own = own; own == "" {
		p.note(err)
	}
	t.publish()
}

// note notes a probe's result.
func (p *health) note(err error) {
	dead := p.failures >= deadAfter
	if err == nil {
		p.failures, p.failure = 0, ""
	} else {
		p.failures, p.failure = min(p.failures+1, deadAfter), err.Error()
	}
	if now := p.failures >= deadAfter; p.since.IsZero() && (now || err == nil) || now != dead {
		p.since = time.Now()
	}
}
