package cluster

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"

	"isthmus/clusterstore/crd"
	"isthmus/clusterstore/decode/decodetest"
	"isthmus/clusterstore/typed/typedtest"
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

// TestDownAtStart: an API that is down for long is read soon after it is up.
func TestDownAtStart(t *testing.T) {
	for name, err := range map[string]error{"dial: connection refused": errRefused, "no answer in time": errTimeout, "who?": apierrors.NewUnauthorized("who?")} {
		t.Run(name, func(t *testing.T) {
			inCluster(t, func(_ *Config, tr *trouble) { tr.set("* *", err) }, func(r *running) {
				if h := r.Health(); h.Err == nil || !strings.HasSuffix(h.Err.Error(), "s: "+name) || !h.StaleSince.IsZero() {
					t.Errorf("after the first attempts: %+v", h)
				}
				time.Sleep(time.Hour)
				if r.isSynced() {
					t.Error("synced without an API")
				}
				r.trouble.set("* *", nil)
				r.until("sync", 5*time.Second, r.isSynced)
				if got := r.addrs(); got != "10.0.0.2:8080" {
					t.Errorf("got %q", got)
				}
				if h := r.Health(); h.Err != nil {
					t.Errorf("%+v", h)
				}
			}, aService("web", "http=80"), aSlice("s", "web", "http=8080", "10.0.0.2"))
		})
	}
}

// TestLost: objects stay while the API can't be reached, and it is watched again soon
// after it is back, whatever the failure was and however long it took.
func TestLost(t *testing.T) {
	for name, err := range map[string]error{"refused": errRefused, "silent": errTimeout} {
		t.Run(name, func(t *testing.T) {
			inCluster(t, nil, func(r *running) {
				time.Sleep(time.Minute)
				r.trouble.set("* *", err)
				began := time.Now()
				r.trouble.cut()
				changed := r.HealthChanged()
				r.until("loss", 5*time.Second, func() bool { return !r.Health().StaleSince.IsZero() })
				select {
				case <-changed:
				default:
					t.Error("HealthChanged was not closed by the loss")
				}
				time.Sleep(3 * time.Hour)
				h := r.Health()
				if h.Err == nil || h.StaleSince.Before(began) || h.StaleSince.After(began.Add(5*time.Second)) {
					t.Errorf("lost %v after it began: %+v", h.StaleSince.Sub(began), h)
				}
				if got := r.addrs(); got != "10.0.0.2:8080" {
					t.Errorf("while it is away, got %q", got)
				}
				r.trouble.set("* *", nil)
				r.until("return", 5*time.Second, func() bool { h := r.Health(); return h.Err == nil && h.StaleSince.IsZero() })
				r.create(aPod("p"))
				r.until("pod", time.Second, func() bool { return r.addrs() == "10.0.0.1:8080 10.0.0.2:8080" })
			}, aService("web", "http=80"), aSlice("s", "web", "http=8080", "10.0.0.1 pod=p", "10.0.0.2"))
		})
	}
}

// TestChangedMeanwhile: changes while the API could not be reached are found, also where
// a watch from the last version would miss them, as after a restored backup, or with
// these fakes.
//
// Behaviours: E-24, E-26, E-28, E-31.
func TestChangedMeanwhile(t *testing.T) {
	for name, err := range map[string]error{"refused": errRefused, "silent": errTimeout} {
		t.Run(name, func(t *testing.T) {
			inCluster(t, nil, func(r *running) {
				time.Sleep(time.Minute)
				r.trouble.set("* *", err)
				r.trouble.cut()
				r.create(aPod("p"))
				if err := r.api.typed.CoreV1().Pods("ns").Delete(context.Background(), "q", metav1.DeleteOptions{}); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Hour)
				if got := r.addrs(); got != "10.0.0.2:8080" {
					t.Errorf("got %q", got)
				}
				r.trouble.set("* *", nil)
				r.until("return", 5*time.Second, func() bool { return r.addrs() == "10.0.0.1:8080" })
				if len(r.changes) == 0 {
					t.Error("the change was not reported")
				}
			}, aService("web", "http=80"), aPod("q"), aSlice("s", "web", "http=8080", "10.0.0.1 pod=p", "10.0.0.2 pod=q"))
		})
	}
}

