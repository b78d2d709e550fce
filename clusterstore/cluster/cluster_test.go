package cluster

import (
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/watch"

	"isthmus/clusterstore/kube"
	"isthmus/federation"
)

func TestSliceBeforePod(t *testing.T) {
	inCluster(t, nil, func(r *running) {
		if !r.isSynced() {
			t.Fatalf("not synced: %+v", r.Health())
		}
		if len(r.changes) != 0 {
			t.Errorf("reported %v before the first sync", r.changes)
		}
		if got := r.addrs(); got != "10.0.0.2:8080" {
			t.Errorf("got %q", got)
		}
		r.create(aPod("p"))
		if got := r.addrs(); got != "10.0.0.1:8080 10.0.0.2:8080" {
			t.Errorf("with its pod, got %q", got)
		}
		if len(r.changes) != 1 || r.changes[0] != "web" {
			t.Errorf("reported %v", r.changes)
		}
		h := r.Health()
		if h.Err != nil || !h.StaleSince.IsZero() || h.LastEvent.IsZero() {
			t.Errorf("health %+v", h)
		}
		for _, one := range h.Resources {
			want := map[string]int{"pods": 1, "services": 1, "endpointslices": 1}[one.Resource]
			if !one.Synced || one.Err != "" || one.Objects != want {
				t.Errorf("%+v", one)
			}
		}
	}, aService("web", "http=80"), aSlice("s", "web", "http=8080", "10.0.0.1 pod=p", "10.0.0.2"))
}

var web80 = federation.Key{Service: federation.ServiceID{Namespace: "ns", Name: "web"}, Port: 80}

// TestCallbacks checks that ServiceChanged and NodeChanged report all changes in order.
// ProfileChanged reports the addresses of a Pod.
func TestCallbacks(t *testing.T) {
	var got []string
	inCluster(t, func(c *Config, _ *fakeAPI) {
		got = nil
		withAddresses(c)
		c.local.ServiceChanged = func(id federation.ServiceID) { got = append(got, id.String()) }
		c.local.NodeChanged = func(name, zone string, exists bool) {
			if !exists {
				zone = "gone"
			}
			got = append(got, name+" "+zone)
		}
		c.local.ProfileChanged = func(about Topic, _ time.Time) {
			if about.IP.IsValid() && !about.AddressOwner {
				got = append(got, about.IP.String())
			}
		}
	}, func(r *running) {
		s := aService("web", "http=80")
		for _, text := range []string{"1", "1", "2"} { // the second changes nothing
			s.Annotations = map[string]string{"mirror.linkerd.io/x": text, "isthmus.io/x": "+" + text, "other": "noise"}
			s.Labels = map[string]string{"multicluster.kubernetes.io/service-name": "web", "app": "web"}
			r.send(watch.Modified, s.DeepCopy())
			if kept := r.Service(web80.Service).Annotations; len(kept) != 2 || kept["isthmus.io/x"] != "+"+text {
				t.Errorf("annotations %v", kept)
			}
			if kept := r.Service(web80.Service).Labels; len(kept) != 1 ||
				kept["multicluster.kubernetes.io/service-name"] != "web" {
				t.Errorf("labels %v", kept)
			}
		}
		r.send(watch.Deleted, s)
		node := aLocalNode("n1")
		r.create(node)
		node = node.DeepCopy()
		node.Labels = map[string]string{zoneLabel: "z1"}
		r.send(watch.Modified, node)
		r.send(watch.Modified, node.DeepCopy())
		r.send(watch.Deleted, node)
		r.create(aPod("p", at("10.0.0.1")))
		want := "ns/web, ns/web, ns/web, ns/web, n1 , n1 z1, n1 gone, 10.0.0.1"
		if got := strings.Join(got, ", "); got != want {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
	}, aService("web", "http=80"))
}

func TestNewRefuses(t *testing.T) {
	cfg := testConfig()
	if _, err := New(cfg); err == nil {
		t.Error("no client was accepted")
	}
	cfg.Client = &kube.Client{Sources: newFakeAPI().Sources}
	if _, err := New(cfg); err != nil {
		t.Error(err)
	}
	if own, err := NewLocal(cfg, *localConfig()); err != nil || own.AddressOwner(netip.Addr{}) != "" {
		t.Error(err)
	}
}

// TestChangedInTurn checks that changes of other namespaces are reported while the report of one
// namespace blocks.
func TestChangedInTurn(t *testing.T) {
	var held chan struct{}
	var mu sync.Mutex
	reported := make(map[string]int)
	inCluster(t, func(c *Config, _ *fakeAPI) {
		held = make(chan struct{})
		c.Changed = func(svc federation.ServiceID, _ time.Time) {
			if svc.Namespace == "slow" {
				<-held
			}
			mu.Lock()
			defer mu.Unlock()
			reported[svc.String()]++
		}
	}, func(r *running) {
		defer close(held)
		for _, id := range []federation.ServiceID{
			{Namespace: "slow", Name: "a"},
			{Namespace: "slow", Name: "b"},
			{Namespace: "quick", Name: "web"},
		} {
			s := aService(id.Name, "http=80")
			s.Namespace = id.Namespace
			r.create(s)
		}
		mu.Lock()
		defer mu.Unlock()
		if reported["quick/web"] != 1 || len(reported) != 1 {
			t.Errorf("reported %v", reported)
		}
	})
}
