package clusterstore

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"isthmus/clusterstore/cluster"
	"isthmus/federation"
	"isthmus/internal/adminapi"
	"isthmus/internal/pace"
)

const gatewayIdentity = "gw.multi.example"

func gatewayService(ips ...string) *cluster.Gateway {
	g := &cluster.Gateway{
		Service:  federation.ServiceID{Namespace: "multi", Name: "gw"},
		Port:     4143,
		Identity: gatewayIdentity,
	}
	for _, ip := range ips {
		g.IPs = append(g.IPs, netip.MustParseAddr(ip))
	}
	return g
}

// named returns a gateway whose load balancer has only host names.
func named(names ...string) *cluster.Gateway {
	g := gatewayService()
	g.Names = names
	return g
}

// probed lets a gateway be probed once a second.
func probed(g *cluster.Gateway) *cluster.Gateway {
	g.Probe = cluster.Probe{Port: 4191, Path: "/ready", Period: time.Second}
	return g
}

// outside fakes name resolution and the answers to probes.
type outside struct {
	mu    sync.Mutex
	names map[string][]netip.Addr
	dead  map[string]bool

	probed []string // without duplicates
}

// linkBehind links cluster east with the given gateway and a Secret s that has the given
// annotations. The cluster has not synced yet. The result controls name resolution and probes.
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

func (f *outside) probedAddresses() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.probed)
}

// kill makes exactly these addresses fail probes.
func (f *outside) kill(ips ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.dead = make(map[string]bool)
	for _, ip := range ips {
		f.dead[ip] = true
	}
}

func (f *outside) resolve(name string, ips ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.names = map[string][]netip.Addr{}
	for _, ip := range ips {
		f.names[name] = append(f.names[name], netip.MustParseAddr(ip))
	}
}

// through returns what clients see of a gateway at addr.
func through(addr string) string {
	return addr + " " + gatewayIdentity + " web.shop.svc.cluster.test:80"
}

