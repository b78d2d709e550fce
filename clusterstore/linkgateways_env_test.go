package clusterstore

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"sync"
	"time"

	"isthmus/clusterstore/cluster"
	"isthmus/federation"
	"isthmus/internal/pace"
)

const gatewayIdentity = "gw.multi.example"

// gatewayService is a gateway Service of a cluster.
func gatewayService(ips ...string) *cluster.Gateway {
	g := &cluster.Gateway{Service: federation.ServiceID{Namespace: "multi", Name: "gw"}, Port: 4143, Identity: gatewayIdentity}
	for _, ip := range ips {
		g.IPs = append(g.IPs, netip.MustParseAddr(ip))
	}
	return g
}

// named is a gateway whose load balancer has names only.
func named(names ...string) *cluster.Gateway {
	g := gatewayService()
	g.Names = names
	return g
}

// probed is a gateway that is probed once a second.
func probed(g *cluster.Gateway) *cluster.Gateway {
	g.Probe = cluster.Probe{Port: 4191, Path: "/ready", Period: time.Second}
	return g
}

// outside is what names are resolved to, and which addresses answer probes.
type outside struct {
	mu    sync.Mutex
	names map[string][]netip.Addr
	dead  map[string]bool

	probed []string // each once
}

// linkBehind links cluster east as Secret s, with these annotations and gateways, where names are
// resolved and probes answered as what it returns has it. The cluster has not synced yet.
func (e *env) linkBehind(g *cluster.Gateway, annotations ...string) *outside {
	f := new(outside)
	e.store.lookUp = func(_ context.Context, name string) ([]netip.Addr, error) {
		f.mu.Lock()
		defer f.mu.Unlock()
		if ips := f.names[name]; ips != nil {
			return ips, nil
		}
		return nil, errors.New("no such host")
	}
	e.store.probe = func(_ context.Context, ip netip.Addr, _ cluster.Probe) error {
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
	e.put(with(secret("s", "east", "t1", 0), annotations...))
	e.last(1).setGateways(g)
	return f
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

// through is what clients get of a gateway.
func through(addr string) string {
	return addr + " " + gatewayIdentity + " web.shop.svc.cluster.test:80"
}

// reached checks what clients of web get.
func (e *env) reached(want ...string) {
	e.t.Helper()
	e.pass(pace.SignalPause) // changes of a second are passed on together
	set, _ := e.watch.Get()
	var got []string
	for _, x := range set.Endpoints {
		text := x.Addr.String()
		if c := x.Common.Get(); c.Authority != "" {
			text += " " + c.Identity.DNS + " " + c.Authority
		}
		got = append(got, text)
	}
	if !slices.Equal(got, want) {
		e.t.Errorf("clients get %q, not %q", got, want)
	}
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
