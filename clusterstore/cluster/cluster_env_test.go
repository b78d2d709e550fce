package cluster

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	clienttesting "k8s.io/client-go/testing"
	mcs "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"isthmus/clusterstore/crd"
	"isthmus/federation"
	"isthmus/internal/adminapi"
)

// trouble makes a fake API misbehave: per verb and resource ("list pods",
// "watch pods", "* pods", "* *"), the error to answer with.
type trouble struct {
	mu      sync.Mutex
	errs    map[string]error
	watches map[string][]watch.Interface
	ended   federation.Latest[struct{}] // set when all watches end
}

func troubled(api *fakeAPI) *trouble {
	tr := &trouble{errs: make(map[string]error), watches: make(map[string][]watch.Interface)}
	react := func(a clienttesting.Action) (bool, runtime.Object, error) {
		err := tr.find(a.GetVerb(), a.GetResource().Resource)
		return err != nil, nil, err
	}
	reactWatch := func(tracker clienttesting.ObjectTracker) clienttesting.WatchReactionFunc {
		return func(a clienttesting.Action) (bool, watch.Interface, error) {
			if err := tr.find(a.GetVerb(), a.GetResource().Resource); err != nil {
				return true, nil, err
			}
			w, err := tracker.Watch(a.GetResource(), a.GetNamespace())
			tr.mu.Lock()
			defer tr.mu.Unlock()
			name := a.GetResource().Resource
			tr.watches[name] = append(tr.watches[name], w)
			return true, w, err
		}
	}
	api.servers.read(tr, "servers")
	api.workloads.read(tr, "externalworkloads")
	api.profiles.read(tr, "serviceprofiles")
	api.exports.read(tr, "serviceexports")
	api.imports.read(tr, "serviceimports")
	api.typed.PrependReactor("list", "*", react)
	api.meta.PrependReactor("list", "*", react)
	api.typed.PrependWatchReactor("*", reactWatch(api.typed.Tracker()))
	api.meta.PrependWatchReactor("*", reactWatch(api.meta.Tracker()))
	return tr
}

func (tr *trouble) find(verb, resource string) error {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	for _, key := range []string{verb + " " + resource, "* " + resource, verb + " *", "* *"} {
		if err := tr.errs[key]; err != nil {
			return err
		}
	}
	return nil
}

// serves is API discovery, which has errors for the verb discover. What is absent has none.
func (tr *trouble) serves(_ context.Context, resource string, _ ...schema.GroupVersion) (bool, error) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	return !apierrors.IsNotFound(tr.errs["* "+resource]), tr.errs["discover "+resource]
}

func (tr *trouble) set(key string, err error) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.errs[key] = err
}

// cut ends all watches, as a server that goes away does.
func (tr *trouble) cut() {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	for _, list := range tr.watches {
		for _, w := range list {
			w.Stop()
		}
	}
	tr.watches = make(map[string][]watch.Interface)
	tr.ended.Set(struct{}{})
}

func forbidden(resource string) error {
	return apierrors.NewForbidden(schema.GroupResource{Resource: resource}, "", errors.New("no role"))
}

// running is a Cluster that reads a fake API in a synctest bubble.
type running struct {
	*Own
	t       *testing.T
	api     *fakeAPI
	trouble *trouble
	stop    func() // ends Run and waits for it

	mu      sync.Mutex
	changes []string // services reported as changed
}

func inCluster(t *testing.T, change func(*Config, *trouble), test func(*running), objects ...runtime.Object) {
	synctest.Test(t, func(t *testing.T) {
		api := newFakeAPI(objects...)
		r := &running{t: t, api: api, trouble: troubled(api)}
		cfg := testConfig()
		cfg.Changed = func(id federation.ServiceID, _ time.Time) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.changes = append(r.changes, id.Name)
		}
		if change != nil {
			change(&cfg, r.trouble)
		}
		if cfg.Exports != nil {
			api.serves = r.trouble.serves
		}
		r.Own = newOn(api, cfg)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); r.Run(ctx) }()
		r.stop = sync.OnceFunc(func() {
			cancel()
			before := time.Now()
			<-done
			if d := time.Since(before); d > 0 {
				t.Errorf("Run went on for %v after its context ended", d)
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

// until lets time pass until the condition holds, and fails after max.
func (r *running) until(what string, max time.Duration, ok func() bool) {
	r.t.Helper()
	for end := time.Now().Add(max); ; time.Sleep(10 * time.Millisecond) { // fake time: it only passes when all is still
		if synctest.Wait(); ok() {
			return
		}
		if time.Now().After(end) {
			r.t.Fatalf("%s: not within %v; health %+v", what, max, r.Health())
		}
	}
}

func (r *running) addrs() string {
	synctest.Wait()
	return addrs(r.Reader(federation.ServiceID{Namespace: "ns", Name: "web"}, 80).Read())
}

func (r *running) create(o metav1.Object) {
	r.t.Helper()
	var err error
	switch o := o.(type) {
	case *corev1.Pod:
		_, err = r.api.typed.CoreV1().Pods("ns").Create(context.Background(), o, metav1.CreateOptions{})
	case *corev1.Service:
		_, err = r.api.typed.CoreV1().Services("ns").Create(context.Background(), o, metav1.CreateOptions{})
	case *crd.Server:
		r.api.servers.add(o)
	case *crd.ExternalWorkload:
		r.api.workloads.add(o)
	case *crd.ServiceProfile:
		r.api.profiles.add(o)
	case *mcs.ServiceExport:
		r.api.exports.add(o)
	case *metav1.PartialObjectMetadata:
		gvr := schema.GroupVersionResource{Group: o.GroupVersionKind().Group, Version: "v1", Resource: strings.ToLower(o.Kind) + "s"}
		err = r.api.meta.Tracker().Create(gvr, o, o.Namespace)
	}
	if err != nil {
		r.t.Fatal(err)
	}
	synctest.Wait()
}

func (r *running) resource(name string) adminapi.Resource {
	for _, h := range r.Health().Resources {
		if h.Resource == name {
			return h
		}
	}
	r.t.Fatalf("no resource %s", name)
	return adminapi.Resource{}
}
