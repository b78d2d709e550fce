package sim

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"isthmus/e2e/object"
	"isthmus/e2e/proxy"
	"isthmus/internal/adminapi"
)

// TestThroughGateways: what clients hold in the end of c001 behind two gateways, beside the Pods of the local cluster and of c002.
func TestThroughGateways(t *testing.T) {
	for _, x := range []struct {
		name        string
		annotations map[string]string
		change      func(*world, *cluster)
		want        string
	}{
		{name: "gateways", want: "00 01 20 :20006 :20008"},
		{name: "the gateway is on that network too", change: func(w *world, _ *cluster) { w.flags.network = networkName }, want: "00 01 10 11"},
		{name: "a network that can't be read", change: func(_ *world, c *cluster) { c.link.secrets[0].annotations[networkKey] = "no network!" },
			want: "00 01 20 :20006 :20008"},
		{name: "one is dead", change: func(_ *world, c *cluster) { c.gateways[0].dead.Store(true) }, want: "00 01 20 :20008"},
		{name: "both are", change: func(_ *world, c *cluster) { c.gateways[0].dead.Store(true); c.gateways[1].dead.Store(true) }, want: "00 01 20"},
		{name: "both are, and there is nothing else", annotations: map[string]string{preferKey: "c001"},
			change: func(_ *world, c *cluster) { c.gateways[0].dead.Store(true); c.gateways[1].dead.Store(true) }, want: ":20006 :20008"},
		{name: "one moves", change: func(_ *world, c *cluster) { c.gateways[1].moved = true }, want: "00 01 20 :20006 :20009"},
		{name: "none", change: func(_ *world, c *cluster) { delete(c.services, gatewayName+"0"); delete(c.services, gatewayName+"1") }, want: "00 01 20"},
		{name: "nothing behind them", change: func(_ *world, c *cluster) { clear(c.slices) }, want: "00 01 20"},
		{name: "what is behind suffices", annotations: map[string]string{preferKey: "c001, any", minReadyKey: "2"}, want: ":20006 :20008"},
		{name: "through one of them too", annotations: map[string]string{preferKey: "c001, any", minReadyKey: "2"},
			change: func(_ *world, c *cluster) { c.gateways[0].dead.Store(true) }, want: ":20008"},
		{name: "it does not suffice", annotations: map[string]string{preferKey: "c001, any", minReadyKey: "3"}, want: "00 01 20 :20006 :20008"},
		{name: "a zone does not name them", annotations: map[string]string{preferKey: "zone"}, want: "00 20"},
	} {
		t.Run(x.name, func(t *testing.T) {
			w := newSteered(t)
			c := w.clusters[1]
			c.gateways = []*played{{number: 0}, {number: 1}, {number: 2}}
			c.set(c.service(c.gateways[0]), true)
			c.set(c.service(c.gateways[1]), true)
			c.link.secrets[0].annotations[networkKey] = networkName
			o := object.Federated(namespace, "s00-all", "s00", "s00@c001", "s00@c002")
			maps.Copy(o.Annotations, x.annotations)
			w.clusters[0].set(o, true)
			if x.change != nil {
				x.change(w, c)
			}
			if got := w.ask(view{"s00-all", "zone-1"}).withGateways(); got != x.want {
				t.Errorf("got %q, want %q", got, x.want)
			}
		})
	}
}

// withGateways is as String, with gateways as their ports.
func (a answer) withGateways() string {
	var list []string
	pods := answer{endpoints: maps.Clone(a.endpoints)}
	for addr, e := range a.endpoints {
		if e.tls == gatewayIdentity {
			list = append(list, fmt.Sprintf(":%d", addr.Port()))
			delete(pods.endpoints, addr)
		}
	}
	slices.Sort(list)
	return strings.TrimSpace(pods.String() + " " + strings.Join(list, " "))
}

