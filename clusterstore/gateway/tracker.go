package gateway

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"isthmus/clusterstore/cluster"
	"isthmus/federation"
	"isthmus/internal/pace"
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

// Problems returns, for people, which names can't be resolved, and why, and how many addresses
// are not used.
func (t *Tracker) Problems() (list []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for name, r := range t.resolved {
		if r.failure != nil {
			list = append(list, "Linkerd gateway "+name+": "+r.failure.Error())
		}
	}
	slices.Sort(list)
	if t.left > 0 {
		list = append(list, fmt.Sprintf(
			"addresses of Linkerd gateways that are not used, since they are more than %d: %d", MostAddresses, t.left,
		))
	}
	return list
}

// namesOf returns the names among targets that are resolved: the first ones.
func namesOf(targets []Target) (names []string) {
	for _, x := range targets {
		if !x.IP.IsValid() && !slices.Contains(names, x.Name) && len(names) < MostAddresses {
			names = append(names, x.Name)
		}
	}
	return names
}

// resolve resolves names, all at once, and forgets all others. It reports whether each is
// known, by this time or one before.
func (t *Tracker) resolve(ctx context.Context, names []string) (known bool) {
	ctx, cancel := context.WithTimeout(ctx, resolveTake)
	defer cancel()
	found := make([]resolved, len(names))
	var all sync.WaitGroup
	for i, name := range names {
		all.Go(func() { found[i].ips, found[i].failure = t.lookUp(ctx, name) })
	}
	all.Wait()
	t.mu.Lock()
	defer t.mu.Unlock()
	before := t.resolved
	t.resolved = make(map[string]resolved, len(names))
	known = true
	for i, name := range names {
		if found[i].failure != nil {
			found[i].ips = before[name].ips
		}
		known = known && len(found[i].ips) > 0
		t.resolved[name] = found[i]
	}
	return known
}

// lookUp resolves a name, to addresses that could be another host's.
func (t *Tracker) lookUp(ctx context.Context, name string) ([]netip.Addr, error) {
	ips, err := t.cfg.Resolve(ctx, name)
	if err != nil {
		return nil, err
	}
	var list []netip.Addr
	for _, ip := range ips {
		if ip = ip.Unmap(); ip.Zone() == "" && t.cfg.Guard.Routable(ip) {
			list = append(list, ip)
		}
	}
	if len(list) == 0 {
		return nil, errors.New("it has no address that could be another host's")
	}
	slices.SortFunc(list, netip.Addr.Compare)
	return slices.Compact(list), nil
}

// resolved is what a name stands for.
type resolved struct {
	ips     []netip.Addr // sorted; when it was resolved last
	failure error        // of the last try
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

// probe probes once.
func (t *Tracker) probe(ctx context.Context, ip netip.Addr, probe cluster.Probe) error {
	ctx, cancel := context.WithTimeout(ctx, probeTake)
	defer cancel()
	began := time.Now()
	defer func() { t.cfg.Probed(time.Since(began)) }()
	return t.cfg.Probe(ctx, ip, probe)
}
