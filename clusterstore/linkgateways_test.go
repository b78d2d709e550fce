package clusterstore

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"

	"isthmus/clusterstore/cluster"
	"isthmus/clusterstore/gateways"
	"isthmus/federation"
)

const gatewayIdentity = "gw.multi.example"

// gateway is a gateway Service of a cluster.
func gateway(ips ...string) *cluster.Gateway {
	g := &cluster.Gateway{Service: federation.ServiceID{Namespace: "multi", Name: "gw"}, Port: 4143, Identity: gatewayIdentity}
	for _, ip := range ips {
		g.IPs = append(g.IPs, netip.MustParseAddr(ip))
	}
	return g
}

// probed is a gateway that is probed once a second.
func probed(g *cluster.Gateway) *cluster.Gateway {
	g.Probe = cluster.Probe{Port: 4191, Path: "/ready", Period: time.Second}
	return g
}

// reached checks what clients of web get.
func (e *env) reached(want ...string) {
	e.t.Helper()
	e.pass(cluster.RegionPause) // changes of a second are passed on together
	set, _ := e.watch.Get()
	var got []string
	for _, x := range set.Endpoints {
		text := x.Addr.String()
		if x.Authority != "" {
			text += " " + x.Identity.DNS + " " + x.Authority
		}
		got = append(got, text)
	}
	if !slices.Equal(got, want) {
		e.t.Errorf("clients get %q, not %q", got, want)
	}
}

// through is what clients get of a gateway.
func through(addr string) string {
	return addr + " " + gatewayIdentity + " web.shop.svc.cluster.test:80"
}

// neverEmpty fails if clients of web have nothing, until the test ends.
func (e *env) neverEmpty() (stop func()) {
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			set, newer := e.watch.Get()
			if len(set.Endpoints) == 0 {
				e.t.Error("clients have nothing")
			}
			select {
			case <-newer:
			case <-done:
				return
			}
		}
	}()
	return func() { close(done); <-ended }
}

// TestGateways: a cluster on another network offers its gateways. What is edited follows in
// one step.
func TestGateways(t *testing.T) {
	s := func(pairs ...string) *corev1.Secret { return with(secret("s", "east", "t1", 0), pairs...) }
	inBubble(t, func(e *env) {
		e.sync(1)
		e.reached("10.0.0.1:80")
		defer e.neverEmpty()()
		east := e.made[0]
		east.setGateways(gateway("192.0.2.1", "192.0.2.2"))
		e.reached("10.0.0.1:80")
		e.put(s("network", "far"))
		e.reached(through("192.0.2.1:4143"), through("192.0.2.2:4143"))
		east.setGateways(gateway("192.0.2.3"))
		e.reached(through("192.0.2.3:4143"))
		e.put(s("network", "far", "gateway-addresses", "198.51.100.1:443, [2001:db8::1]:444"))
		e.reached(through("198.51.100.1:443")) // the table has no IPv6
		e.put(s("network", "far", "gateway-addresses", "198.51.100.1:443", "gateway-identity", "other.example"))
		e.reached("198.51.100.1:443 other.example web.shop.svc.cluster.test:80")
		e.put(s("network", "far", "gateway-addresses", "198.51.100.1"))
		e.reached(through("192.0.2.3:4143"))
		e.status(`s east ready !annotation isthmus.io/gateway-addresses: "198.51.100.1" is no HOST:PORT; it counts as absent !gateways that are not probed…: 1`)
		e.put(s("network", "not a name"))
		e.reached(through("192.0.2.3:4143"))
		e.status(`s east ready !annotation isthmus.io/network: "not a name" can't be the name of a network…: 1`)
		e.put(s())
		e.reached("10.0.0.1:80")
		e.put(with(secret("s", "east", "t2", 0), "network", "far"))
		e.reached(through("192.0.2.3:4143"))
		e.last(2).setGateways(gateway("192.0.2.4"))
		e.sync(2)
		e.pass(cluster.RegionPause)
		e.reached(through("192.0.2.4:4143"))
	}, s())
}

