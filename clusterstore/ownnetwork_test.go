package clusterstore

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"isthmus/clusterstore/decode/decodetest"
	"isthmus/clusterstore/kube"
	"isthmus/federation"
	"isthmus/internal/adminapi"
)

// ownCluster is an own cluster with one Pod.
type ownCluster struct {
	synced chan struct{}
	pod    string
}

func (o *ownCluster) Synced() <-chan struct{} { return o.synced }
func (o *ownCluster) Owner(ip netip.Addr) string {
	if ip.String() == o.pod {
		return "Pod shop/web"
	}
	return ""
}

// ownLists counts lists of Nodes and ServiceCIDRs, and lets these fail with an error.
type ownLists struct {
	mu    sync.Mutex
	count map[string]int
	fail  map[string]error
}

func (l *ownLists) note(resource string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.count[resource]++
	return l.fail[resource]
}

// nodes returns how many lists of Nodes there were since it was called last, and sets how they fail from now on.
func (l *ownLists) nodes(fail error) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := l.count["nodes"]
	l.count["nodes"], l.fail["nodes"] = 0, fail
	return n
}

// setOwn gives the gateway's own cluster a Node, a ServiceCIDR, and a Pod, and the gateway's host an address.
func (e *env) setOwn() *ownLists {
	e.t.Helper()
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "n1"}, Spec: corev1.NodeSpec{PodCIDR: "10.1.0.0/24", PodCIDRs: []string{"10.1.0.0/24", "fd00:1::/64", "x"}},
		Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: "n1"}, {Type: corev1.NodeInternalIP, Address: "192.0.2.11"}}},
	}
	lists := &ownLists{count: make(map[string]int), fail: make(map[string]error)}
	from := &e.store.client.Sources
	from.NodeRanges = decodetest.Fake[*corev1.Node](func(_ context.Context, page metav1.ListOptions) (*corev1.NodeList, error) {
		if err := lists.note("nodes"); err != nil {
			return nil, err
		}
		if page.Continue == "" { // the first page has another one
			return &corev1.NodeList{ListMeta: metav1.ListMeta{Continue: "next"}, Items: make([]corev1.Node, 1)}, nil
		}
		return &corev1.NodeList{Items: []corev1.Node{*node}}, nil
	}, nil)
	from.Document = func(_ context.Context, _ string, into any) error {
		return cmp.Or(json.Unmarshal([]byte(`{"items":[{"spec":{"cidrs":["10.96.0.0/16"]}}]}`), into), lists.note("servicecidrs"))
	}
	e.store.own.interfaces = func() ([]net.Addr, error) {
		return []net.Addr{
			&net.IPNet{IP: net.ParseIP("127.0.0.1"), Mask: net.CIDRMask(8, 32)},
			&net.IPNet{IP: net.ParseIP("192.0.2.2"), Mask: net.CIDRMask(24, 32)},
		}, nil
	}
	e.store.own.local = &ownCluster{synced: make(chan struct{}), pod: "192.0.2.33"}
	return lists
}

// TestOwnNetworkIsNotProbed: gateways at addresses of the own cluster and host are not probed, and the status
// has each, with the reason. The lists are read only for gateways that are probed.
func TestOwnNetworkIsNotProbed(t *testing.T) {
	inBubble(t, func(e *env) {
		lists := e.setOwn()
		e.pass(time.Hour)
		if n := lists.nodes(nil); n > 0 {
			t.Errorf("%d lists of Nodes without gateways", n)
		}
		other := "198.51.100.1"
		own := map[string]string{
			"10.1.0.9": "it is an address for Pods of the gateway's own cluster (podCIDRs of its Nodes)", "192.0.2.11": "Node n1 of the gateway's own cluster has the address",
			"10.96.7.7": "it is an address for Services of the gateway's own cluster (ServiceCIDRs)", "192.0.2.2": "the gateway's own host has the address",
			"192.0.2.33": "Pod shop/web of the gateway's own cluster has the address",
		}
		g := probed(gateway(other))
		for ip := range own {
			g.IPs = append(g.IPs, netip.MustParseAddr(ip))
		}
		f := e.linkBehind(g, "network", "far")
		e.sync(1)
		e.pass(10 * time.Second)
		if got := f.probedAddresses(); got != nil {
			t.Errorf("probed before the own cluster is known: %q", got)
		}
		close(e.store.own.local.(*ownCluster).synced)
		e.pass(time.Minute)
		if got := f.probedAddresses(); !slices.Equal(got, []string{other}) {
			t.Errorf("probed are %q", got)
		}
		st := e.store.Status()[0]
		for ip, why := range own {
			i := slices.IndexFunc(st.Gateways, func(x adminapi.ClusterGateway) bool { return x.Address == ip+":4143" })
			if x := st.Gateways[i]; x.State != adminapi.GatewayNotProbed || x.Reason != why {
				t.Errorf("%+v, want the reason %q", x, why)
			}
			for _, list := range [][]string{st.Warnings, st.GatewayProblems} {
				if want := "Linkerd gateway " + ip + ":4143 is not probed, and is used also when it is dead: " + why; !slices.Contains(list, want) {
					t.Errorf("%q has no %q", list, want)
				}
			}
		}
		if len(st.Warnings) != len(own) {
			t.Errorf("%d warnings: %q", len(st.Warnings), st.Warnings)
		}
		lists.nodes(nil)
		e.pass(time.Hour)
		if n := lists.nodes(nil); n != 24 { // each of two pages
			t.Errorf("%d lists of Nodes in an hour", n)
		}
	})
}

