package externalworkload

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"
	clienttesting "k8s.io/client-go/testing"

	own "isthmus/clusterstore/cluster"
	"isthmus/clusterstore/crd"
	"isthmus/clusterstore/typed/typedtest"
	"isthmus/federation"
)

// testTerm is a term that does not run, on a cluster that a test makes.
type testTerm struct {
	*term
	still *still
	api   *fake.Clientset
}

// still is a cluster that is as it is.
type still struct {
	Cluster   // nil: nothing else is asked
	services  []*corev1.Service
	workloads []*crd.ExternalWorkload
	marked    int // slices of each Service
	walks     int // calls of Workloads
}

func (s *still) Selecting(id federation.ServiceID) *corev1.Service {
	for _, svc := range s.services {
		if nameOf(svc) == id {
			return svc
		}
	}
	return nil
}

func (s *still) SelectingIn(namespace string) []*corev1.Service {
	return slices.DeleteFunc(slices.Clone(s.services), func(svc *corev1.Service) bool { return svc.Namespace != namespace })
}

func (s *still) Workloads(string) []*crd.ExternalWorkload {
	s.walks++
	return slices.Clone(s.workloads)
}

func (s *still) HasWorkloads(string) bool        { return len(s.workloads) > 0 }
func (s *still) Marked(federation.ServiceID) int { return s.marked }

// held is a lease that is never lost.
type held struct{}

func (held) Write(write func(context.Context) error) error { return write(context.Background()) }

func newTestTerm(t testing.TB, services ...*corev1.Service) testTerm {
	t.Helper()
	api, s := fake.NewClientset(), &still{services: services}
	w, err := New(Options{Client: typedtest.Clients(api), Namespace: "linkerd", Identity: "a"})
	if err != nil {
		t.Fatal(err)
	}
	w.Follow(s)
	term := newTerm(w, held{})
	t.Cleanup(term.queue.ShutDown)
	return testTerm{term, s, api}
}

// cluster is an API in memory, in a synctest bubble, and the replicas that write there.
type cluster struct {
	t         *testing.T
	tracker   clienttesting.ObjectTracker
	api       *fake.Clientset
	workloads *fakeWorkloads

	mu      sync.Mutex
	errs    map[string]error // by "REPLICA VERB RESOURCE" or "* VERB RESOURCE"
	names   int
	version int                   // of the Lease, and of slices
	isLease *coordinationv1.Lease // nil: there is none
	slow    slowness
	writes  []string // "a create" and so on: who has written slices
}

func inCluster(t *testing.T, test func(*cluster)) {
	synctest.Test(t, func(t *testing.T) {
		// The tracker of a new clientset keeps managed fields, which takes most of the test's time.
		c := &cluster{t: t, tracker: clienttesting.NewObjectTracker(scheme.Scheme, scheme.Codecs.UniversalDecoder()), workloads: newFakeWorkloads(), errs: make(map[string]error)}
		c.api = new(fake.Clientset)
		c.api.AddReactor("*", "*", clienttesting.ObjectReaction(c.tracker))
		test(c)
	})
}

// stamp gives a slice a version. c.mu is held.
func (c *cluster) stamp(s *discoveryv1.EndpointSlice) {
	c.version++
	s.ResourceVersion = strconv.Itoa(c.version)
}

// react does what an API server does and the fake does not: names, versions, and
// the failures that the test sets.
func (c *cluster) react(who string) clienttesting.ReactionFunc {
	return func(a clienttesting.Action) (bool, runtime.Object, error) {
		c.mu.Lock()
		defer c.mu.Unlock()
		resource := a.GetResource().Resource
		for _, key := range []string{who + " " + a.GetVerb() + " " + resource, who + " * *", "* " + a.GetVerb() + " " + resource} {
			if err := c.errs[key]; err != nil {
				return true, nil, err
			}
		}
		if resource == "leases" {
			return c.reactLease(a)
		}
		if resource != "endpointslices" {
			return false, nil, nil
		}
		switch a := a.(type) {
		case clienttesting.CreateActionImpl:
			c.names++
			s := a.Object.(*discoveryv1.EndpointSlice)
			s.Name = s.GenerateName + string(rune('a'+c.names%26)) + strings.Repeat("z", c.names/26)
			s.UID = types.UID("uid-of-" + s.Name)
			c.stamp(s)
			c.writes = append(c.writes, who+" create")
		case clienttesting.UpdateActionImpl:
			c.stamp(a.Object.(*discoveryv1.EndpointSlice))
			c.writes = append(c.writes, who+" update")
		case clienttesting.DeleteActionImpl:
			c.writes = append(c.writes, who+" delete")
		}
		return false, nil, nil
	}
}

// reactLease keeps the one Lease, and two replicas from taking the same version of it.
func (c *cluster) reactLease(a clienttesting.Action) (bool, runtime.Object, error) {
	resource := a.GetResource().GroupResource()
	switch is := c.isLease; {
	case a.GetVerb() == "create":
		return true, c.store(a.(clienttesting.CreateActionImpl).Object.(*coordinationv1.Lease)), nil
	case is == nil:
		return true, nil, apierrors.NewNotFound(resource, leaseName)
	case a.GetVerb() == "update":
		l := a.(clienttesting.UpdateActionImpl).Object.(*coordinationv1.Lease)
		if l.ResourceVersion != is.ResourceVersion {
			return true, nil, apierrors.NewConflict(resource, leaseName, errors.New("another version"))
		}
		return true, c.store(l), nil
	}
	return true, c.isLease.DeepCopy(), nil
}

// store keeps a Lease as a new version. c.mu is held.
func (c *cluster) store(l *coordinationv1.Lease) *coordinationv1.Lease {
	c.version++
	c.isLease = l.DeepCopy()
	c.isLease.ResourceVersion = strconv.Itoa(c.version)
	return c.isLease.DeepCopy()
}