// TestGatewaysMissing: a cluster on another network without gateway has nothing, and the
// status has the reason.
func TestGatewaysMissing(t *testing.T) {
	inBubble(t, func(e *env) {
		e.sync(1)
		e.reached()
		e.status(`s east ready !the cluster is on another network, and has no gateway:…`)
		for _, c := range []struct {
			g    *cluster.Gateway
			want string
		}{
			{&cluster.Gateway{Service: gateway().Service, Identity: "x"}, "it has no TCP port named mc-gateway"},
			{&cluster.Gateway{Service: gateway().Service, Port: 1}, "its annotation mirror.linkerd.io/gateway-identity is missing, or no name of an identity"},
			{gateway(), "it has no address:…"},
		} {
			e.made[0].setGateways(c.g)
			e.status("s east ready !gateway multi/gw: " + c.want)
		}
		e.made[0].setGateways(gateway("192.0.2.1"))
		e.reached(through("192.0.2.1:4143"))
		e.put(with(secret("s", "east", "t1", 0), "network", "far", "gateway-addresses", "east.example:1"))
		e.remove("s")
		e.reached()
	}, with(secret("s", "east", "t1", 0), "network", "far"))
}

// outside is what names are resolved to, and which addresses answer probes.
type outside struct {
	mu    sync.Mutex
	names map[string][]netip.Addr
	dead  map[string]bool

	probed []string // each once
}

// prepare makes a Store use it.
func (f *outside) prepare(s *Store) {
	s.lookUp = func(_ context.Context, name string) ([]netip.Addr, error) {
		f.mu.Lock()
		defer f.mu.Unlock()
		if ips := f.names[name]; ips != nil {
			return ips, nil
		}
		return nil, errors.New("no such host")
	}
	s.probe = func(_ context.Context, ip netip.Addr, _ cluster.Probe) error {
		f.mu.Lock()
		defer f.mu.Unlock()
		if !slices.Contains(f.probed, ip.String()) {
			f.probed = append(f.probed, ip.String())
		}
		if f.dead[ip.String()] {
			return errors.New("connection refused")
		}
		return nil
	}
}

// probedAddresses returns the addresses that have been probed.
func (f *outside) probedAddresses() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.probed)
}

// kill makes these addresses, and no others, dead.
func (f *outside) kill(ips ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.dead = make(map[string]bool)
	for _, ip := range ips {
		f.dead[ip] = true
	}
}

// resolve sets what a name is resolved to.
func (f *outside) resolve(name string, ips ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.names = map[string][]netip.Addr{}
	for _, ip := range ips {
		f.names[name] = append(f.names[name], netip.MustParseAddr(ip))
	}
}

// TestGatewaysDie: dead gateways leave while another of the service is left, of their cluster
// or another.
func TestGatewaysDie(t *testing.T) {
	inBubble(t, func(e *env) {
		f := new(outside)
		f.prepare(e.store)
		e.put(with(secret("s", "east", "t1", 0), "network", "far"))
		e.last(1).setGateways(probed(gateway("192.0.2.1", "192.0.2.2")))
		e.sync(1)
		defer e.neverEmpty()()
		both := []string{through("192.0.2.1:4143"), through("192.0.2.2:4143")}
		e.reached(both...)
		f.kill("192.0.2.1")
		e.pass(1500 * time.Millisecond)
		e.reached(both...)
		e.pass(3 * time.Second)
		e.reached(both[1])
		f.kill("192.0.2.1", "192.0.2.2")
		e.pass(4 * time.Second)
		e.reached(both...) // the last ones stay
		e.standing("s", "last-resort: none of its gateways answers")
		e.put(secret("n", "north", "t1", 0))
		e.sync(2)
		e.reached("10.0.0.2:80")
		f.kill("192.0.2.1")
		e.pass(3 * time.Second)
		e.reached("10.0.0.2:80", both[1])
		f.kill()
		e.pass(3 * time.Second)
		e.reached("10.0.0.2:80", both[0], both[1])
		e.standing("s", "in-service")
	})
}