// reached checks the endpoints of web that clients get.
func (e *env) reached(want ...string) {
	e.t.Helper()
	e.pass(pace.SignalPause) // changes within a second are passed on together
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

// neverEmpty fails the test if clients of web ever get an empty set before stop is called.
func (e *env) neverEmpty() (stop func()) {
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			set, newer := e.watch.Get()
			if len(set.Endpoints) == 0 {
				e.t.Error("clients have no endpoints")
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

// TestGateways checks that a cluster on another network offers its gateways. An edit of them takes
// effect in one step.
//
// Behaviours: NW-07.
func TestGateways(t *testing.T) {
	s := func(pairs ...string) *corev1.Secret { return with(secret("s", "east", "t1", 0), pairs...) }
	inBubble(t, func(e *env) {
		e.sync(1)
		e.reached("10.0.0.1:80")
		defer e.neverEmpty()()
		east := e.made[0]
		east.setGateways(gatewayService("192.0.2.1", "192.0.2.2"))
		e.reached("10.0.0.1:80")
		e.put(s("network", "far"))
		e.reached(through("192.0.2.1:4143"), through("192.0.2.2:4143"))
		east.setGateways(gatewayService("192.0.2.3"))
		e.reached(through("192.0.2.3:4143"))
		e.put(s("network", "far", "gateway-addresses", "198.51.100.1:443, [2001:db8::1]:444"))
		e.reached(through("198.51.100.1:443")) // the table has no IPv6
		e.put(s("network", "far", "gateway-addresses", "198.51.100.1:443", "gateway-identity", "other.example"))
		e.reached("198.51.100.1:443 other.example web.shop.svc.cluster.test:80")
		e.put(s("network", "far", "gateway-addresses", "198.51.100.1"))
		e.reached(through("192.0.2.3:4143"))
		e.status(
			`s east ready !annotation isthmus.io/gateway-addresses: "198.51.100.1" is not in the form HOST:PORT; ` +
				`the annotation is ignored !Linkerd gateways that are not probed…: 192.0.2.3:4143`,
		)
		e.put(s("network", "not a name"))
		e.reached(through("192.0.2.3:4143"))
		e.status(
			`s east ready !annotation isthmus.io/network: "not a name" is not a valid network name…: ` +
				`192.0.2.3:4143`,
		)
		e.put(s())
		e.reached("10.0.0.1:80")
		e.put(with(secret("s", "east", "t2", 0), "network", "far"))
		e.reached(through("192.0.2.3:4143"))
		e.last(2).setGateways(gatewayService("192.0.2.4"))
		e.sync(2)
		e.pass(pace.SignalPause)
		e.reached(through("192.0.2.4:4143"))
	}, s())
}

// TestGatewaysMissing checks that a cluster on another network without a gateway offers no
// endpoints. The status gives the reason.
func TestGatewaysMissing(t *testing.T) {
	inBubble(t, func(e *env) {
		e.sync(1)
		e.reached()
		e.status(`s east ready !the cluster is on another network, and has no Linkerd gateway:…`)
		for _, c := range []struct {
			g    *cluster.Gateway
			want string
		}{
			{&cluster.Gateway{Service: gatewayService().Service, Identity: "x"}, "it has no TCP port named mc-gateway"},
			{
				&cluster.Gateway{Service: gatewayService().Service, Port: 1},
				"its annotation mirror.linkerd.io/gateway-identity is missing or is not a valid identity",
			},
			{gatewayService(), "it has no address:…"},
		} {
			e.made[0].setGateways(c.g)
			e.status("s east ready !Linkerd gateway multi/gw: " + c.want)
		}
		e.made[0].setGateways(gatewayService("192.0.2.1"))
		e.reached(through("192.0.2.1:4143"))
		e.put(with(secret("s", "east", "t1", 0), "network", "far", "gateway-addresses", "east.example:1"))
		e.remove("s")
		e.reached()
	}, with(secret("s", "east", "t1", 0), "network", "far"))
}

// TestGatewaysFirst checks that a cluster is served only once its gateways are known. Otherwise,
// clients would get a set without them. The gateways are only requested once the cluster has
// synced.
func TestGatewaysFirst(t *testing.T) {
	inBubble(t, func(e *env) {
		f := e.linkBehind(named("lb.example"), "network", "far")
		f.resolve("lb.example", "192.0.2.1")
		lookUp := e.store.lookUp
		e.store.lookUp = func(ctx context.Context, name string) ([]netip.Addr, error) {
			time.Sleep(3 * time.Second)
			return lookUp(ctx, name)
		}
		e.pass(10 * time.Second)
		e.status("s east pending")
		e.sync(1)
		if set, _ := e.watch.Get(); set.Complete {
			t.Error("clients have a complete set without the gateways")
		}
		e.pass(3 * time.Second)
		e.reached(through("192.0.2.1:4143"))
		e.status("s east ready !Linkerd gateways that are not probed…")
	})
}

// TestGatewayNameWithoutAnswer checks that a gateway name that is never resolved delays readiness
// by namesTimeout. The link stays pending until the resolution times out.
func TestGatewayNameWithoutAnswer(t *testing.T) {
	inBubble(t, func(e *env) {
		e.linkBehind(named("slow.example"), "network", "far")
		e.store.lookUp = func(ctx context.Context, _ string) ([]netip.Addr, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		e.pass(10 * time.Second)
		e.settled(false)
		e.sync(1)
		e.pass(namesTimeout - time.Millisecond)
		e.settled(false)
		e.pass(time.Millisecond)
		e.settled(true)
		e.status("s east pending…")
		e.pass(4 * time.Second)
		e.status("s east ready !Linkerd gateway slow.example: context deadline exceeded")
	}, with(secret("s", "east", "t1", 0), "network", "far"))
}

// TestGatewaysNotRoutable checks that a link Secret cannot name an address that might belong to
// another host.
func TestGatewaysNotRoutable(t *testing.T) {
	inBubble(t, func(e *env) {
		e.sync(1)
		e.reached("192.0.2.1:2 gw.example web.shop.svc.cluster.test:80")
		e.status(
			"s east ready !annotation isthmus.io/gateway-addresses: 127.0.0.1 is not used, " +
				"because it cannot be the address of another host !Linkerd gateways that…",
		)
	},
		with(
			secret("s", "east", "t1", 0),
			"network",
			"far",
			"gateway-addresses",
			"127.0.0.1:1,192.0.2.1:2",
			"gateway-identity",
			"gw.example",
		))
}

// atNodes adds node ports for mc-gateway and mc-probe to a gateway.
func atNodes(g *cluster.Gateway, port, probe uint16) *cluster.Gateway {
	g.NodePort, g.NodeProbe = port, g.Probe
	g.NodeProbe.Port = probe
	return g
}

// TestProbeFor checks that the port of an address in a link Secret decides where the address is
// probed.
func TestProbeFor(t *testing.T) {
	unprobed := gatewayService()
	elsewhere := probed(gatewayService())
	elsewhere.Probe.Path = "/live"
	withoutNodeProbe := probed(gatewayService())
	withoutNodeProbe.NodePort = 30143
	for _, c := range []struct {
		name  string
		found []*cluster.Gateway
		port  uint16
		want  string // if empty, the address is not probed
	}{
		{"no Service", nil, 4143, ""},
		{"the port of mc-gateway", []*cluster.Gateway{probed(gatewayService())}, 4143, "4191/ready"},
		{"another port", []*cluster.Gateway{probed(gatewayService())}, 443, ""},
		{"the port of mc-probe", []*cluster.Gateway{probed(gatewayService())}, 4191, ""},
		{"a Service without a probe", []*cluster.Gateway{unprobed}, 4143, ""},
		{"the node port", []*cluster.Gateway{atNodes(probed(gatewayService()), 30143, 30191)}, 30143, "30191/ready"},
		{"the node port of mc-probe", []*cluster.Gateway{atNodes(probed(gatewayService()), 30143, 30191)}, 30191, ""},
		{"mc-probe has no node port", []*cluster.Gateway{withoutNodeProbe}, 30143, ""},
		{
			"the port beside a node port",
			[]*cluster.Gateway{atNodes(probed(gatewayService()), 30143, 30191)}, 4143, "4191/ready",
		},
		{
			"the node port of one is the port of another",
			[]*cluster.Gateway{elsewhere, atNodes(probed(gatewayService()), 4143, 30191)}, 4143, "30191/ready",
		},
		{
			"two Services with node ports of their own",
			[]*cluster.Gateway{
				atNodes(probed(gatewayService()), 30143, 30191),
				atNodes(probed(gatewayService()), 30243, 30291),
			},
			30243, "30291/ready",
		},
		{
			"two Services that agree",
			[]*cluster.Gateway{probed(gatewayService()), probed(gatewayService())},
			4143,
			"4191/ready",
		},
		{"two Services, the first without a probe", []*cluster.Gateway{unprobed, probed(gatewayService())}, 4143, ""},
		{"two Services, the second without a probe", []*cluster.Gateway{probed(gatewayService()), unprobed}, 4143, ""},
		{"two Services that differ", []*cluster.Gateway{probed(gatewayService()), elsewhere}, 4143, ""},
	} {
		got := ""
		if p := probeFor(c.found, c.port); p != (cluster.Probe{}) {
			got = fmt.Sprintf("%d%s", p.Port, p.Path)
		}
		if got != c.want {
			t.Errorf("%s: %q, not %q", c.name, got, c.want)
		}
	}
}

// TestNamedGatewaysProbed checks that a dead node in a link Secret is not used until it answers
// probes again. Nodes are probed only if the Secret has the node port of mc-gateway.
func TestNamedGatewaysProbed(t *testing.T) {
	inBubble(t, func(e *env) {
		e.store.ipv6 = true
		service := atNodes(probed(gatewayService()), 30143, 30191)
		f := e.linkBehind(service, "network", "far", "gateway-addresses",
			"198.51.100.1:30143,198.51.100.2:30143,[2001:db8::1]:30143,node.example:30143,198.51.100.4:443")
		f.resolve("node.example", "198.51.100.3")
		e.sync(1)
		e.pass(10 * time.Second)
		if got := f.probedAddresses(); len(got) != 4 || slices.Contains(got, "198.51.100.4") {
			t.Errorf("probed: %q", got)
		}
		f.kill("198.51.100.1", "2001:db8::1", "198.51.100.3", "198.51.100.4")
		e.pass(10 * time.Second)
		e.reached(through("198.51.100.2:30143"), through("198.51.100.4:443"))
		f.kill("198.51.100.1", "2001:db8::1")
		e.pass(10 * time.Second)
		e.reached(through("198.51.100.2:30143"), through("198.51.100.3:30143"), through("198.51.100.4:443"))
		e.last(1).setGateways(probed(gatewayService())) // without node ports, nodes cannot be probed
		e.reached(through("198.51.100.1:30143"), through("198.51.100.2:30143"), through("198.51.100.3:30143"),
			through("198.51.100.4:443"))
	})
}

// TestGatewaysOfNamelessNetwork checks that a replica on a named network reaches clusters of the
// nameless network through gateways. The status shows this.
func TestGatewaysOfNamelessNetwork(t *testing.T) {
	inBubble(t, func(e *env) {
		e.store.network = "here"
		e.put(secret("s", "east", "t1", 0))
		e.last(1).setGateways(gatewayService("192.0.2.1"))
		e.sync(1)
		e.reached(through("192.0.2.1:4143"))
		if got := e.store.Status()[0].Network; got != namelessNetwork {
			t.Errorf("the status has network %q", got)
		}
	})
}

// TestGatewaysNeedDomain checks that a cluster without a valid domain cannot be reached through
// gateways.
func TestGatewaysNeedDomain(t *testing.T) {
	for _, domain := range []string{"", "a b", "x\n"} {
		s := with(secret("s", "east", "t1", 0), "network", "far")
		s.Annotations[ClusterDomainAnnotation] = domain
		inBubble(t, func(e *env) {
			e.made[0].setGateways(gatewayService("192.0.2.1"))
			e.sync(1)
			e.reached()
			e.status(
				"s east ready !annotation multicluster.linkerd.io/cluster-domain: " + quote(
					domain,
				) + " is not a DNS domain…",
			)
		}, s)
	}
}

// localCache fakes the cache of the local cluster.
type localCache struct {
	synced chan struct{}
	names  map[string]string // the object that each address is assigned to
}

func (l *localCache) Synced() <-chan struct{} { return l.synced }

func (l *localCache) AssignedTo(ip netip.Addr) string { return l.names[ip.String()] }

// TestLocalGateways checks that gateways at addresses of the local cluster or host are not probed.
// Probes wait until the local cluster is known. The status has a reason for each gateway.
func TestLocalGateways(t *testing.T) {
	inBubble(t, func(e *env) {
		local := &localCache{synced: make(chan struct{}), names: map[string]string{
			"192.0.2.33": "Pod shop/web",
			"192.0.2.11": "Node n1",
		}}
		e.store.filter.Local = local
		e.store.filter.Interfaces = func() ([]net.Addr, error) {
			return []net.Addr{&net.IPNet{IP: net.ParseIP("192.0.2.2"), Mask: net.CIDRMask(24, 32)}}, nil
		}
		reasons := map[string]string{
			"192.0.2.2":  "the address is assigned to the replica's own host",
			"192.0.2.11": "the address is assigned to Node n1 in the local cluster",
			"192.0.2.33": "the address is assigned to Pod shop/web in the local cluster",
		}
		const other = "198.51.100.1"
		f := e.linkBehind(probed(gatewayService(other, "192.0.2.2", "192.0.2.11", "192.0.2.33")), "network", "far")
		e.sync(1)
		e.pass(10 * time.Second)
		if got := f.probedAddresses(); got != nil {
			t.Errorf("probed before the local cluster is known: %q", got)
		}
		for _, x := range e.store.Status()[0].Gateways {
			if x.State != adminapi.GatewayUnknown || x.Reason != "" {
				t.Errorf("before the local cluster is known: %+v", x)
			}
		}
		close(local.synced)
		e.pass(time.Minute)
		if got := f.probedAddresses(); !slices.Equal(got, []string{other}) {
			t.Errorf("probed: %q", got)
		}
		st := e.store.Status()[0]
		for ip, why := range reasons {
			i := slices.IndexFunc(st.Gateways, func(x adminapi.ClusterGateway) bool { return x.Address == ip+":4143" })
			if x := st.Gateways[i]; x.State != adminapi.GatewayNotProbed || x.Reason != why {
				t.Errorf("%+v, want the reason %q", x, why)
			}
			want := "Linkerd gateway " + ip +
				":4143 is not probed, so Isthmus uses it even if it does not respond: " + why
			if !slices.Contains(st.Warnings, want) || !slices.Contains(st.GatewayProblems, want) {
				t.Errorf("%q and %q have no %q", st.Warnings, st.GatewayProblems, want)
			}
		}
		if len(st.Warnings) != len(reasons) {
			t.Errorf("%d warnings: %q", len(st.Warnings), st.Warnings)
		}
	})
}

// TestGatewaysReported checks that a change of a gateway's state is logged and reported once.
func TestGatewaysReported(t *testing.T) {
	inBubble(t, func(e *env) {
		f := e.linkBehind(probed(gatewayService("192.0.2.1", "192.0.2.2")), "network", "far")
		e.sync(1)
		e.reported("east 0 pending", "east 0 ready")
		f.kill("192.0.2.1")
		e.pass(time.Minute)
		e.reported("east 3 !Linkerd gateway 192.0.2.1:4143 does not answer probes: connection refused")
		f.kill("192.0.2.1", "192.0.2.2")
		e.pass(time.Minute)
		e.reported(
			"east 1 !last-resort: none of its Linkerd gateways answers",
			"east 3 !Linkerd gateway 192.0.2.2:4143 does not answer probes: connection refused",
		)
		f.kill("192.0.2.2")
		e.pass(time.Minute)
		e.reported(
			"east 1 in-service: the cluster is not cordoned, and its API is watched",
			"east 3 Linkerd gateway 192.0.2.1:4143 answers probes again",
		)
		e.put(secret("s", "east", "t1", 0))
		e.pass(time.Minute)
		e.reported()
		if n := e.logs.FilterMessage("Linkerd gateway does not answer probes").Len(); n != 2 {
			t.Errorf("%d lines report dead gateways", n)
		}
		if n := e.logs.FilterMessage("Linkerd gateway answers probes again").Len(); n != 1 {
			t.Errorf("%d lines report recovered gateways", n)
		}
	})
}
