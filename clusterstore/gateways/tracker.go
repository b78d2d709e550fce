package gateways

import (
	"context"
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

	rememberFor    = 10 * time.Minute // what is known of an address that has gone: names may have others each time
	mostRemembered = 64               // addresses
)

// Config configures a Tracker.
type Config struct {
	// Changed is called when Addresses has another list of addresses to use, or gateways in
	// it have died or come to life. It must not block.
	Changed func()
	// Probed is called after each probe. nil: it is not.
	Probed func(took time.Duration)

	Resolve  func(ctx context.Context, name string) ([]netip.Addr, error)          // nil: by the host's resolver
	Probe    func(ctx context.Context, addr netip.Addr, probe cluster.Probe) error // nil: an HTTP request
	Routable func(netip.Addr) bool                                                 // of what names are resolved to; nil: cluster.Routable
	IPv4Only bool                                                                  // clients get no IPv6 addresses
}

// Tracker follows the gateways of one cluster.
type Tracker struct {
	cfg     Config
	targets federation.Latest[*[]Target] // nil: not set yet
	settled chan struct{}

	mu        sync.Mutex
	resolved  map[string]resolved // by name
	list      []Address
	left      int // how many addresses are not in it, since it has MostAddresses
	probers   map[probed]*prober
	gone      map[netip.Addr]gone // addresses that are probed no more
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
	if cfg.Routable == nil {
		cfg.Routable = cluster.Routable
	}
	if cfg.Probed == nil {
		cfg.Probed = func(time.Duration) {}
	}
	return &Tracker{cfg: cfg, settled: make(chan struct{}), resolved: make(map[string]resolved), probers: make(map[probed]*prober), gone: make(map[netip.Addr]gone)}
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
	var probers sync.WaitGroup
	defer probers.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for ctx.Err() == nil {
		var again <-chan time.Time
		targets, newer := t.targets.Get()
		if targets != nil {
			again = t.follow(ctx, &probers, *targets)
		}
		select {
		case <-ctx.Done():
		case <-newer:
		case <-again:
		}
	}
}

// follow follows up targets, and returns when names are to be resolved again.
func (t *Tracker) follow(ctx context.Context, probers *sync.WaitGroup, targets []Target) (again <-chan time.Time) {
	t.use(ctx, probers, targets) // names that are known need not wait for those that are not
	names := namesOf(targets)
	known := t.resolve(ctx, names)
	if len(names) > 0 {
		t.use(ctx, probers, targets)
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

// use makes the list of addresses, and probes those that are to be.
func (t *Tracker) use(ctx context.Context, running *sync.WaitGroup, targets []Target) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if list, left := t.addresses(targets); len(list) > 0 || len(targets) == 0 {
		t.list, t.left = list, left // otherwise names that are new can't be resolved (yet): those before stay
	}
	needed := make(map[probed]bool)
	for _, a := range t.list {
		if a.usable() && a.Probe != (cluster.Probe{}) {
			needed[probed{a.Addr.Addr(), a.Probe}] = true
		}
	}
	for key, p := range t.probers {
		if !needed[key] {
			p.cancel()
			delete(t.probers, key)
			t.remember(key.ip, p)
		}
	}
	for key := range needed {
		if t.probers[key] == nil {
			t.startProber(ctx, running, key)
		}
	}
	for key := range needed {
		delete(t.gone, key.ip)
	}
	t.publish()
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
				Outside: x.Within != nil && !x.Within.Contains(ip), IPv6Off: t.cfg.IPv4Only && ip.Is6(),
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
		if p := t.probers[probed{a.Addr.Addr(), a.Probe}]; p != nil {
			a.Dead, a.Since, a.Failure = p.failures >= deadAfter, p.since, p.failure
		}
	}
	before, _ := t.published.Get()
	t.published.Set(list)
	if !sameUse(before, list) && isClosed(t.settled) {
		t.cfg.Changed()
	}
}