// TestGatewaysOutsideRanges: gateways outside the link's address ranges are neither probed nor
// used, and do not keep a dead one within these from being the last that stays.
func TestGatewaysOutsideRanges(t *testing.T) {
	s := func(pairs ...string) *corev1.Secret {
		return with(secret("s", "east", "t1", 0), append(pairs, "network", "far")...)
	}
	inBubble(t, func(e *env) {
		f := new(outside)
		f.prepare(e.store)
		f.resolve("lb.example", "192.0.2.3")
		e.put(s("address-ranges", "192.0.2.1/32"))
		g := probed(gateway("192.0.2.1", "192.0.2.2"))
		g.Names = []string{"lb.example"}
		e.last(1).setGateways(g)
		e.sync(1)
		e.reached(through("192.0.2.1:4143"))
		e.pass(5 * time.Second)
		if got := f.probedAddresses(); !slices.Equal(got, []string{"192.0.2.1"}) {
			t.Errorf("probed are %q", got)
		}
		e.status("s east ready !gateways outside the address ranges of the link (annotation isthmus.io/address-ranges), which are not used: 2")
		f.kill("192.0.2.1")
		e.pass(5 * time.Second)
		e.reached(through("192.0.2.1:4143"))
		e.standing("s", "last-resort: none of its gateways answers")
		e.put(s("address-ranges", "192.0.2.0/24"))
		e.pass(5 * time.Second)
		e.reached(through("192.0.2.2:4143"), through("192.0.2.3:4143"))
		e.standing("s", "in-service")
	})
}

// TestGatewayNames: names are resolved every 30 s, and what they were resolved to last stays
// while that fails.
func TestGatewayNames(t *testing.T) {
	inBubble(t, func(e *env) {
		f := new(outside)
		f.resolve("lb.example", "192.0.2.1", "127.0.0.1", "::ffff:192.0.2.2")
		f.prepare(e.store)
		e.put(with(secret("s", "east", "t1", 0), "network", "far"))
		g := gateway()
		g.Names = []string{"lb.example"}
		e.last(1).setGateways(g)
		e.sync(1)
		e.reached(through("192.0.2.1:4143"), through("192.0.2.2:4143"))
		defer e.neverEmpty()()
		f.resolve("lb.example", "192.0.2.7")
		e.pass(31 * time.Second)
		e.reached(through("192.0.2.7:4143"))
		f.resolve("lb.example")
		e.pass(31 * time.Second)
		e.reached(through("192.0.2.7:4143"))
		e.status("s east ready !gateway lb.example: no such host !gateways that…")
		f.resolve("lb.example", "0.0.0.0")
		e.pass(31 * time.Second)
		e.reached(through("192.0.2.7:4143"))
		e.status("s east ready !gateway lb.example: it has no address that could be another host's !gateways that…")
		next := gateway()
		next.Names = []string{"new.example"} // not there yet
		e.made[0].setGateways(next)
		e.reached(through("192.0.2.7:4143"))
		f.resolve("new.example", "192.0.2.8")
		e.pass(31 * time.Second)
		e.reached(through("192.0.2.8:4143"))
	})
}

// TestGatewaysBounded: a cluster has few gateways at most.
func TestGatewaysBounded(t *testing.T) {
	inBubble(t, func(e *env) {
		g := gateway()
		for i := range 100 {
			g.IPs = append(g.IPs, netip.AddrFrom4([4]byte{192, 0, 2, byte(i)}))
		}
		e.made[0].setGateways(g)
		e.sync(1)
		if set, _ := e.watch.Get(); len(set.Endpoints) != gateways.MostAddresses {
			t.Errorf("%d are served", len(set.Endpoints))
		}
	}, with(secret("s", "east", "t1", 0), "network", "far"))
}

// FuzzGatewayAddresses: what is accepted can be connected to.
func FuzzGatewayAddresses(f *testing.F) {
	for _, text := range []string{"192.0.2.1:4143", "[2001:db8::1]:1,gw.example:2", "gw:0", ":1", "a:b:1", "fe80::1%eth0:1"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		list, err := readGatewayAddresses(text)
		if err != nil {
			if len(fmt.Sprint(err)) > 1000 {
				t.Errorf("an error of %d bytes", len(fmt.Sprint(err)))
			}
			return
		}
		for _, x := range list {
			if x.Port == 0 || len(list) > gateways.MostAddresses || x.IP.IsValid() == (x.Name != "") || x.Name != "" && !cluster.IsHostname(x.Name) {
				t.Errorf("%q: %+v", text, x)
			}
		}
	})
}

// TestGatewaysFirst: a cluster is served once its gateways are known, which are not asked for
// before the cluster is: clients do not get an answer without it.
func TestGatewaysFirst(t *testing.T) {
	inBubble(t, func(e *env) {
		f := new(outside)
		f.resolve("lb.example", "192.0.2.1")
		f.prepare(e.store)
		lookUp := e.store.lookUp
		e.store.lookUp = func(ctx context.Context, name string) ([]netip.Addr, error) {
			time.Sleep(3 * time.Second)
			return lookUp(ctx, name)
		}
		e.put(with(secret("s", "east", "t1", 0), "network", "far"))
		g := gateway()
		g.Names = []string{"lb.example"}
		e.last(1).setGateways(g)
		e.pass(10 * time.Second)
		e.status("s east pending")
		e.sync(1)
		if set, _ := e.watch.Get(); set.Complete {
			t.Error("clients have the whole set without the gateways")
		}
		e.pass(3 * time.Second)
		e.reached(through("192.0.2.1:4143"))
		e.status("s east ready !gateways that are not probed…")
	})
}

