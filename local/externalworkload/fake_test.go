package externalworkload

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"
	clienttesting "k8s.io/client-go/testing"

	"isthmus/clusterstore/decode"
	"isthmus/clusterstore/kube"
	"isthmus/federation"
)

// cluster is an in-memory local cluster that a Writer reads and writes.
type cluster struct {
	t   testing.TB
	api *fake.Clientset

	mu        sync.Mutex
	writer    *Writer // notified of changes; may be nil
	services  []*corev1.Service
	workloads []*decode.ExternalWorkload
	unread    error            // the error of reading workloads
	errs      map[string]error // by the verb of writes of slices, or "leases"
	walks     int              // calls of Workloads
	matches   atomic.Int64     // calls of SelectingIn
	has       *world
	writes    []string // "create" and so on
}

// clientsOf returns the clients of a Writer that use client-go's fake clientset.
func clientsOf(api kubernetes.Interface) *kube.Clients {
	return &kube.Clients{
		CoordinationV1Interface: api.CoordinationV1(),
		CoreV1Interface:         api.CoreV1(),
		DiscoveryV1Interface:    api.DiscoveryV1(),
	}
}

func newCluster(t testing.TB, services ...*corev1.Service) *cluster {
	c := &cluster{t: t, api: new(fake.Clientset), has: &world{t: t}, services: services, errs: make(map[string]error)}
	c.api.AddReactor("*", "endpointslices", c.react)
	c.api.AddReactor("*", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.errs["leases"] != nil, nil, c.errs["leases"]
	})
	// The tracker of a new clientset records managed fields, which would take most of the test's
	// time.
	c.api.AddReactor("*", "*", clienttesting.ObjectReaction(clienttesting.NewObjectTracker(
		scheme.Scheme, scheme.Codecs.UniversalDecoder(),
	)))
	return c
}

// react handles requests for slices like an API server, or returns the error that the test has set.
func (c *cluster) react(a clienttesting.Action) (bool, runtime.Object, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.errs[a.GetVerb()]; err != nil {
		return true, nil, err
	}
	now := new(discoveryv1.EndpointSlice)
	switch a := a.(type) {
	case clienttesting.ListActionImpl:
		list := new(discoveryv1.EndpointSliceList)
		for _, s := range c.has.slices {
			list.Items = append(list.Items, *s.DeepCopy())
		}
		return true, list, nil
	case clienttesting.CreateActionImpl:
		if now = a.Object.(*discoveryv1.EndpointSlice); now.ResourceVersion != "" {
			return true, nil, apierrors.NewInternalError(errors.New(
				"resourceVersion should not be set on objects to be created",
			))
		}
		now = c.has.create(now)
	case clienttesting.UpdateActionImpl:
		now = a.Object.(*discoveryv1.EndpointSlice)
		if !c.isRead(now.Name, &now.UID, &now.ResourceVersion) {
			return true, nil, errChanged
		}
		now = c.has.update(now)
		c.has.names++
	case clienttesting.DeleteActionImpl:
		if p := a.DeleteOptions.Preconditions; p == nil || !c.isRead(a.Name, p.UID, p.ResourceVersion) {
			return true, nil, errChanged
		}
		c.has.remove(a.Name)
	}
	now.ResourceVersion = strconv.Itoa(c.has.names)
	c.writes = append(c.writes, a.GetVerb())
	if w := c.writer; w != nil {
		time.AfterFunc(time.Millisecond, func() { w.Changed(federation.ServiceID{Namespace: "ns", Name: "web"}) })
	}
	return true, now.DeepCopy(), nil
}

var errChanged = apierrors.NewConflict(discoveryv1.Resource("endpointslices"), "x", errors.New("another version"))

// isRead reports whether the stored slice has the given UID and version.
func (c *cluster) isRead(name string, uid *types.UID, version *string) bool {
	have := c.has.slices[c.has.index(name)]
	return uid != nil && *uid == have.UID && version != nil && *version == have.ResourceVersion
}

// The following methods implement Cluster.

func (c *cluster) Synced() <-chan struct{} {
	closed := make(chan struct{})
	close(closed)
	return closed
}

func (c *cluster) Reads(resource string) (listed bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if resource == workloadsName {
		err = c.unread
	}
	return err == nil, err
}

func (c *cluster) Selecting(id federation.ServiceID) *corev1.Service {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := slices.IndexFunc(c.services, func(svc *corev1.Service) bool { return nameOf(svc) == id })
	if i < 0 {
		return nil
	}
	return c.services[i]
}

func (c *cluster) SelectingIn(namespace string) []*corev1.Service {
	c.matches.Add(1)
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(c.services), func(svc *corev1.Service) bool {
		return svc.Namespace != namespace
	})
}

func (c *cluster) Workloads(namespace string) []*decode.ExternalWorkload {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.walks++
	return slices.DeleteFunc(slices.Clone(c.workloads), func(w *decode.ExternalWorkload) bool {
		return namespace != "" && w.Namespace != namespace
	})
}

func (c *cluster) HasWorkloads(string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.workloads) > 0
}

func (c *cluster) ManagedSlices(id federation.ServiceID) int { return c.AllManagedSlices()[id] }