// TestForbiddenOptional: optional resources that are forbidden delay nothing and are
// retried.
func TestForbiddenOptional(t *testing.T) {
	inCluster(t, func(c *Config, tr *trouble) {
		withAddresses(c)
		for _, resource := range []string{"replicasets", "nodes"} {
			tr.set("* "+resource, forbidden(resource))
		}
		tr.set("* jobs", apierrors.NewNotFound(schema.GroupResource{Resource: "jobs"}, ""))
	}, func(r *running) {
		if !r.isSynced() {
			t.Fatalf("not synced: %+v", r.Health())
		}
		for _, name := range []string{"replicasets", "jobs", "nodes"} {
			if h := r.resource(name); h.Needed || h.Synced || h.Err == "" {
				t.Errorf("%+v", h)
			}
		}
		if h := r.Health(); h.Err != nil || !h.StaleSince.IsZero() {
			t.Errorf("%+v", h)
		}
		owner := func() string {
			synctest.Wait()
			return describe(r.Reader(web80.Service, 80).Read().Slices[0].Endpoints[0])
		}
		if got := owner(); !strings.Contains(got, "replicaset:web-1") {
			t.Errorf("got %s", got)
		}
		rs := metadataOf("ReplicaSet", "web-1", "Deployment", "web")
		rs.APIVersion = "apps/v1"
		r.create(rs)
		time.Sleep(time.Hour)
		r.trouble.set("* replicasets", nil)
		r.until("owner", 30*time.Second, func() bool { return strings.Contains(owner(), "deployment:web") })
		if h := r.resource("replicasets"); !h.Synced || h.Err != "" || h.Objects != 1 {
			t.Errorf("%+v", h)
		}
	}, aService("web", "http=80"), aPod("p", ownedBy("ReplicaSet", "web-1")), aSlice("s", "web", "http=8080", "10.0.0.1 pod=p"))
}

var web80 = federation.Key{Service: federation.ServiceID{Namespace: "ns", Name: "web"}, Port: 80}

// TestListedNotWatched: a resource that can be listed but not watched is a failure.
func TestListedNotWatched(t *testing.T) {
	inCluster(t, func(_ *Config, tr *trouble) { tr.set("watch pods", forbidden("pods")) }, func(r *running) {
		if !r.isSynced() {
			t.Fatalf("not synced: %+v", r.Health())
		}
		for range 100 {
			time.Sleep(time.Second)
			if h := r.Health(); h.Err == nil || h.StaleSince.IsZero() {
				t.Fatalf("%+v", h)
			}
		}
	})
}

