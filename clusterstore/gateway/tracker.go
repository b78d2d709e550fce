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
	resolveEvery   = 30 * time.Second
	resolveSoon    = 5 * time.Second // while a name has not been resolved yet
	resolveTimeout = 5 * time.Second // timeout for all names together

	// The Tracker remembers the health of addresses that are no longer in use, because a name may
	// soon resolve to the same addresses again.
	rememberFor   = 10 * time.Minute
	maxRemembered = 64 // unused probes
)

// Config configures a Tracker.
type Config struct {
	// Changed is called when the addresses in use change, or when a gateway in use becomes dead or
	// alive. Changed must not block.
	Changed func()
	Probed  func(took time.Duration) // called after each probe

	Resolve func(ctx context.Context, name string) ([]netip.Addr, error)          // nil means the host's resolver
	Probe   func(ctx context.Context, addr netip.Addr, probe cluster.Probe) error // nil means an HTTP request

	Filter   *AddressFilter // decides which addresses are used and probed
	IPv4Only bool           // clients do not receive IPv6 addresses
}

// Tracker tracks the gateways of one cluster.
type Tracker struct {
	cfg     Config
	targets federation.Latest[*[]Target] // nil until Set is called
	settled chan struct{}

	stopProbes map[netip.Addr]func() // by IP; each function waits until the probes have ended; only Run uses the map

	mu        sync.Mutex
	resolved  map[string]resolved // by name
	list      []Address
	left      int                        // number of addresses beyond MaxAddresses
	periods   map[probeKey]time.Duration // of the current probes; not modified
	probed    map[probeKey]*probed
	refused   map[netip.Addr]string // why the filter refused to probe an IP; empty if it did not
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

// Set replaces the targets of the Tracker. Set does not block.
func (t *Tracker) Set(targets []Target) { t.targets.Set(&targets) }

// Settled returns a channel that is closed after the first attempt to resolve the names of the
// targets. When the Tracker closes the channel, it also calls Config.Changed.
func (t *Tracker) Settled() <-chan struct{} { return t.settled }

// Addresses returns the addresses of the gateways, in the order of the targets. Callers must not
// modify the result.
func (t *Tracker) Addresses() []Address {
	list, _ := t.published.Get()
	return list
}

// Run resolves and probes the targets until ctx is done. After Run has returned, Addresses still
// returns the last list.
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

// The follow method resolves the names of the targets and starts the probes. The returned channel
// receives a value when the names must be resolved again.
func (t *Tracker) follow(ctx context.Context, targets []Target) (again <-chan time.Time) {
	t.use(ctx, targets) // known names need not wait for unknown ones
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

// isClosed reports whether c has been closed. No goroutine may send values on c.
func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// The use method updates the list of addresses and starts the probes of new addresses. Existing
// probes continue, unless any probe for the same IP has changed.
func (t *Tracker) use(ctx context.Context, targets []Target) {
	list, left := t.addresses(targets)
	if len(list) == 0 && len(targets) > 0 { // no name has been resolved yet: keep the previous addresses
		list = slices.Clone(t.list)
		left = t.left
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
	t.list = list
	t.left = left
	t.periods = periods
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

// The addresses method returns up to MaxAddresses known addresses of the targets, without
// duplicates. The second result is the number of addresses omitted because of MaxAddresses.
func (t *Tracker) addresses(targets []Target) (list []Address, left int) {
	seen := make(map[netip.AddrPort]bool)
	names := namesOf(targets)
	for _, x := range targets {
		ips := []netip.Addr{x.IP}
		switch {
		case x.IP.IsValid():
		case !slices.Contains(names, x.Name):
			left++ // counts as one address, because the name is not resolved
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
			if len(list) == MaxAddresses {
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

// The publish method updates the result of Addresses. The caller holds t.mu.
func (t *Tracker) publish() {
	list := slices.Clone(t.list)
	for i := range list {
		a := &list[i]
		refused := t.refused[a.Addr.Addr()]
		key := keyOf(a.Addr.Addr(), a.Probe)
		switch p := t.probed[key]; {
		case t.periods[key] == 0:
		case refused != "":
			a.Refused = refused
		default:
			a.Dead = p.failures >= deadAfter
			a.Since = p.since
			a.Failure = p.failure
		}
	}
	before, _ := t.published.Get()
	t.published.Set(list)
	if !sameUse(before, list) && isClosed(t.settled) {
		t.cfg.Changed()
	}
}

// Problems returns messages for users about names that cannot be resolved, and about addresses that
// are not used because of MaxAddresses.
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
			"%d addresses of Linkerd gateways are not used, because Isthmus uses at most %d per cluster",
			t.left, MaxAddresses,
		))
	}
	return list
}

// namesOf returns the names to resolve, which are the first MaxAddresses names among the targets.
func namesOf(targets []Target) (names []string) {
	for _, x := range targets {
		if !x.IP.IsValid() && !slices.Contains(names, x.Name) && len(names) < MaxAddresses {
			names = append(names, x.Name)
		}
	}
	return names
}

// resolve resolves the given names concurrently, and forgets all other names. The result is true if
// every given name has addresses, either from this attempt or from an earlier one.
func (t *Tracker) resolve(ctx context.Context, names []string) (known bool) {
	ctx, cancel := context.WithTimeout(ctx, resolveTimeout)
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

// lookUp resolves a name. The result omits addresses that cannot belong to another host, such as
// loopback addresses.
func (t *Tracker) lookUp(ctx context.Context, name string) ([]netip.Addr, error) {
	ips, err := t.cfg.Resolve(ctx, name)
	if err != nil {
		return nil, err
	}
	var list []netip.Addr
	for _, ip := range ips {
		if ip = ip.Unmap(); ip.Zone() == "" && t.cfg.Filter.Routable(ip) {
			list = append(list, ip)
		}
	}
	if len(list) == 0 {
		return nil, errors.New("all of its addresses are loopback, link-local, multicast or reserved addresses")
	}
	slices.SortFunc(list, netip.Addr.Compare)
	return slices.Compact(list), nil
}

type resolved struct {
	ips     []netip.Addr // sorted; of the last successful attempt
	failure error        // of the last attempt
}

// The remember method creates state for new probes, and drops the state of probes that have not
// been used for a long time. If the probe of a gateway has changed, the new probe starts with the
// result of the old probe. The caller holds t.mu.
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
	for _, key := range left[min(len(left), maxRemembered):] {
		delete(t.probed, key)
	}
}

// If an address was in the previous list, healthOf returns its last known health.
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

// hostsOf returns the IPs whose probes or probe periods differ between the two maps.
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

// startProbes starts probing an IP. Only one combination of port and path is probed at a time. To
// stop the probes, call stopProbes[ip].
func (t *Tracker) startProbes(ctx context.Context, ip netip.Addr) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	t.stopProbes[ip] = func() { cancel(); <-done }
	go func() { defer close(done); t.probeHost(ctx, ip) }()
}

func (t *Tracker) probeHost(ctx context.Context, ip netip.Addr) {
	for {
		key, at := t.next(ip)
		if !pace.Sleep(ctx, time.Until(at)) {
			return
		}
		t.turn(ctx, key)
	}
}

func (t *Tracker) next(ip netip.Addr) (key probeKey, at time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var last time.Time // includes probes that are no longer needed
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

func (t *Tracker) turn(ctx context.Context, key probeKey) {
	t.mu.Lock()
	p := t.probed[key]
	p.began = time.Now()
	t.mu.Unlock()
	refused := t.cfg.Filter.refusal(ctx, key.ip)
	err := error(nil)
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

// The excluded method reports whether an IP lies outside the ranges of the newest targets. Run may
// not have processed the newest targets yet, because it may still be resolving names.
func (t *Tracker) excluded(ip netip.Addr) bool {
	targets, _ := t.targets.Get()
	return len(*targets) > 0 && (*targets)[0].excludes(ip) // all targets of a link have the same ranges
}

func (t *Tracker) probe(ctx context.Context, ip netip.Addr, probe cluster.Probe) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	began := time.Now()
	defer func() { t.cfg.Probed(time.Since(began)) }()
	return t.cfg.Probe(ctx, ip, probe)
}
