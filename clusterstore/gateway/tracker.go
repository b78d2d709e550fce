package gateway

import (
	"context"
	"maps"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"isthmus/clusterstore/cluster"
	"isthmus/federation"
)

const (
	resolveEvery = 30 * time.Second
	resolveSoon  = 5 * time.Second // while there are names that have not been resolved yet
	resolveTake  = 5 * time.Second // for all names together

	// what is known by a probe that is not needed now: names may have other addresses each time
	rememberFor    = 10 * time.Minute
	mostRemembered = 64 // such probes
)

// Config configures a Tracker.
type Config struct {
	// Changed is called when Addresses has another list of addresses to use, or gateways in
	// it have died or come to life. It must not block.
	Changed func()
	Probed  func(took time.Duration) // is called after each probe

	Resolve func(ctx context.Context, name string) ([]netip.Addr, error)          // nil: by the host's resolver
	Probe   func(ctx context.Context, addr netip.Addr, probe cluster.Probe) error // nil: an HTTP request

	Guard    *Guard // which addresses are used and probed
	IPv4Only bool   // clients get no IPv6 addresses
}

// Tracker follows the gateways of one cluster.
type Tracker struct {
	cfg     Config
	targets federation.Latest[*[]Target] // nil: not set yet
	settled chan struct{}

	stopProbes map[netip.Addr]func() // of Run, by IP; waits until they have ended

	mu        sync.Mutex
	resolved  map[string]resolved // by name
	list      []Address
	left      int                        // how many addresses are not in it, since it has MostAddresses
	periods   map[probeKey]time.Duration // of what is probed now; not written to
	probed    map[probeKey]*probed
	refused   map[netip.Addr]string // why the Guard refused to probe an IP, empty if it did not
	published federation.Latest[[]Address]
}

// New returns a Tracker without targets.
func New(cfg Config) *Tracker {
	if cfg.Resolve == nil {
		cfg.Resolve = func(ctx context.Context, name string) ([]netip.Addr, error) {
			return net.DefaultResolver.LookupNetIP(ctx, "ip", name)
		}
	}
	if cfg.Probe == nil {
		cfg.Probe = get
	}
	return &Tracker{
		cfg: cfg, settled: make(chan struct{}), stopProbes: make(map[netip.Addr]func()),
		resolved: make(map[string]resolved), probed: make(map[probeKey]*probed), refused: make(map[netip.Addr]string),
	}
}

// Set sets what leads to the cluster. It does not block.
func (t *Tracker) Set(targets []Target) { t.targets.Set(&targets) }

// Settled returns a channel that is closed once the first targets have been followed up:
// names have been resolved, or can't be. Config.Changed is called then too.
func (t *Tracker) Settled() <-chan struct{} { return t.settled }

// Addresses returns the gateways' addresses, in the order of the targets. The list is not
// written to.
func (t *Tracker) Addresses() []Address {
	list, _ := t.published.Get()
	return list
}

// Run follows the targets until ctx ends. What was known last stays readable.
func (t *Tracker) Run(ctx context.Context) {
	defer func() {
		for _, stop := range t.stopProbes {
			stop()
		}
	}()
	for ctx.Err() == nil {
		var again <-chan time.Time
		targets, newer := t.targets.Get()
		if targets != nil {
			again = t.follow(ctx, *targets)
		}
		select {
		case <-ctx.Done():
		case <-newer:
		case <-again:
		}
	}
}

// follow follows up targets, and returns when names are to be resolved again.
func (t *Tracker) follow(ctx context.Context, targets []Target) (again <-chan time.Time) {
	t.use(ctx, targets) // names that are known need not wait for those that are not
	names := namesOf(targets)
	known := t.resolve(ctx, names)
	if len(names) > 0 {
		t.use(ctx, targets)
		again = time.After(resolveEvery)
	}
	if !known {
		again = time.After(resolveSoon)
	}
	if !isClosed(t.settled) {
		close(t.settled)
		t.cfg.Changed()
	}
	return again
}

// isClosed reports whether a channel that is never sent on is closed.
func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// use makes the list of addresses, and probes those that are to be. Where an IP is probed in another way than before,
// its probes begin anew; those of others go on.
func (t *Tracker) use(ctx context.Context, targets []Target) {
	list, left := t.addresses(targets)
	if len(list) == 0 && len(targets) > 0 { // names that are new can't be resolved (yet): those before stay
		list, left = slices.Clone(t.list), t.left
		for i := range list { // all targets of a link have the same ranges, which may be new
			list[i].Outside = targets[0].excludes(list[i].Addr.Addr())
		}
	}
	periods := periodsOf(list)
	changed := hostsOf(t.periods, periods)
	for ip := range changed {
		if stop := t.stopProbes[ip]; stop != nil {
			stop()
			delete(t.stopProbes, ip)
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	before := t.list
	t.list, t.left, t.periods = list, left, periods
	t.remember(before)
	maps.DeleteFunc(t.refused, func(ip netip.Addr, _ string) bool {
		return !slices.ContainsFunc(list, func(a Address) bool { return a.Addr.Addr() == ip })
	})
	t.publish()
	for key := range periods {
		if changed[key.ip] && t.stopProbes[key.ip] == nil {
			t.startProbes(ctx, key.ip)
		}
	}
}

// addresses returns the targets' addresses as far as they are known, each once, and how many
// are left out, since they are too many.
func (t *Tracker) addresses(targets []Target) (list []Address, left int) {
	seen, names := make(map[netip.AddrPort]bool), namesOf(targets)
	for _, x := range targets {
		ips := []netip.Addr{x.IP}
		switch {
		case x.IP.IsValid():
		case !slices.Contains(names, x.Name):
			left++ // as one address: it is not resolved
			continue
		default:
			ips = t.resolved[x.Name].ips
		}
		for _, ip := range ips {
			addr := netip.AddrPortFrom(ip, x.Port)
			if seen[addr] {
				continue
			}
			seen[addr] = true
			if len(list) == MostAddresses {
				left++
				continue
			}
			list = append(list, Address{
				Addr: addr, Identity: x.Identity, Name: x.Name, Probe: x.Probe,
				Outside: x.excludes(ip), IPv6Off: t.cfg.IPv4Only && ip.Is6(),
			})
		}
	}
	return list, left
}

// publish publishes the list with what probes have found. t.mu is held.
func (t *Tracker) publish() {
	list := slices.Clone(t.list)
	for i := range list {
		a := &list[i]
		refused, key := t.refused[a.Addr.Addr()], keyOf(a.Addr.Addr(), a.Probe)
		switch p := t.probed[key]; {
		case t.periods[key] == 0:
		case refused != "":
			a.Refused = refused
		default:
			a.Dead, a.Since, a.Failure = p.failures >= deadAfter, p.since, p.failure
		}
	}
	before, _ := t.published.Get()
	t.published.Set(list)
	if !sameUse(before, list) && isClosed(t.settled) {
		t.cfg.Changed()
	}
}
