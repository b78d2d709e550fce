package clusterstore

import (
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	"isthmus/internal/adminapi"
)

// localCache is the cache of a local cluster.
type localCache struct {
	synced chan struct{}
	names  map[string]string // what an address is assigned to
}

func (l *localCache) Synced() <-chan struct{}         { return l.synced }
func (l *localCache) AssignedTo(ip netip.Addr) string { return l.names[ip.String()] }

// TestLocalGateways tests that gateways at addresses of the local cluster or host are not probed, that nothing is
// probed before the local cluster is known, and what the status says of each.
func TestLocalGateways(t *testing.T) {
	inBubble(t, func(e *env) {
		local := &localCache{synced: make(chan struct{}), names: map[string]string{
			"192.0.2.33": "Pod shop/web",
			"192.0.2.11": "Node n1",
		}}
		e.store.guard.Local = local
		e.store.guard.Interfaces = func() ([]net.Addr, error) {
			return []net.Addr{&net.IPNet{IP: net.ParseIP("192.0.2.2"), Mask: net.CIDRMask(24, 32)}}, nil
		}
		reasons := map[string]string{
			"192.0.2.2":  "the gateway's own host has the address",
			"192.0.2.11": "Node n1 of the gateway's own cluster has the address",
			"192.0.2.33": "Pod shop/web of the gateway's own cluster has the address",
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
			t.Errorf("probed are %q", got)
		}
		st := e.store.Status()[0]
		for ip, why := range reasons {
			i := slices.IndexFunc(st.Gateways, func(x adminapi.ClusterGateway) bool { return x.Address == ip+":4143" })
			if x := st.Gateways[i]; x.State != adminapi.GatewayNotProbed || x.Reason != why {
				t.Errorf("%+v, want the reason %q", x, why)
			}
			want := "Linkerd gateway " + ip + ":4143 is not probed, and is used also when it is dead: " + why
			if !slices.Contains(st.Warnings, want) || !slices.Contains(st.GatewayProblems, want) {
				t.Errorf("%q and %q have no %q", st.Warnings, st.GatewayProblems, want)
			}
		}
		if len(st.Warnings) != len(reasons) {
			t.Errorf("%d warnings: %q", len(st.Warnings), st.Warnings)
		}
	})
}

// TestGatewaysReported: what becomes of gateways is logged and reported once.
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
		e.reported("east 1 !last-resort: none of its Linkerd gateways answers", "east 3 !Linkerd gateway 192.0.2.2:4143 does not answer probes: connection refused")
		f.kill("192.0.2.2")
		e.pass(time.Minute)
		e.reported("east 1 in-service: not cordoned, and its API is followed", "east 3 Linkerd gateway 192.0.2.1:4143 answers probes again")
		e.put(secret("s", "east", "t1", 0))
		e.pass(time.Minute)
		e.reported()
		if n := e.logs.FilterMessage("Linkerd gateway does not answer probes").Len(); n != 2 {
			t.Errorf("%d lines for gateways that have died", n)
		}
		if n := e.logs.FilterMessage("Linkerd gateway answers probes again").Len(); n != 1 {
			t.Errorf("%d lines for gateways that are back", n)
		}
	})
}
