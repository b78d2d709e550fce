package gateway

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"isthmus/clusterstore/cluster"
	"isthmus/internal/pace"
)

// outside is what names are resolved to, and which addresses answer probes.
type outside struct {
	mu        sync.Mutex
	names     map[string][]string
	dead      map[string]bool      // by address, or address and port
	local     map[string]string    // what of the local cluster has an address
	synced    chan struct{}        // closed once local is known
	takes     time.Duration        // to resolve a name
	probes    map[string]int       // by address
	began     map[string]time.Time // the last probe, by address
	atOnce    map[string]int       // that are being probed, by address
	probeTake time.Duration
}

func (o *outside) resolve(ctx context.Context, name string) (list []netip.Addr, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	takes := o.takes
	o.mu.Unlock()
	select {
	case <-time.After(takes):
	case <-ctx.Done():
		err = ctx.Err()
	}
	o.mu.Lock()
	if err == nil && o.names[name] == nil {
		err = errors.New("no such host")
	}
	if err != nil {
		return nil, err
	}
	for _, text := range o.names[name] {
		list = append(list, netip.MustParseAddr(text))
	}
	return list, nil
}

func (o *outside) probe(ctx context.Context, ip netip.Addr, p cluster.Probe) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	a := ip.String()
	if o.atOnce[a]++; o.atOnce[a] > 1 {
		panic("two probes of one address at once")
	}
	if d := time.Since(o.began[a]); d < perHost {
		panic(fmt.Sprintf("two probes of one address within %v", d))
	}
	o.began[a] = time.Now()
	take := o.probeTake
	o.mu.Unlock()
	pace.Sleep(ctx, take)
	o.mu.Lock()
	o.atOnce[a]--
	o.probes[a]++
	if o.dead[a] || o.dead[netip.AddrPortFrom(ip, p.Port).String()] {
		return errors.New("connection refused")
	}
	return nil
}

func (o *outside) Synced() <-chan struct{} { return o.synced }

func (o *outside) AssignedTo(ip netip.Addr) string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.local[ip.String()]
}

func (o *outside) set(change func()) { o.mu.Lock(); change(); o.mu.Unlock() }

// tracked is a Tracker in a bubble.
type tracked struct {
	*Tracker
	t       *testing.T
	out     *outside
	changes int // calls of Changed, under out.mu
}

// track runs a test with a Tracker, and ends that.
func track(t *testing.T, f func(x *tracked)) {
	synctest.Test(t, func(t *testing.T) {
		out := &outside{
			names: make(map[string][]string), dead: make(map[string]bool), synced: make(chan struct{}),
			probes: make(map[string]int), began: make(map[string]time.Time), atOnce: make(map[string]int),
		}
		close(out.synced)
		x := &tracked{t: t, out: out}
		x.Tracker = New(Config{
			Changed: func() { out.set(func() { x.changes++ }) },
			Probed:  func(time.Duration) {},
			Resolve: out.resolve,
			Probe:   out.probe,
			Guard: &Guard{
				Routable:   cluster.Routable,
				Local:      out,
				Interfaces: func() ([]net.Addr, error) { return nil, nil },
			},
		})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); x.Run(ctx) }()
		f(x)
		cancel()
		<-done
	})
}

// pass lets time pass.
func (x *tracked) pass(d time.Duration) { time.Sleep(d); synctest.Wait() }

// has checks the addresses, with ! for dead ones, ? for those that are not known to be alive or dead,
// and = for those that the Guard refuses to probe.
func (x *tracked) has(want ...string) {
	x.t.Helper()
	synctest.Wait()
	var got []string
	for _, a := range x.Addresses() {
		mark := ""
		switch {
		case a.Dead:
			mark = "!"
		case a.Refused != "":
			mark = "="
		case a.Since.IsZero():
			mark = "?"
		}
		got = append(got, mark+a.Addr.String())
	}
	if !slices.Equal(got, want) {
		x.t.Errorf("%q, want %q", got, want)
	}
}

