package cluster

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"k8s.io/apimachinery/pkg/watch"

	"isthmus/federation"
	"isthmus/internal/panics"
)

// TestPanicOfPolicy checks that opaque ports do not change while the evaluation of a namespace's
// Servers panics. The health lists the Servers as unusable. All changes take effect once the
// evaluation succeeds.
func TestPanicOfPolicy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := panics.New(zap.NewNop())
		go func() { _ = s.Run(t.Context()) }()
		w := newWorld(t, func(c *Config) { c.Supervisor = s })
		w.put(aService("web"), aPod("p", podLabel("app", "web")),
			aSlice("s", "web", "http=8080", "10.0.0.1 pod=p"), aServer("a", "8080", ""))
		w.marked()
		check := func(what, at8080, at9090 string, failures int) {
			t.Helper()
			if got := [2]string{w.opaqueAt(8080), w.opaqueAt(9090)}; got != [2]string{at8080, at9090} {
				t.Errorf("%s: opaque %q", what, got)
			}
			if n := len(s.Failures()); n != failures {
				t.Errorf("%s: %d failures", what, n)
			}
			list := w.Health().Unusable
			if len(list) != failures || failures > 0 && !strings.Contains(list[0], "Isthmus panicked") {
				t.Errorf("%s: unusable %q", what, list)
			}
		}
		check("before", "10.0.0.1:8080", "", 0)
		servers := w.cache.policies.byNamespace["ns"].servers
		servers["broken"] = &serverFacts{number: 1} // without a selector, which no decoded Server lacks
		w.put(aServer("b", "9090", ""))
		w.del(aServer("a", "", ""))
		check("broken", "10.0.0.1:8080", "", 1)
		delete(servers, "broken")
		time.Sleep(time.Minute)
		synctest.Wait()
		if list := w.marked(); !slices.Contains(list, "web") {
			t.Errorf("marked %q", list)
		}
		check("repaired", "", "10.0.0.1:9090", 0)
	})
}

// TestPanicOfChange checks that a panic in a report delays no other report of the namespace. The
// report that panicked is repeated.
func TestPanicOfChange(t *testing.T) {
	var mu sync.Mutex
	broken, tries := true, 0
	inCluster(t, func(c *Config, _ *fakeAPI) {
		report := c.Changed
		c.Supervisor = panics.New(zap.NewNop())
		c.Changed = func(svc federation.ServiceID, at time.Time) {
			mu.Lock()
			defer mu.Unlock()
			if svc.Name == "bad" {
				if tries++; broken {
					panic("boom")
				}
			}
			report(svc, at)
		}
	}, func(r *running) {
		go func() { _ = r.cfg.Supervisor.Run(r.t.Context()) }()
		r.until("synced", time.Minute, r.isSynced)
		r.api.send(watch.Added, aService("bad"))
		r.api.send(watch.Added, aService("good"))
		synctest.Wait()
		mu.Lock()
		if !slices.Equal(r.changes, []string{"good"}) || tries != 1 {
			t.Errorf("reported %q, tried %d times", r.changes, tries)
		}
		broken = false
		mu.Unlock()
		time.Sleep(panics.MinPause)
		synctest.Wait()
		if !slices.Equal(r.changes, []string{"good", "bad"}) || len(r.cfg.Supervisor.Failures()) != 0 {
			t.Errorf("reported %q, failures %+v", r.changes, r.cfg.Supervisor.Failures())
		}
	})
}

// TestPanicOfResource checks that a panic in the loop of one resource ends all lists and watches of
// a linked cluster. The cache stays, the health has the reason, and Run continues until its context
// ends.
func TestPanicOfResource(t *testing.T) {
	var broken atomic.Bool
	inCluster(t, func(c *Config, _ *fakeAPI) {
		c.Supervisor = panics.New(zap.NewNop())
		c.LinkChanged = func() {
			if broken.Load() {
				panic("boom")
			}
		}
	}, func(r *running) {
		r.until("synced", time.Minute, r.isSynced)
		broken.Store(true)
		changed := r.HealthChanged()
		r.api.send(watch.Added, aNode("n", "r1"))
		r.until("failed", time.Minute, func() bool { return r.Health().Failed })
		h := r.Health()
		const want = "nodes: Isthmus panicked, because of a bug: boom"
		if h.Err == nil || !strings.HasPrefix(h.Err.Error(), want) || h.StaleSince.IsZero() {
			t.Errorf("health: %v since %v", h.Err, h.StaleSince)
		}
		select {
		case <-changed:
		default:
			t.Error("the change of the health was not reported")
		}
		r.api.send(watch.Added, aService("late"))
		time.Sleep(time.Hour)
		synctest.Wait()
		if svc := (federation.ServiceID{Namespace: "ns", Name: "web"}); r.State(svc) != federation.Present {
			t.Error("cached objects were dropped")
		}
		if svc := (federation.ServiceID{Namespace: "ns", Name: "late"}); r.State(svc) != federation.Missing {
			t.Error("the cluster is still watched")
		}
		if n := r.cfg.Supervisor.Count(panics.Resource); n != 1 {
			t.Errorf("counted %d", n)
		}
	}, aService("web"))
}
