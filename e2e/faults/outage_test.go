package faults

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"isthmus/e2e/harness"
	"isthmus/e2e/harness/kube"
	"isthmus/e2e/proxy"
	"isthmus/internal/adminapi"
)

// TestOutageLists checks that a replica resumes its watches after a short outage. A real API server
// must receive no request for a list of all objects while connections are refused for 2 s, and at
// most two such requests while connections flap.
func TestOutageLists(t *testing.T) {
	inTurn(t)
	w := newWorld(t, nil, "east")
	east := w.more[0]
	var lists atomic.Int32
	between, err := harness.StartFaultProxy(countLists(t, east, &lists))
	must(t, err)
	t.Cleanup(func() { must(t, between.Close()) })
	const name = "outage"
	far := newMember(east, name, "far", 200)
	must(t, east.apply(t.Context(), name, kube.Service(name, "far")))
	must(t, w.west.apply(t.Context(), name, kube.Mirror(name, "mirror", name, "far")))
	must(t, far.begin(t.Context()))
	server := clientcmdapi.Cluster{Server: "http://" + between.Addr()}
	text, err := kube.Kubeconfig(name, server, clientcmdapi.AuthInfo{Token: "t"})
	must(t, err)
	must(t, w.writeLink(t.Context(), kube.Link(name, text)))
	w.awaitState(t, name, "ready", recovery)
	stream := w.subscribeToNew(t, proxy.Get, "mirror", name)
	slice := 0
	followed := func() {
		t.Helper()
		w.awaitState(t, name, "ready", recovery)
		slice++
		addr := netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, east.subnet, 201, byte(slice)}), kube.Port)
		_, err := east.slice(t.Context(), name, "far", fmt.Sprint("new", slice), addr)
		must(t, err)
		await(t, patience, func() error {
			if now := stream.Snapshot(); !now.Get.Has(addr) {
				return fmt.Errorf("%v was not received", addr)
			}
			return nil
		})
	}
	down := func(d time.Duration) {
		t.Helper()
		must(t, between.Set(harness.FaultMode{Refuse: true}))
		between.ResetAll()
		must(t, harness.Pause(t.Context(), d))
		must(t, between.Set(harness.FaultMode{}))
	}
	followed()
	for _, c := range []struct {
		what  string
		most  int32
		fails func()
	}{
		{"connections refused for 2 s", 0, func() { down(2 * time.Second) }},
		{"flapping connections", 2, func() {
			for range 20 {
				down(500 * time.Millisecond)
				must(t, harness.Pause(t.Context(), 700*time.Millisecond))
			}
		}},
	} {
		before := lists.Load()
		c.fails()
		followed()
		n := lists.Load() - before
		t.Logf("%s: %d lists", c.what, n)
		if n > c.most {
			t.Errorf("%s: %d lists, want %d at most", c.what, n, c.most)
		}
	}
}

// TestRetryAfter returns status 429 with a Retry-After from a proxy in front of a real API server.
// Isthmus must not request the resource during the pause, and /debug/clusters must show the end of
// the pause.
func TestRetryAfter(t *testing.T) {
	inTurn(t)
	w := newWorld(t, nil, "east")
	const pause = 15 * time.Second
	var busy atomic.Bool
	var mu sync.Mutex
	var times []time.Time // requests for Pods while the server is busy
	server := inFront(t, w.more[0], func(w http.ResponseWriter, r *http.Request, forward http.HandlerFunc) {
		refuse := busy.Load()
		if strings.HasSuffix(r.URL.Path, "/pods") {
			mu.Lock()
			times = append(times, time.Now())
			mu.Unlock()
			if refuse {
				w.Header().Set("Retry-After", fmt.Sprint(int(pause.Seconds())))
				w.WriteHeader(http.StatusTooManyRequests)
				return
			}
		}
		forward(w, r)
	})
	const name = "busy"
	text, err := kube.Kubeconfig(name, clientcmdapi.Cluster{Server: server.URL}, clientcmdapi.AuthInfo{Token: "t"})
	must(t, err)
	must(t, w.writeLink(t.Context(), kube.Link(name, text)))
	w.awaitState(t, name, "ready", recovery)
	mu.Lock()
	times = nil
	mu.Unlock()
	busy.Store(true)
	server.CloseClientConnections()
	w.awaitState(t, name, "stale", notice)
	await(t, notice, func() error {
		c, err := w.cluster(t.Context(), name)
		if err != nil {
			return err
		}
		throttled := func(r adminapi.Resource) bool { return r.Resource == "pods" && !r.ThrottledUntil.IsZero() }
		if !slices.ContainsFunc(c.Resources, throttled) {
			return fmt.Errorf("the end of the pause is not shown: %+v", c.Resources)
		}
		return nil
	})
	busy.Store(false)
	w.awaitState(t, name, "ready", recovery+pause*2)
	mu.Lock()
	defer mu.Unlock()
	if len(times) < 2 || times[1].Sub(times[0]) < pause {
		t.Errorf("Pods were requested at %v", times)
	}
}

// inFront starts a proxy in front of an API server that makes every user an administrator.
func inFront(
	t *testing.T, s *site, answer func(w http.ResponseWriter, r *http.Request, forward http.HandlerFunc),
) *httptest.Server {
	t.Helper()
	target, err := url.Parse(s.cluster().REST().Host)
	must(t, err)
	transport, err := rest.TransportFor(s.cluster().REST())
	must(t, err)
	asAdmin := func(w http.ResponseWriter, r *http.Request, forward http.HandlerFunc) {
		r.Header.Del("Authorization") // the transport adds the administrator's credentials
		answer(w, r, forward)
	}
	return harness.Intercept(t, target, transport, asAdmin)
}

// countLists starts a proxy in front of an API server and returns its address. The proxy counts the
// pages of lists of all objects.
func countLists(t *testing.T, s *site, lists *atomic.Int32) (addr string) {
	return inFront(t, s, func(w http.ResponseWriter, r *http.Request, forward http.HandlerFunc) {
		q := r.URL.Query()
		isWatch, limit := q.Get("watch") == "true" || q.Get("watch") == "1", q.Get("limit")
		if limit != "" && limit != "1" && !isWatch {
			lists.Add(1)
		}
		forward(w, r)
	}).Listener.Addr().String()
}