// changed checks how often Changed was called since the last call.
func (x *tracked) changed(want int) {
	x.t.Helper()
	synctest.Wait()
	x.out.set(func() {
		if x.changes != want {
			x.t.Errorf("%d changes, want %d", x.changes, want)
		}
		x.changes = 0
	})
}

// target is one that is probed every second.
func target(host string) Target {
	x := Target{
		Port:     4143,
		Identity: "gw.example",
		Probe:    cluster.Probe{Port: 4191, Path: "/ready", Period: time.Second},
	}
	if ip, err := netip.ParseAddr(host); err == nil {
		x.IP = ip
	} else {
		x.Name = host
	}
	return x
}

// TestDeadAfterThree: three failures in a row are needed to be dead, one success to be alive.
func TestDeadAfterThree(t *testing.T) {
	track(t, func(x *tracked) {
		dead := func(is bool) { x.out.set(func() { x.out.dead["192.0.2.1"] = is }) }
		x.pass(time.Millisecond)
		dead(true)
		x.Set([]Target{target("192.0.2.1")})
		x.has("?192.0.2.1:4143") // after one failure it is not known
		x.changed(1)
		if !isClosed(x.Settled()) {
			t.Error("it is not settled")
		}
		x.pass(time.Second)
		x.has("?192.0.2.1:4143")
		dead(false)
		x.pass(time.Second)
		x.has("192.0.2.1:4143")
		dead(true)
		x.pass(2 * time.Second)
		dead(false)
		x.pass(time.Second)
		dead(true)
		x.pass(2 * time.Second)
		x.has("192.0.2.1:4143") // no three in a row so far
		x.changed(0)
		x.pass(time.Second)
		x.has("!192.0.2.1:4143")
		x.changed(1)
		if a := x.Addresses()[0]; a.Failure != "connection refused" || a.Since != time.Now() {
			t.Errorf("dead since %v, not now; %q", a.Since, a.Failure)
		}
		x.pass(time.Minute)
		x.changed(0)
		dead(false)
		x.pass(time.Second)
		x.has("192.0.2.1:4143")
		x.changed(1)
	})
}

// TestProbeEdited: a gateway that is probed in another way is dead, or alive, until that way shows otherwise.
func TestProbeEdited(t *testing.T) {
	track(t, func(x *tracked) {
		x.out.dead["192.0.2.1"] = true
		first, second := target("192.0.2.1"), target("192.0.2.2")
		x.Set([]Target{first, second})
		x.pass(3 * time.Second)
		x.has("!192.0.2.1:4143", "192.0.2.2:4143")
		x.changed(2)
		edit := func(path string) {
			first.Probe.Path, second.Probe.Path = path, path
			x.Set([]Target{first, second})
		}
		edit("/live")
		x.has("!192.0.2.1:4143", "192.0.2.2:4143")
		x.out.set(func() { x.out.dead["192.0.2.2"] = true })
		x.pass(time.Second)
		edit("/elsewhere")
		x.pass(1500 * time.Millisecond) // the second failure in a row
		x.has("!192.0.2.1:4143", "192.0.2.2:4143")
		x.changed(0)
		x.pass(time.Second)
		x.has("!192.0.2.1:4143", "!192.0.2.2:4143")
		third := first
		third.Port, third.Probe.Port = 4144, 4192 // another gateway at an address of a dead one
		x.Set([]Target{first, second, third})
		x.has("!192.0.2.1:4143", "!192.0.2.2:4143", "?192.0.2.1:4144")
		edit("/ready") // as which it has been probed before
		x.has("!192.0.2.1:4143", "192.0.2.2:4143")
		x.out.set(func() { clear(x.out.dead) })
		x.pass(time.Second)
		x.has("192.0.2.1:4143", "192.0.2.2:4143")
	})
}

