package gateway

import (
	"context"
	"maps"
	"net/netip"
	"slices"
	"time"

	"isthmus/clusterstore/cluster"
	"isthmus/internal/pace"
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
	began time.Time // when it was probed last; zero: never
	left  time.Time // since when it is not needed; zero: it is
}

func keyOf(ip netip.Addr, p cluster.Probe) probeKey { return probeKey{ip, p.Port, p.Path} }

// periodsOf returns what is to be probed of a list, and how often.
func periodsOf(list []Address) map[probeKey]time.Duration {
	periods := make(map[probeKey]time.Duration)
	for _, a := range list {
		if !a.usable() || a.Probe == (cluster.Probe{}) {
			continue
		}
		key, period := keyOf(a.Addr.Addr(), a.Probe), max(a.Probe.Period, perHost)
		if other, ok := periods[key]; ok {
			period = min(period, other)
		}
		periods[key] = period
	}
	return periods
}

// remember makes what the list needs known, and forgets what was needed long ago. A gateway that is probed in
// another way than in the list before is as dead, or alive, as it was, until that way shows otherwise. t.mu is held.
func (t *Tracker) remember(before []Address) {
	now := time.Now()
	maps.DeleteFunc(t.probed, func(_ probeKey, p *probed) bool {
		return !p.left.IsZero() && now.Sub(p.left) > rememberFor
	})
	for _, a := range t.list {
		key := keyOf(a.Addr.Addr(), a.Probe)
		if t.periods[key] > 0 && t.probed[key] == nil {
			t.probed[key] = &probed{health: t.healthOf(before, a.Addr)}
		}
	}
	var left []probeKey
	for key, p := range t.probed {
		if t.periods[key] > 0 {
			p.left = time.Time{}
			continue
		}
		if p.left.IsZero() {
			p.left = now
		}
		left = append(left, key)
	}
	slices.SortFunc(left, func(a, b probeKey) int { return t.probed[b].left.Compare(t.probed[a].left) })
	for _, key := range left[min(len(left), mostRemembered):] {
		delete(t.probed, key)
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

// hostsOf returns the IPs of which other things are to be probed than before, or at another pace.
func hostsOf(before, now map[probeKey]time.Duration) map[netip.Addr]bool {
	ips := make(map[netip.Addr]bool)
	for _, periods := range []map[probeKey]time.Duration{before, now} {
		for key := range periods {
			if before[key] != now[key] {
				ips[key.ip] = true
			}
		}
	}
	return ips
}

// startProbes probes an IP until stopProbes[ip] is called: its ports and paths take turns.
func (t *Tracker) startProbes(ctx context.Context, ip netip.Addr) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	t.stopProbes[ip] = func() { cancel(); <-done }
	go func() { defer close(done); t.probeHost(ctx, ip) }()
}

// probeHost probes an IP until ctx ends.
func (t *Tracker) probeHost(ctx context.Context, ip netip.Addr) {
	for {
		key, at := t.next(ip)
		if !pace.Sleep(ctx, time.Until(at)) {
			return
		}
		t.turn(ctx, key)
	}
}

// next returns which probe of an IP is due first, and when.
func (t *Tracker) next(ip netip.Addr) (key probeKey, at time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var last time.Time // a probe that is no longer needed counts too
	for k, p := range t.probed {
		if k.ip != ip {
			continue
		}
		if p.began.After(last) {
			last = p.began
		}
		if due := p.began.Add(t.periods[k]); p.left.IsZero() && (!key.ip.IsValid() || due.Before(at)) {
			key, at = k, due
		}
	}
	if turn := last.Add(perHost); at.Before(turn) {
		at = turn
	}
	return key, at
}

// turn probes once, unless the guard refuses the address, and notes the result.
func (t *Tracker) turn(ctx context.Context, key probeKey) {
	t.mu.Lock()
	p := t.probed[key]
	p.began = time.Now()
	t.mu.Unlock()
	refused, err := t.cfg.Guard.refusal(ctx, key.ip), error(nil)
	if t.excluded(key.ip) {
		return
	}
	if refused == "" && ctx.Err() == nil {
		err = t.probe(ctx, key.ip, cluster.Probe{Port: key.port, Path: key.path})
	}
	if ctx.Err() != nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.refused[key.ip] = refused; refused == "" {
		p.note(err)
	}
	t.publish()
}

// excluded reports whether an IP lies outside the ranges of the newest targets. While names are being resolved, Run has
// not taken up these targets yet.
func (t *Tracker) excluded(ip netip.Addr) bool {
	targets, _ := t.targets.Get()
	return len(*targets) > 0 && (*targets)[0].excludes(ip) // all targets of a link have the same ranges
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