// replica is a Writer that runs, on a cluster that it follows by itself.
type replica struct {
	*Writer
	c        *cluster
	log      *observer.ObservedLogs
	registry *prometheus.Registry
	stop     func() // ends Run and waits for it
}

func (r *replica) leads() bool { return r.leading() != nil }

// start runs a replica, on a client of its own.
func (c *cluster) start(identity string) *replica {
	c.t.Helper()
	r := &replica{c: c, registry: prometheus.NewRegistry()}
	client := new(fake.Clientset)
	client.AddReactor("*", "*", c.react(identity))
	client.AddReactor("*", "*", clienttesting.ObjectReaction(c.tracker))
	client.AddWatchReactor("*", func(a clienttesting.Action) (bool, watch.Interface, error) {
		if handled, _, err := c.react(identity)(a); handled {
			return true, nil, err
		}
		w, err := c.tracker.Watch(a.GetResource(), a.GetNamespace())
		return true, w, err
	})
	core, log := observer.New(zap.DebugLevel)
	r.log = log
	w, err := New(Options{Client: c.slow.clients(client), Namespace: "linkerd", Identity: identity, QueueMetrics: true, Registerer: r.registry, Log: zap.New(core)})
	if err != nil {
		c.t.Fatal(err)
	}
	r.Writer = w
	followed, err := own.NewOwn(own.Config{
		Client: newKubeClient(client, fakeWorkloadsOn(c.workloads.tracker, c.react(identity))), Rules: own.Rules{EndpointSlices: true}, Log: zap.NewNop(),
		Changed: func(svc federation.ServiceID, _ time.Time) { w.Changed(svc) },
	}, own.OwnConfig{
		ServiceChanged: func(federation.ServiceID) {}, NodeChanged: func(string, string, bool) {},
		ProfileChanged: func(own.Topic, time.Time) {},
		SliceManager:   Mark, WorkloadChanged: w.WorkloadChanged,
	})
	if err != nil {
		c.t.Fatal(err)
	}
	w.Follow(followed)
	ctx, cancel := context.WithCancel(c.t.Context())
	done := make(chan error, 2)
	go func() { done <- w.Run(ctx) }()
	following, forget := context.WithCancel(c.t.Context())
	go func() { followed.Run(following); done <- nil }()
	r.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			c.t.Errorf("Run: %v", err)
		}
		forget()
		<-done
	})
	c.t.Cleanup(r.stop)
	return r
}

// fail makes requests fail: "REPLICA VERB RESOURCE", "REPLICA * *", "* VERB
// RESOURCE"; nil: they succeed again.
func (c *cluster) fail(what string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.errs[what] = err
}

// written returns the writes since it was last asked.
func (c *cluster) written() string {
	synctest.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	s := strings.Join(c.writes, ", ")
	c.writes = nil
	return s
}

// until lets time pass until the condition holds, and fails after max.
func (c *cluster) until(what string, max time.Duration, ok func() bool) {
	c.t.Helper()
	for end := time.Now().Add(max); ; time.Sleep(10 * time.Millisecond) { // fake time: it only passes when all is still
		if synctest.Wait(); ok() {
			return
		}
		if time.Now().After(end) {
			c.t.Fatalf("%s: not within %v", what, max)
		}
	}
}

// pass lets time pass.
func (c *cluster) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func (c *cluster) deleteWorkload(name string) {
	c.t.Helper()
	if err := c.workloads.in("ns").Delete(c.t.Context(), name, metav1.DeleteOptions{}); err != nil {
		c.t.Fatal(err)
	}
}

func (c *cluster) put(o runtime.Object) {
	c.t.Helper()
	var err error
	ctx := context.Background()
	switch o := o.(type) {
	case *corev1.Service:
		if _, err = c.api.CoreV1().Services(o.Namespace).Update(ctx, o, metav1.UpdateOptions{}); err != nil {
			_, err = c.api.CoreV1().Services(o.Namespace).Create(ctx, o, metav1.CreateOptions{})
		}
	case *discoveryv1.EndpointSlice:
		c.mu.Lock()
		c.stamp(o)
		c.mu.Unlock()
		if _, err = c.api.DiscoveryV1().EndpointSlices(o.Namespace).Update(ctx, o, metav1.UpdateOptions{}); err != nil {
			_, err = c.api.DiscoveryV1().EndpointSlices(o.Namespace).Create(ctx, o, metav1.CreateOptions{})
		}
	case *crd.ExternalWorkload:
		if _, err = c.workloads.in(o.Namespace).Update(ctx, o, metav1.UpdateOptions{}); err != nil {
			_, err = c.workloads.in(o.Namespace).Create(ctx, o, metav1.CreateOptions{})
		}
	}
	if err != nil {
		c.t.Fatal(err)
	}
	synctest.Wait() // fake watches hold few events
}

// slices returns all slices.
func (c *cluster) slices() *world {
	c.t.Helper()
	synctest.Wait()
	list, err := c.api.DiscoveryV1().EndpointSlices("").List(context.Background(), metav1.ListOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	w := &world{t: c.t}
	for i := range list.Items {
		w.slices = append(w.slices, &list.Items[i])
	}
	return w
}

// lease returns the holder of the Lease; empty: none.
func (c *cluster) lease() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.isLease == nil || c.isLease.Spec.HolderIdentity == nil {
		return ""
	}
	return *c.isLease.Spec.HolderIdentity
}

// hold writes a holder into the Lease.
func (c *cluster) hold(who string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.isLease.DeepCopy()
	l.Spec.HolderIdentity = &who
	c.store(l)
}
