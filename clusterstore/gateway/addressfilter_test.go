package gateway

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"isthmus/clusterstore/cluster"
)

// localCluster fakes the cache of the local cluster.
type localCluster struct {
	synced chan struct{}
	names  map[string]string // the object that each address is assigned to
}

func (l *localCluster) Synced() <-chan struct{}         { return l.synced }
func (l *localCluster) AssignedTo(ip netip.Addr) string { return l.names[ip.String()] }

// TestGuard checks which addresses may not be probed, and the reasons.
func TestGuard(t *testing.T) {
	local := &localCluster{synced: make(chan struct{}), names: map[string]string{
		"192.0.2.33":   "Pod shop/web",
		"2001:db8::33": "Node n1",
	}}
	close(local.synced)
	const notRoutable = "the address is a loopback, link-local, multicast or reserved address"
	filter := &AddressFilter{Routable: cluster.Routable, Local: local, Interfaces: func() ([]net.Addr, error) {
		return []net.Addr{
			&net.IPNet{IP: net.ParseIP("127.0.0.1"), Mask: net.CIDRMask(8, 32)},
			&net.IPNet{IP: net.ParseIP("192.0.2.2"), Mask: net.CIDRMask(24, 32)},
			&net.IPNet{IP: net.ParseIP("2001:db8::2"), Mask: net.CIDRMask(64, 128)},
			&net.UnixAddr{Name: "/x"},
		}, nil
	}}
	for ip, want := range map[string]string{
		"198.51.100.1":         "",
		"192.0.2.3":            "", // of an interface's network
		"2001:db8::3":          "",
		"192.0.2.33":           "the address is assigned to Pod shop/web in the local cluster",
		"::ffff:192.0.2.33":    "the address is assigned to Pod shop/web in the local cluster",
		"2001:db8::33":         "the address is assigned to Node n1 in the local cluster",
		"2001:db8::33%eth0":    "the address is assigned to Node n1 in the local cluster",
		"192.0.2.2":            "the address is assigned to the replica's own host",
		"::ffff:192.0.2.2":     "the address is assigned to the replica's own host",
		"2001:db8::2":          "the address is assigned to the replica's own host",
		"127.0.0.1":            notRoutable,
		"::ffff:127.0.0.1":     notRoutable,
		"::1":                  notRoutable,
		"0.0.0.0":              notRoutable,
		"::":                   notRoutable,
		"169.254.169.254":      notRoutable,
		"fe80::1%eth0":         notRoutable,
		"224.0.0.1":            notRoutable,
		"255.255.255.255":      notRoutable,
		"::ffff:169.254.0.1%1": notRoutable,
	} {
		addr, err := netip.ParseAddr(ip)
		if err != nil {
			continue // netip has no such address
		}
		if got := filter.refusal(t.Context(), addr); got != want {
			t.Errorf("%s: %q, want %q", ip, got, want)
		}
	}
	filter = &AddressFilter{
		Routable:   cluster.Routable,
		Interfaces: func() ([]net.Addr, error) { return nil, errors.New("broken") },
	}
	const want = "the addresses of the replica's own host cannot be read: broken"
	if got := filter.refusal(t.Context(), netip.MustParseAddr("198.51.100.1")); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestGuardOfThisHost checks that the interfaces of this host are found without a fake.
func TestGuardOfThisHost(t *testing.T) {
	filter := &AddressFilter{Routable: func(netip.Addr) bool { return true }}
	host, err := filter.hostAddresses()
	if err != nil {
		t.Fatal(err)
	}
	for _, ip := range host {
		if filter.refusal(t.Context(), ip) == "" {
			t.Errorf("%v may be probed", ip)
		}
	}
}

// TestGuardReadsInterfacesAgain checks that a new address of the host is known within a second. The
// interfaces are read once a second at most.
func TestGuardReadsInterfacesAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reads, has := 0, "192.0.2.1"
		filter := &AddressFilter{Routable: cluster.Routable, Interfaces: func() ([]net.Addr, error) {
			reads++
			return []net.Addr{&net.IPNet{IP: net.ParseIP(has), Mask: net.CIDRMask(24, 32)}}, nil
		}}
		later := netip.MustParseAddr("192.0.2.2")
		for range 100 {
			if why := filter.refusal(t.Context(), later); why != "" {
				t.Fatal(why)
			}
		}
		has = later.String()
		time.Sleep(interfacesFor)
		if filter.refusal(t.Context(), later) == "" || reads != 2 {
			t.Errorf("may be probed after %d reads of the interfaces", reads)
		}
	})
}

// TestGuardWaits checks that no address may be probed before the local cluster's cache is complete.
// A caller that waits for the cache stops waiting when its context ends.
func TestGuardWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		local := &localCluster{synced: make(chan struct{})}
		filter := &AddressFilter{Routable: cluster.Routable, Local: local, Interfaces: func() ([]net.Addr, error) {
			t.Error("the interfaces were read")
			return nil, nil
		}}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if why := filter.refusal(ctx, netip.MustParseAddr("198.51.100.1")); why != "" || ctx.Err() == nil {
			t.Errorf("%q, %v", why, ctx.Err())
		}
	})
}

// TestLocalIsNotProbed checks that an address is not probed while it is local. Such an address
// stays in use. It is probed again once it is no longer local.
func TestLocalIsNotProbed(t *testing.T) {
	track(t, func(x *tracked) {
		x.out.dead["192.0.2.2"] = true
		x.out.names["lb.example"] = []string{"192.0.2.1", "::ffff:192.0.2.2"}
		byName := target("192.0.2.1")
		byName.IP, byName.Name = netip.Addr{}, "lb.example"
		x.Set([]Target{byName})
		x.pass(10 * time.Second)
		x.has("192.0.2.1:4143", "!192.0.2.2:4143")
		assign := func(ip string) {
			x.out.set(func() { x.out.local = map[string]string{ip: "Service shop/web"} })
			x.pass(time.Second)
			x.out.set(func() { clear(x.out.probes) })
		}
		assign("192.0.2.2")
		x.pass(time.Minute)
		x.has("192.0.2.1:4143", "=192.0.2.2:4143")
		x.out.set(func() {
			if x.out.probes["192.0.2.2"] > 0 || x.out.probes["192.0.2.1"] == 0 {
				t.Errorf("probes: %v", x.out.probes)
			}
			x.out.names["lb.example"] = []string{"192.0.2.2", "192.0.2.3"} // the name is bound to another address
		})
		assign("192.0.2.3")
		x.pass(time.Minute)
		x.has("!192.0.2.2:4143", "=192.0.2.3:4143")
		x.out.set(func() {
			if x.out.probes["192.0.2.3"] > 0 || x.out.probes["192.0.2.2"] == 0 {
				t.Errorf("probes: %v", x.out.probes)
			}
		})
	})
}

// TestLocalUnknown checks that no address is probed before the local cluster's cache is complete.
// Nothing else is delayed.
func TestLocalUnknown(t *testing.T) {
	track(t, func(x *tracked) {
		x.out.synced = make(chan struct{})
		x.Set([]Target{target("192.0.2.1")})
		x.pass(time.Minute)
		x.has("?192.0.2.1:4143")
		x.changed(1)
		if len(x.out.probes) > 0 {
			t.Errorf("probes: %v", x.out.probes)
		}
		x.Set([]Target{target("192.0.2.2")})
		x.has("?192.0.2.2:4143")
		close(x.out.synced)
		x.has("192.0.2.2:4143")
		x.out.set(func() {
			if x.out.probes["192.0.2.1"] > 0 {
				t.Error("an address was probed after its removal")
			}
		})
	})
}