// TestOwnNetworkUnknown: what can't be listed is shown, and the rest is used. A right that is missing
// is no reason to ask again soon.
func TestOwnNetworkUnknown(t *testing.T) {
	inBubble(t, func(e *env) {
		lists := e.setOwn()
		close(e.store.own.local.(*ownCluster).synced)
		lists.fail["servicecidrs"] = apierrors.NewForbidden(schema.GroupResource{Resource: "servicecidrs"}, "", errors.New("no RBAC"))
		lists.nodes(errors.New("away"))
		f := e.linkBehind(probed(gateway("10.96.7.7", "192.0.2.11", "192.0.2.33")), "network", "far")
		e.sync(1)
		e.pass(10 * time.Second)
		probed := f.probedAddresses()
		slices.Sort(probed)
		if !slices.Equal(probed, []string{"10.96.7.7", "192.0.2.11"}) {
			t.Errorf("probed are %q", probed)
		}
		if got := strings.Join(e.store.Status()[0].Warnings, "; "); !strings.Contains(got, "Nodes of the gateway's own cluster can't be listed (away): Linkerd gateways at such addresses may be probed; ServiceCIDRs of the gateway's own cluster can't be listed (") {
			t.Errorf("warnings: %q", got)
		}
		lists.nodes(errors.New("away"))
		e.pass(20 * time.Minute)
		if n := e.logs.FilterMessage("not all addresses of the gateway's own network are known").Len(); n != 1 {
			t.Errorf("%d lines of the log", n)
		}
		if n := lists.nodes(nil); n != 40 {
			t.Errorf("%d lists of Nodes in 20 min, while they fail", n)
		}
		e.pass(time.Minute)
		lists.nodes(nil)
		e.pass(20 * time.Minute)
		if n := lists.nodes(errors.New("away")); n != 8 {
			t.Errorf("%d lists of Nodes in 20 min, while ServiceCIDRs are forbidden", n)
		}
		e.pass(20 * time.Minute)
		for _, x := range e.store.Status()[0].Gateways {
			if own := x.Address != "10.96.7.7:4143"; own != (x.State == adminapi.GatewayNotProbed) {
				t.Errorf("%+v", x)
			}
		}
	})
}

// TestOwnNetworkStops: who waits for what is known of the own network waits no longer than it may.
func TestOwnNetworkStops(t *testing.T) {
	inBubble(t, func(e *env) {
		ctx, cancel := context.WithTimeout(e.t.Context(), time.Second)
		defer cancel()
		o := newOwnNetwork(e.store.client, nil, e.store.opts.Log) // nothing runs it
		if got := o.owner(ctx, netip.MustParseAddr("192.0.2.1")); got != "" || ctx.Err() == nil {
			t.Errorf("%q", got)
		}
		e.setOwn()
		ctx, cancel = context.WithTimeout(e.t.Context(), time.Second)
		defer cancel()
		if got := e.store.own.owner(ctx, netip.MustParseAddr("192.0.2.11")); got != "" || ctx.Err() == nil { // the own cluster has not synced
			t.Errorf("%q", got)
		}
	})
}

// TestServiceCIDRs: what an API server lists is read, an error is one, and a server that has none has none.
func TestServiceCIDRs(t *testing.T) {
	answer, code := "", 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/apis/networking.k8s.io/v1/servicecidrs" || r.Header.Get("Accept") != "application/json" {
			t.Errorf("%s, accepts %q", r.URL, r.Header.Get("Accept"))
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		_, _ = w.Write([]byte(answer))
	}))
	defer server.Close()
	client, err := kube.New(federation.Local, &rest.Config{Host: server.URL}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for _, c := range []struct {
		code         int
		answer, want string
	}{
		{200, `{"items":[{"spec":{"cidrs":["10.96.0.0/16","fd00::/112"]}},{"spec":{"cidrs":["10.97.0.0/16","x"]}},{}]}`, "[10.96.0.0/16 10.97.0.0/16 fd00::/112] <nil>"},
		{200, `<html>`, "[] the API server's answer is not the JSON that API servers send: check that the server is an API server"},
		{404, `404 page not found`, "[] <nil>"},
		{403, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","message":"no","code":403}`, "[] no"},
	} {
		answer, code = c.answer, c.code
		var a ownAddresses
		err := a.readServices(t.Context(), client.Sources)
		if got := fmt.Sprint(a.services, " ", err); got != c.want {
			t.Errorf("%d %s: %s, want %s", c.code, c.answer, got, c.want)
		}
	}
}
