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

	"go.uber.org/goleak"

	"isthmus/clusterstore/cluster"
	"isthmus/federation"
	"isthmus/internal/pace"
)

// outside holds the results of name resolution and probes.
type outside struct {
	mu           sync.Mutex
	names        map[string][]string
	dead         map[string]bool      // by address, or address and port
	local        map[string]string    // the object of the local cluster at each address
	synced       chan struct{}        // closed when local is complete
	takes        time.Duration        // time to resolve a name
	probes       map[string]int       // by address
	began        map[string]time.Time // the last probe, by address
	atOnce       map[string]int       // current probes, by address
	probeTimeout time.Duration
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
	take := o.probeTimeout
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

// tracked is a Tracker in a synctest bubble.
type tracked struct {
	*Tracker
	t       *testing.T
	out     *outside
	changes int // calls of Changed, under out.mu
}

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
			Filter: &AddressFilter{
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

func (x *tracked) pass(d time.Duration) { time.Sleep(d); synctest.Wait() }

// has checks the addresses. A dead address has the prefix "!", one of unknown health "?", and one
// that the filter rejects "=".
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

// changed checks the number of calls of Changed since the previous check.
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

// target returns a Target that is probed every second.
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

// TestDeadAfterThree checks that three failures in a row make a gateway dead, and one success makes
// it alive.
func TestDeadAfterThree(t *testing.T) {
	track(t, func(x *tracked) {
		dead := func(is bool) { x.out.set(func() { x.out.dead["192.0.2.1"] = is }) }
		x.pass(time.Millisecond)
		dead(true)
		x.Set([]Target{target("192.0.2.1")})
		x.has("?192.0.2.1:4143") // after one failure it is not known
		x.changed(1)
		if !isClosed(x.Settled()) {
			t.Error("the Tracker is not settled")
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

// TestProbeEdited checks that a gateway whose probe changes keeps its health until the new probe
// says otherwise.
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

// TestProbesGoOn checks that changes of probes and of IPs do not delay other probes.
func TestProbesGoOn(t *testing.T) {
	track(t, func(x *tracked) {
		x.out.dead["192.0.2.1"], x.out.probeTimeout = true, probeTimeout
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

// TestHostsTakeTurns checks that the ports and paths of an IP are probed in turn. Each has its own
// health, even after it was removed and added again.
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

// TestTrackerBounded checks that only a few of many names and addresses are used and probed.
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
		if n := len(x.Addresses()); n != MaxAddresses {
			t.Errorf("%d addresses", n)
		}
		x.out.set(func() {
			if n := len(x.out.probes); n != MaxAddresses {
				t.Errorf("%d addresses are probed", n)
			}
		})
		if got := x.Problems(); !slices.Equal(got, []string{
			"3468 addresses of Linkerd gateways are not used, because Isthmus uses at most 16 per cluster",
		}) {
			t.Errorf("%q", got)
		}
		x.mu.Lock()
		defer x.mu.Unlock()
		if len(x.resolved) != MaxAddresses {
			t.Errorf("%d names are resolved", len(x.resolved))
		}
	})
}

// TestTargets checks that a gateway without port or identity has no target.
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

// TestNames checks that names are resolved every 30 s, and that the last result stays in use.
func TestNames(t *testing.T) {
	track(t, func(x *tracked) {
		resolve := func(name string, to ...string) { x.out.set(func() { x.out.names[name] = to }) }
		resolve("lb.example", "192.0.2.2", "192.0.2.1", "::ffff:192.0.2.1", "127.0.0.1", "fe80::1%eth0")
		x.Set([]Target{target("192.0.2.9"), target("lb.example"), target("lb.example")})
		x.has("192.0.2.9:4143", "192.0.2.1:4143", "192.0.2.2:4143")
		x.out.set(func() { x.out.dead["192.0.2.1"] = true })
		x.pass(3 * time.Second)
		resolve("lb.example", "192.0.2.1", "192.0.2.3")
		x.pass(26 * time.Second)
		x.has("192.0.2.9:4143", "!192.0.2.1:4143", "192.0.2.2:4143")
		x.pass(time.Second)
		x.has("192.0.2.9:4143", "!192.0.2.1:4143", "192.0.2.3:4143") // still dead
		x.out.set(func() { delete(x.out.names, "lb.example") })
		x.pass(30 * time.Second)
		x.has("192.0.2.9:4143", "!192.0.2.1:4143", "192.0.2.3:4143")
		if got := x.Problems(); !slices.Equal(got, []string{"Linkerd gateway lb.example: no such host"}) {
			t.Errorf("%q", got)
		}
		x.Set([]Target{target("192.0.2.9")})
		x.has("192.0.2.9:4143")
		if got := x.Problems(); got != nil {
			t.Errorf("%q", got)
		}
		x.Set(nil)
		x.has()
	})
}

// TestNamesComeBack checks that an address keeps its health if its name resolves to it again soon.
func TestNamesComeBack(t *testing.T) {
	track(t, func(x *tracked) {
		resolve := func(to ...string) { x.out.set(func() { x.out.names["lb.example"] = to }) }
		resolve("192.0.2.1", "192.0.2.2")
		x.out.dead["192.0.2.1"] = true
		x.Set([]Target{target("lb.example")})
		x.pass(3*time.Second + time.Millisecond) // after one second of probes
		x.has("!192.0.2.1:4143", "192.0.2.2:4143")
		dead := x.Addresses()[0]
		x.out.set(func() { x.out.probeTimeout = time.Second }) // no new probe is finished
		resolve("192.0.2.3")
		x.pass(resolveEvery)
		resolve("192.0.2.1", "192.0.2.2")
		x.pass(resolveEvery - 4*time.Second)
		x.has("192.0.2.3:4143")
		x.pass(time.Second)
		x.has("!192.0.2.1:4143", "192.0.2.2:4143")
		if a := x.Addresses()[0]; a != dead {
			t.Errorf("%+v, want %+v", a, dead)
		}
		resolve("192.0.2.3")
		x.pass(rememberFor + resolveEvery)
		resolve("192.0.2.1", "192.0.2.2")
		x.pass(resolveEvery)
		x.has("?192.0.2.1:4143", "?192.0.2.2:4143")
	})
}

// TestRememberedBounded checks that the number of unused addresses with cached health is bounded.
func TestRememberedBounded(t *testing.T) {
	track(t, func(x *tracked) {
		for i := range 20 {
			var targets []Target
			for k := range MaxAddresses {
				targets = append(targets, target(fmt.Sprintf("198.51.%d.%d", i, k)))
			}
			x.Set(targets)
			x.pass(2 * time.Second)
		}
		x.mu.Lock()
		newest := x.probed[keyOf(netip.MustParseAddr("198.51.18.0"), target("").Probe)] != nil
		if n := len(x.probed); n != maxRemembered+MaxAddresses || !newest {
			t.Errorf("%d addresses are cached, including those in use; of the newest unused ones: %v", n, newest)
		}
		x.mu.Unlock()
		x.pass(rememberFor)
		x.Set(nil)
		x.pass(time.Second)
		x.mu.Lock()
		defer x.mu.Unlock()
		if n := len(x.probed); n != MaxAddresses {
			t.Errorf("%d addresses are cached; the newest %d were just removed", n, MaxAddresses)
		}
	})
}

// TestNamesUnknown checks that a name that has never been resolved is retried sooner.
func TestNamesUnknown(t *testing.T) {
	track(t, func(x *tracked) {
		x.Set([]Target{target("lb.example"), target("192.0.2.9")})
		x.has("192.0.2.9:4143")
		x.out.set(func() { x.out.names["lb.example"] = []string{"192.0.2.1"} })
		x.pass(resolveSoon)
		x.has("192.0.2.1:4143", "192.0.2.9:4143")
		x.out.set(func() { x.out.names["lb.example"] = []string{"192.0.2.2"} })
		x.pass(resolveEvery - time.Second)
		x.has("192.0.2.1:4143", "192.0.2.9:4143")
		x.out.set(func() { delete(x.out.names, "lb.example") })
		x.pass(time.Second)
		x.out.set(func() { x.out.names["lb.example"] = []string{"192.0.2.2"} })
		x.pass(resolveEvery - time.Second)
		x.has("192.0.2.1:4143", "192.0.2.9:4143") // what it was is known
		x.pass(time.Second)
		x.has("192.0.2.2:4143", "192.0.2.9:4143")
	})
}

// TestRangesOfUnresolvedNames checks that old addresses are neither used nor probed outside the
// link's new ranges. The old addresses stay in use because the names cannot be resolved again.
func TestRangesOfUnresolvedNames(t *testing.T) {
	track(t, func(x *tracked) {
		x.out.names["lb.example"] = []string{"192.0.2.1", "198.51.100.1"}
		x.Set([]Target{target("lb.example")})
		x.has("192.0.2.1:4143", "198.51.100.1:4143")

		ranges := federation.NewRanges(netip.MustParsePrefix("192.0.2.0/24"))
		unknown := target("unknown.example")
		unknown.Within = &ranges
		x.Set([]Target{unknown})
		x.has("192.0.2.1:4143", "?198.51.100.1:4143")
		if list := x.Addresses(); list[0].Outside || !list[1].Outside {
			t.Errorf("%+v", list)
		}

		x.out.set(func() { clear(x.out.probes) })
		x.pass(time.Minute)
		x.out.set(func() {
			if x.out.probes["192.0.2.1"] == 0 || x.out.probes["198.51.100.1"] > 0 {
				t.Errorf("probes: %v", x.out.probes)
			}
		})
	})
}

// TestRangesWhileResolving checks that new ranges apply to probes at once, even while names are
// being resolved.
func TestRangesWhileResolving(t *testing.T) {
	track(t, func(x *tracked) {
		x.out.names["lb.example"] = []string{"198.51.100.1"}
		x.Set([]Target{target("lb.example")})
		x.has("198.51.100.1:4143")

		x.out.set(func() { x.out.takes = resolveTimeout - time.Second })
		x.pass(resolveEvery + time.Millisecond)
		ranges := federation.NewRanges(netip.MustParsePrefix("192.0.2.0/24"))
		within := target("lb.example")
		within.Within = &ranges
		x.Set([]Target{within})
		x.out.set(func() { clear(x.out.probes) })
		x.pass(resolveTimeout)
		x.has("?198.51.100.1:4143")
		x.out.set(func() {
			if len(x.out.probes) > 0 {
				t.Errorf("probes: %v", x.out.probes)
			}
		})
	})
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