// TestProbed: a cluster's gateways are known once the page has all of them, and as they are.
func TestProbed(t *testing.T) {
	w := newSteered(t)
	c := w.clusters[1]
	c.gateways = []*played{{number: 0}, {number: 1}}
	c.set(c.service(c.gateways[0]), true)
	for _, x := range []struct {
		list []adminapi.ClusterGateway
		dead bool
		ok   bool
	}{
		{[]adminapi.ClusterGateway{{Address: "127.0.0.1:20006", State: "alive"}}, false, true},
		{[]adminapi.ClusterGateway{{Address: "127.0.0.1:20006", State: "alive"}}, true, false},
		{[]adminapi.ClusterGateway{{Address: "127.0.0.1:20006", State: "dead"}}, true, true},
		{[]adminapi.ClusterGateway{{Address: "127.0.0.1:20006", State: "not-probed-yet"}}, false, false},
		{[]adminapi.ClusterGateway{{Address: "127.0.0.1:20006", State: "alive"}, {Address: "127.0.0.1:20008", State: "alive"}}, false, false},
		{nil, false, false},
	} {
		c.gateways[0].dead.Store(x.dead)
		page := adminapi.Clusters{Clusters: []adminapi.Cluster{{Cluster: "c001", ClusterStatus: adminapi.ClusterStatus{Gateways: x.list}}, {Cluster: "c002"}}}
		if err := w.probed(c, page); (err == nil) != x.ok {
			t.Errorf("%v, dead=%v: %v", x.list, x.dead, err)
		}
	}
}

// TestEitherWay: how many endpoints of c001 clients have a way to all the time, whatever happens to its network and its gateways.
func TestEitherWay(t *testing.T) {
	network := func(w *world, name string) { w.clusters[1].link.secrets[0].annotations[networkKey] = name }
	there := func(w *world, n int, is bool) { c := w.clusters[1]; c.set(c.service(c.gateways[n]), is) }
	for _, x := range []struct {
		name   string
		prefer string
		change []func(*world) // one after the other
		want   int
	}{
		{name: "nothing", want: 3}, // with the gateway itself
		{name: "it gets flat", change: []func(*world){func(w *world) { network(w, "") }}, want: 2},
		{name: "and goes back", change: []func(*world){func(w *world) { network(w, "") }, func(w *world) { network(w, networkName) }}, want: 2},
		{name: "the gateway moves", change: []func(*world){func(w *world) { w.clusters[1].gateways[0].moved = true }}, want: 2},
		{name: "the gateway dies", change: []func(*world){func(w *world) { w.clusters[1].gateways[0].dead.Store(true) }}, want: 3},
		{name: "another comes, and it goes", change: []func(*world){func(w *world) { there(w, 1, true) }, func(w *world) { there(w, 0, false) }}, want: 2},
		{name: "it goes, and another comes", change: []func(*world){func(w *world) { there(w, 0, false) }, func(w *world) { there(w, 1, true) }}},
		{name: "a Pod stays", change: []func(*world){func(w *world) { network(w, "") },
			func(w *world) { *w.clusters[1].slices["s00-000"].Endpoints[0].Conditions.Ready = false }}, want: 1},
		{name: "none stays", change: []func(*world){func(w *world) { clear(w.clusters[1].slices) }}},
		{name: "it is withdrawn meanwhile", change: []func(*world){func(w *world) { w.clusters[1].link.secrets[0].annotations[cordonKey] = "true" }}},
		{name: "gateways are in no zone", prefer: "zone"},
	} {
		t.Run(x.name, func(t *testing.T) {
			w := newSteered(t)
			c := w.clusters[1]
			c.gateways = []*played{{number: 0}, {number: 1}}
			there(w, 0, true)
			network(w, networkName)
			o := object.Federated(namespace, "s00-all", "", "s00@c001")
			o.Annotations[preferKey] = x.prefer
			w.clusters[0].set(o, true)
			one := newClient(nil, proxy.Get, "s00-all", "", "zone-1")
			cs := &clients{all: []*client{one}}
			a := newAudit(w, cs)
			a.mark(cs)
			if n, _ := a.known[one.view()].lasted(); n != 0 {
				t.Fatalf("the gateway need not know any of the %d yet", n)
			}
			a.mark(cs)
			for _, change := range x.change {
				change(w)
				a.written("")
			}
			if n, _ := a.known[one.view()].lasted(); n != x.want {
				t.Errorf("%d are left, want %d: %v", n, x.want, a.known[one.view()].always)
			}
		})
	}
}