func (c *cluster) AllManagedSlices() map[federation.ServiceID]int {
	all := make(map[federation.ServiceID]int)
	for _, s := range c.slices() {
		if s.Labels[discoveryv1.LabelManagedBy] == Mark {
			all[federation.ServiceID{Namespace: s.Namespace, Name: s.Labels[discoveryv1.LabelServiceName]}]++
		}
	}
	return all
}

func (c *cluster) slices() []*discoveryv1.EndpointSlice {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.has.slices)
}

// put stores an object like another client, and notifies the Writer.
func (c *cluster) put(objects ...metav1.Object) {
	c.t.Helper()
	for _, o := range objects {
		c.mu.Lock()
		w, changed := c.writer, func() {}
		switch o := o.(type) {
		case *corev1.Service:
			c.services = append(
				slices.DeleteFunc(slices.Clone(c.services), func(s *corev1.Service) bool { return s.Name == o.Name }),
				o,
			)
			changed = func() { w.Changed(nameOf(o)) }
		case *decode.ExternalWorkload:
			var before *decode.ExternalWorkload
			if i := slices.IndexFunc(c.workloads, func(w *decode.ExternalWorkload) bool {
				return w.Name == o.Name
			}); i >= 0 {
				before, c.workloads = c.workloads[i], slices.Delete(slices.Clone(c.workloads), i, i+1)
			}
			c.workloads = append(c.workloads, o)
			changed = func() { w.WorkloadChanged(before, o) }
		case *discoveryv1.EndpointSlice:
			c.has.update(o)
			changed = func() { w.Changed(federation.ServiceID{Namespace: "ns", Name: "web"}) }
		}
		c.mu.Unlock()
		if w != nil {
			changed()
		}
	}
}

// testLeadership is a leadership whose loop does not run.
type testLeadership struct {
	*leadership
	*cluster
}

// held is a Lease that is never lost.
type held struct{}

func (held) Write(write func(context.Context) error) error { return write(context.Background()) }

func newTestLeadership(t testing.TB, services ...*corev1.Service) testLeadership {
	t.Helper()
	c := newCluster(t, services...)
	w, err := New(Options{
		Client:     clientsOf(c.api),
		Namespace:  "linkerd",
		Identity:   "a",
		Registerer: prometheus.NewRegistry(),
		Log:        zap.NewNop(),
	})
	must(t, err)
	w.SetCluster(c)
	return testLeadership{newLeadership(w, held{}), c}
}

// sync syncs a Service. The test fails if sync returns an error.
func (x testLeadership) sync(svc *corev1.Service) (wrote bool) {
	wrote, err := x.leadership.sync(x.t.Context(), nameOf(svc))
	must(x.t, err)
	return wrote
}

// replica is a Writer that is the leader.
type replica struct {
	*Writer
	*cluster
	log      *observer.ObservedLogs
	registry *prometheus.Registry
	stop     func() // ends Run and waits for it
}

// running runs a test in a bubble. The replica has already written vm-1 and vm-2 of Service web.
func running(t *testing.T, test func(r *replica)) {
	synctest.Test(t, func(t *testing.T) {
		core, log := observer.New(zap.DebugLevel)
		r := &replica{cluster: newCluster(t), log: log, registry: prometheus.NewRegistry()}
		r.put(
			aService("web", "http=80/8080"),
			aWorkload("vm-1", "10.0.0.1", "8080"),
			aWorkload("vm-2", "10.0.0.2", "8080"),
		)
		w, err := New(Options{
			Client:       clientsOf(r.api),
			Namespace:    "linkerd",
			Identity:     "a",
			QueueMetrics: true,
			Registerer:   r.registry,
			Log:          zap.New(core),
		})
		must(t, err)
		w.SetCluster(r.cluster)
		r.Writer, r.writer = w, w
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- w.Run(ctx) }()
		r.stop = sync.OnceFunc(func() { cancel(); must(t, <-done) })
		r.pass(5*time.Second, "create")
		r.want("IPv4 http=8080/TCP: vm-1=10.0.0.1 vm-2=10.0.0.2")
		test(r)
		r.stop()
		time.Sleep(time.Second) // wait for the last notifications
	})
}

// pass advances the clock by d, and checks the writes since the last call.
func (r *replica) pass(d time.Duration, writes string) {
	r.t.Helper()
	time.Sleep(d)
	synctest.Wait()
	r.cluster.mu.Lock()
	defer r.cluster.mu.Unlock()
	if got := strings.Join(r.writes, ", "); got != writes {
		r.t.Errorf("writes %q, want %q", got, writes)
	}
	r.writes = nil
}

// want checks all slices of web that the Writer manages.
func (r *replica) want(want string) {
	r.t.Helper()
	w := &world{}
	for _, s := range r.slices() {
		if s.Labels[discoveryv1.LabelManagedBy] == Mark && s.Labels[discoveryv1.LabelServiceName] == "web" {
			w.slices = append(w.slices, s)
		}
	}
	if got := w.String(); got != want {
		r.t.Errorf("slices\n%s\nwant\n%s", got, want)
	}
}

// fail makes writes of slices with that verb fail, or all requests for leases. If err is nil, they
// succeed again.
func (c *cluster) fail(verb string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.errs[verb] = err
}

// remove deletes a slice like another client.
func (c *cluster) remove(s *discoveryv1.EndpointSlice) {
	c.mu.Lock()
	c.has.remove(s.Name)
	c.mu.Unlock()
	c.writer.Changed(federation.ServiceID{Namespace: "ns", Name: "web"})
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