// TestCallbacks: ServiceChanged and NodeChanged get all changes in order, and ProfileChanged and
// OwnerChanged the addresses of a Pod.
func TestCallbacks(t *testing.T) {
	var got []string
	var owned chan string
	inCluster(t, func(c *Config, _ *trouble) {
		got, owned = nil, make(chan string, 1)
		withAddresses(c)
		c.own.ServiceChanged = func(id federation.ServiceID) { got = append(got, id.String()) }
		c.own.NodeChanged = func(name, zone string, exists bool) {
			if !exists {
				zone = "gone"
			}
			got = append(got, name+" "+zone)
		}
		c.own.ProfileChanged = func(about Topic, _ time.Time) {
			if about.IP.IsValid() {
				got = append(got, about.IP.String())
			}
		}
		c.own.OwnerChanged = func(ip netip.Addr) { owned <- ip.String() }
	}, func(r *running) {
		ctx := context.Background()
		services := r.api.typed.CoreV1().Services("ns")
		s := aService("web", "http=80")
		for _, text := range []string{"1", "1", "2"} { // the second changes nothing
			s.Annotations = map[string]string{"mirror.linkerd.io/x": text, "isthmus.io/x": "+" + text, "other": "noise"}
			if _, err := services.Update(ctx, s, metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if kept := r.Service(web80.Service).Annotations; len(kept) != 2 || kept["isthmus.io/x"] != "+"+text {
				t.Errorf("annotations %v", kept)
			}
		}
		if err := services.Delete(ctx, "web", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		nodes, gvr := r.api.meta.Tracker(), schema.GroupVersionResource{Version: "v1", Resource: "nodes"}
		node := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"}, ObjectMeta: metav1.ObjectMeta{Name: "n1"}}
		r.create(node)
		node = node.DeepCopy()
		node.Labels = map[string]string{zoneLabel: "z1"}
		if err := errors.Join(nodes.Update(gvr, node, ""), nodes.Update(gvr, node.DeepCopy(), ""), nodes.Delete(gvr, "", "n1")); err != nil {
			t.Fatal(err)
		}
		synctest.Wait() // Pods have a watch of their own
		r.create(aPod("p", at("10.0.0.1")))
		if ip := <-owned; ip != "10.0.0.1" {
			t.Errorf("the owner of %s has changed", ip)
		}
		if got, want := strings.Join(got, ", "), "ns/web, ns/web, ns/web, ns/web, n1 , n1 z1, n1 gone, 10.0.0.1"; got != want {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
	}, aService("web", "http=80"))
}

// hanging is a client whose lists get no answer.
type hanging[L runtime.Object] struct{ decodetest.Lister[L] }

func (hanging[L]) List(ctx context.Context, _ metav1.ListOptions) (none L, err error) {
	<-ctx.Done()
	return none, ctx.Err()
}

// hangingMetadata is one for metadata.
type hangingMetadata struct{ metadata.Interface }

func (h hangingMetadata) Resource(r schema.GroupVersionResource) metadata.Getter {
	return hangingGetter{h.Interface.Resource(r)}
}

type hangingGetter struct{ metadata.Getter }

func (g hangingGetter) List(ctx context.Context, o metav1.ListOptions) (*metav1.PartialObjectMetadataList, error) {
	return hanging[*metav1.PartialObjectMetadataList]{g.Getter}.List(ctx, o)
}

// TestHangingOptional: an optional resource without answer delays the first sync only for
// optionalGrace.
func TestHangingOptional(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := testConfig()
		api := newFakeAPI()
		cfg.Client = api.client()
		cfg.Client.Sources = decodetest.Sources(typedtest.Clients(api.typed), hangingMetadata{api.meta})
		cfg.Client.Sources.Servers = decodetest.New[*crd.Server](hanging[*crd.ServerList]{api.crd.servers()})
		cfg.Client.Sources.Workloads = decodetest.New[*crd.ExternalWorkload](hanging[*crd.ExternalWorkloadList]{api.crd.workloads()})
		c, err := New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- c.Run(ctx) }()
		<-c.Synced()
		if d := time.Since(began); d != 3*time.Second {
			t.Errorf("synced after %v", d)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if err := c.Run(t.Context()); err == nil {
			t.Error("a second Run was not refused")
		}
	})
}

func TestNewRefuses(t *testing.T) {
	cfg := testConfig()
	if _, err := New(cfg); err == nil {
		t.Error("no client was accepted")
	}
	cfg.Client = newFakeAPI().client()
	if _, err := New(cfg); err != nil {
		t.Error(err)
	}
	if own, err := NewOwn(cfg, *ownConfig()); err != nil || own.Owner(netip.Addr{}) != "" {
		t.Error(err)
	}
}

// TestChangedInTurn: while the report of one namespace's change takes long, those of
// others come.
func TestChangedInTurn(t *testing.T) {
	var held chan struct{}
	var mu sync.Mutex
	reported := make(map[string]int)
	inCluster(t, func(c *Config, _ *trouble) {
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
		for _, id := range []federation.ServiceID{{Namespace: "slow", Name: "a"}, {Namespace: "slow", Name: "b"}, {Namespace: "quick", Name: "web"}} {
			s := aService(id.Name, "http=80")
			s.Namespace = id.Namespace
			if _, err := r.api.typed.CoreV1().Services(id.Namespace).Create(t.Context(), s, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		mu.Lock()
		defer mu.Unlock()
		if reported["quick/web"] != 1 || len(reported) != 1 {
			t.Errorf("reported %v", reported)
		}
	})
}

// TestNoServiceProfiles: where ServiceProfiles can't be listed all else works, and the
// health has the error.
func TestNoServiceProfiles(t *testing.T) {
	inCluster(t, func(c *Config, tr *trouble) {
		withAddresses(c)
		tr.set("* serviceprofiles", forbidden("serviceprofiles"))
	}, func(r *running) {
		if !r.isSynced() {
			t.Fatalf("not synced: %+v", r.Health())
		}
		if got := describeFound(r.LookupAddress(netip.MustParseAddrPort("10.0.0.1:80"))); got != "10.0.0.1:80"+podDescribed {
			t.Errorf("got %s", got)
		}
		if h := r.resource("serviceprofiles"); h.Needed || h.Synced || !strings.Contains(h.Err, "forbidden") || r.Health().Err != nil {
			t.Errorf("%+v", h)
		}
		r.trouble.set("* serviceprofiles", nil)
		r.create(aProfile("web.ns", `{}`))
		r.until("ServiceProfiles", 30*time.Second, func() bool {
			_, exists := r.ServiceProfile("ns", "web.ns.svc.cluster.local")
			return exists && r.resource("serviceprofiles").Err == ""
		})
	}, aPod("p", at("10.0.0.1")))
}
