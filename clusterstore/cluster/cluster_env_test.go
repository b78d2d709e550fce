package cluster

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"isthmus/federation"
	"isthmus/internal/adminapi"
)

// running is a Cluster that reads a fake API in a synctest bubble.
type running struct {
	*Local
	t    *testing.T
	api  *fakeAPI
	stop func() // ends Run and waits for it

	mu      sync.Mutex
	changes []string // reported Services
}

func inCluster(t *testing.T, change func(*Config, *fakeAPI), test func(*running), objects ...metav1.Object) {
	synctest.Test(t, func(t *testing.T) {
		api := newFakeAPI(objects...)
		r := &running{t: t, api: api}
		cfg := testConfig()
		cfg.Changed = func(id federation.ServiceID, _ time.Time) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.changes = append(r.changes, id.Name)
		}
		if change != nil {
			change(&cfg, api)
		}
		r.Local = newOn(api, cfg)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); r.Run(ctx) }()
		r.stop = sync.OnceFunc(func() {
			cancel()
			before := time.Now()
			<-done
			if d := time.Since(before); d > 0 {
				t.Errorf("Run returned %v after its context ended", d)
			}
		})
		synctest.Wait()
		test(r)
		r.stop()
	})
}

func (r *running) isSynced() bool {
	synctest.Wait()
	select {
	case <-r.Synced():
		return true
	default:
		return false
	}
}

// until waits until ok returns true, and fails after max.
func (r *running) until(what string, max time.Duration, ok func() bool) {
	r.t.Helper()
	for end := time.Now().Add(max); ; time.Sleep(10 * time.Millisecond) { // the clock advances while all are idle
		if synctest.Wait(); ok() {
			return
		}
		if time.Now().After(end) {
			r.t.Fatalf("%s: did not happen within %v; health %+v", what, max, r.Health())
		}
	}
}

func (r *running) addrs() string {
	synctest.Wait()
	return addrs(r.Reader(federation.ServiceID{Namespace: "ns", Name: "web"}, 80).Read())
}

func (r *running) send(as watch.EventType, o metav1.Object) {
	r.api.send(as, o)
	synctest.Wait()
}

func (r *running) create(o metav1.Object) { r.send(watch.Added, o) }

func (r *running) resource(name string) adminapi.Resource {
	for _, h := range r.Health().Resources {
		if h.Resource == name {
			return h
		}
	}
	r.t.Fatalf("no resource %s", name)
	return adminapi.Resource{}
}