// TestGatewaysReported: what becomes of gateways is logged and reported once.
func TestGatewaysReported(t *testing.T) {
	inBubble(t, func(e *env) {
		f := new(outside)
		f.prepare(e.store)
		e.put(with(secret("s", "east", "t1", 0), "network", "far"))
		e.last(1).setGateways(probed(gateway("192.0.2.1", "192.0.2.2")))
		e.sync(1)
		e.reported("east 0 pending", "east 0 ready")
		f.kill("192.0.2.1")
		e.pass(time.Minute)
		e.reported("east 3 !gateway 192.0.2.1:4143 does not answer probes: connection refused")
		f.kill("192.0.2.1", "192.0.2.2")
		e.pass(time.Minute)
		e.reported("east 1 !last-resort: none of its gateways answers", "east 3 !gateway 192.0.2.2:4143 does not answer probes: connection refused")
		f.kill("192.0.2.2")
		e.pass(time.Minute)
		e.reported("east 1 in-service: not cordoned, and its API is followed", "east 3 gateway 192.0.2.1:4143 answers probes again")
		e.put(secret("s", "east", "t1", 0))
		e.pass(time.Minute)
		e.reported()
		if n := e.logs.FilterMessage("gateway does not answer probes").Len(); n != 2 {
			t.Errorf("%d lines for gateways that have died", n)
		}
		if n := e.logs.FilterMessage("gateway answers probes again").Len(); n != 1 {
			t.Errorf("%d lines for gateways that are back", n)
		}
	})
}

// TestGatewaysNotRoutable: what a link Secret names could be another host's, too.
func TestGatewaysNotRoutable(t *testing.T) {
	inBubble(t, func(e *env) {
		e.sync(1)
		e.reached("192.0.2.1:2 gw.example web.shop.svc.cluster.test:80")
		e.status("s east ready !annotation isthmus.io/gateway-addresses: 127.0.0.1 could not be another host's address, and is not used !gateways that…")
	}, with(secret("s", "east", "t1", 0), "network", "far", "gateway-addresses", "127.0.0.1:1,192.0.2.1:2", "gateway-identity", "gw.example"))
}

// TestGatewayMetrics: there are series of gateways while there are gateways that are probed.
func TestGatewayMetrics(t *testing.T) {
	inBubble(t, func(e *env) {
		registry := prometheus.NewRegistry()
		if err := registerStore(e.store, registry); err != nil {
			t.Fatal(err)
		}
		has := func(want ...string) {
			t.Helper()
			var got []string
			families, err := registry.Gather()
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range families {
				for _, m := range f.GetMetric() {
					switch f.GetName() {
					case "isthmus_gateway_alive":
						got = append(got, fmt.Sprint(m.GetLabel()[0].GetValue(), " ", m.GetLabel()[1].GetValue(), " ", m.GetGauge().GetValue()))
					case "isthmus_gateway_probe_seconds":
						got = append(got, fmt.Sprint(m.GetLabel()[0].GetValue(), " ", m.GetHistogram().GetSampleCount() > 0))
					}
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("%q, want %q", got, want)
			}
		}
		f := new(outside)
		f.prepare(e.store)
		e.put(secret("s", "east", "t1", 0))
		e.last(1).setGateways(probed(gateway("192.0.2.1", "192.0.2.2")))
		e.sync(1)
		has()
		f.kill("192.0.2.1")
		e.put(with(secret("s", "east", "t1", 0), "network", "far"))
		has("192.0.2.2:4143 east 1", "east true") // the other has failed once
		e.pass(3 * time.Second)
		has("192.0.2.1:4143 east 0", "192.0.2.2:4143 east 1", "east true")
		e.put(secret("s", "east", "t1", 0))
		has()
		e.put(with(secret("s", "east", "t1", 0), "network", "far"))
		has("192.0.2.2:4143 east 1", "east true")
		e.remove("s")
		has()
	})
}