// TestProbesGoOn: however often what is probed of one IP changes, and whatever other IPs come and go, the others'
// probes take their time.
func TestProbesGoOn(t *testing.T) {
	track(t, func(x *tracked) {
		x.out.dead["192.0.2.1"], x.out.probeTake = true, probeTake
		first, second := target("192.0.2.1"), target("192.0.2.2")
		for i := range 20 {
			second.Probe.Path = fmt.Sprint("/", i)
			x.Set([]Target{first, second, target(fmt.Sprint("192.0.2.", 10+i))})
			x.pass(time.Second)
		}
		if a := x.Addresses()[0]; !a.Dead {
			t.Errorf("%+v is not dead", a)
		}
	})
}

// TestHostsTakeTurns: each port and path of an address has a turn, and a health of its own, also when it
// comes back.
func TestHostsTakeTurns(t *testing.T) {
	track(t, func(x *tracked) {
		var targets []Target
		for i := range uint16(3) {
			one := target("192.0.2.1")
			one.Port += i
			one.Probe.Port += i
			targets = append(targets, one)
		}
		rare := target("192.0.2.1")
		rare.Port, rare.Probe.Path, rare.Probe.Period = 1, "/rare", time.Minute
		targets = append(targets, rare)
		x.out.dead["192.0.2.1:4192"] = true
		x.Set(targets)
		x.pass(10 * time.Second)
		x.has("192.0.2.1:4143", "!192.0.2.1:4144", "192.0.2.1:4145", "192.0.2.1:1")
		x.out.set(func() {
			if n := x.out.probes["192.0.2.1"]; n != 10 && n != 11 { // one begins now
				t.Errorf("%d probes in 10 s", n)
			}
		})
		x.Set(targets[2:])
		x.pass(time.Second)
		x.Set(targets)
		x.has("192.0.2.1:4143", "!192.0.2.1:4144", "192.0.2.1:4145", "192.0.2.1:1")
	})
}

// TestTrackerBounded: many names with many addresses come to few that are used and probed.
func TestTrackerBounded(t *testing.T) {
	track(t, func(x *tracked) {
		var targets []Target
		for i := range 300 {
			name := fmt.Sprintf("n%d.example", i)
			for k := range 200 {
				x.out.names[name] = append(x.out.names[name], fmt.Sprintf("198.51.%d.%d", i%16, k))
			}
			targets = append(targets, target(name))
		}
		x.Set(targets)
		x.pass(time.Minute)
		if n := len(x.Addresses()); n != MostAddresses {
			t.Errorf("%d addresses", n)
		}
		x.out.set(func() {
			if n := len(x.out.probes); n != MostAddresses {
				t.Errorf("%d are probed", n)
			}
		})
		if got := x.Problems(); !slices.Equal(got, []string{
			"addresses of Linkerd gateways that are not used, since they are more than 16: 3468",
		}) {
			t.Errorf("%q", got)
		}
		x.mu.Lock()
		defer x.mu.Unlock()
		if len(x.resolved) != MostAddresses {
			t.Errorf("%d names are resolved", len(x.resolved))
		}
	})
}

// TestTargets: a gateway without port or identity leads nowhere.
func TestTargets(t *testing.T) {
	g := func(port uint16, identity string) *cluster.Gateway {
		return &cluster.Gateway{
			Port:     port,
			Identity: identity,
			IPs:      []netip.Addr{netip.MustParseAddr("192.0.2.1")},
			Names:    []string{"lb.example"},
		}
	}
	list := Targets([]*cluster.Gateway{g(0, "gw.example"), g(1, ""), g(2, "gw.example")})
	if got := fmt.Sprint(list); len(list) != 2 || strings.Contains(got, " 1 ") || list[0].IP != g(0, "").IPs[0] ||
		list[1].Name != "lb.example" || list[1].Port != 2 || list[1].Identity != "gw.example" {
		t.Errorf("%s", got)
	}
}
