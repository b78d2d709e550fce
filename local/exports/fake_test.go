package exports

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	clienttesting "k8s.io/client-go/testing"
	mcs "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"isthmus/internal/sleep"
	"isthmus/local/exports/object"
	"isthmus/local/exports/plan"
)

// world is a cluster in memory, with links to others.
type world struct {
	t   *testing.T
	api *fake.Clientset

	slow    atomic.Int64 // how long it takes to read, as a duration
	mu      sync.Mutex
	delay   func(service string) time.Duration // of each read of a Service before it is written; nil: none
	changed chan struct{}
	links   []plan.Cluster
	stale   map[plan.ID]*plan.Service // what is read in place of what there is
	writes  []string
	uids    int
	before  func(verb string, id plan.ID) error // each write; may be nil

	version string // of the MCS-API; empty: there is none
	imports *kind[*mcs.ServiceImport, mcs.ServiceImport]
	exports *kind[*mcs.ServiceExport, mcs.ServiceExport]
	unseen  bool // ServiceImports have been listed when there was none
}

func newWorld(t *testing.T, links ...plan.Cluster) *world {
	w := &world{t: t, api: fake.NewClientset(), changed: make(chan struct{}), links: links, stale: make(map[plan.ID]*plan.Service)}
	w.imports = &kind[*mcs.ServiceImport, mcs.ServiceImport]{w: w, name: "import", all: make(map[plan.ID]*mcs.ServiceImport), keep: func(to, from *mcs.ServiceImport, status bool) {
		if status {
			to.ObjectMeta, to.Spec = from.ObjectMeta, from.Spec
		} else {
			to.Status = from.Status
		}
	}}
	w.exports = &kind[*mcs.ServiceExport, mcs.ServiceExport]{w: w, name: "export", all: make(map[plan.ID]*mcs.ServiceExport), keep: func(to, from *mcs.ServiceExport, _ bool) {
		to.ObjectMeta, to.Spec = from.ObjectMeta, from.Spec
	}}
	w.api.PrependReactor("*", "services", func(a clienttesting.Action) (bool, runtime.Object, error) {
		id := plan.ID{Namespace: a.GetNamespace()}
		switch a := a.(type) {
		case clienttesting.CreateActionImpl: // updates too
			id.Name = a.Object.(*corev1.Service).Name
		case clienttesting.UpdateActionImpl:
			id.Name = a.Object.(*corev1.Service).Name
		case clienttesting.DeleteActionImpl:
			id.Name = a.Name
		default:
			return false, nil, nil
		}
		w.mu.Lock()
		before := w.before
		w.mu.Unlock()
		if before != nil {
			if err := before(a.GetVerb(), id); err != nil {
				return true, nil, err
			}
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		if c, ok := a.(clienttesting.CreateActionImpl); ok && a.GetVerb() == "create" {
			w.uids++
			o := c.Object.(*corev1.Service)
			o.UID, o.Spec.ClusterIPs = types.UID(fmt.Sprint("uid-", w.uids)), []string{fmt.Sprint("10.96.0.", w.uids)}
		}
		w.writes = append(w.writes, a.GetVerb()+" "+id.String())
		w.touch()
		return false, nil, nil
	})
	return w
}

// touch has the writer look again, once what is being written is there. w.mu is held.
func (w *world) touch() {
	changed := w.changed
	w.changed = make(chan struct{})
	time.AfterFunc(time.Millisecond, func() { close(changed) })
}

func (w *world) change(f func()) {
	w.mu.Lock()
	f()
	w.touch()
	w.mu.Unlock()
}

func (w *world) watch() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.changed
}

func (w *world) read() (plan.World, bool) {
	time.Sleep(time.Duration(w.slow.Load()))
	all, err := w.api.CoreV1().Services("").List(context.Background(), metav1.ListOptions{})
	if err != nil {
		w.t.Error(err)
		return plan.World{}, false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	is := plan.World{
		Settings: plan.Settings{Controller: "linkerd", ClusterName: "local", Labels: true, ServiceExports: true, UnlinkedAfter: 10 * time.Minute},
		Now:      time.Now(), Clusters: append([]plan.Cluster{}, w.links...), Namespaces: map[string]bool{"shop": true, "other": true}, Services: make(map[plan.ID]*plan.Service),
	}
	for i := range all.Items {
		o := object.Read(&all.Items[i])
		is.Services[o.ID] = o
	}
	is.MCSVersion, is.Imports = w.version, make(map[plan.ID]*plan.ServiceImport)
	if w.version != "" {
		for id, o := range w.imports.all {
			if !w.unseen {
				is.Imports[id] = object.ReadImport(o)
			}
		}
	}
	own := plan.Cluster{Seen: true, SeenServiceExports: true}
	for id, o := range w.exports.all {
		own.Exports = append(own.Exports, plan.Export{ID: id, Service: exported(id), Exported: object.ReadExport(o, true)})
	}
	is.Clusters = append(is.Clusters, own)
	for id, s := range w.stale {
		if is.Services[id] = s; s == nil { // it is not known yet
			delete(is.Services, id)
		}
	}
	return is, true
}

// link is a link that exports Services of these names, as namespace/name.
func link(name string, ids ...plan.ID) plan.Cluster {
	allow, _ := plan.ParsePatterns("*")
	c := plan.Cluster{Name: name, Domain: "cluster.local", Seen: true, SeenServiceExports: true, Allow: allow}
	for _, id := range ids {
		c.Exports = append(c.Exports, plan.Export{ID: id, Mirror: true, Service: exported(id)})
	}
	return c
}

// exported is a Service that is exported.
func exported(id plan.ID) *plan.Service {
	return &plan.Service{ID: id, Type: "ClusterIP", ClusterIPs: []string{"10.0.0.1"}, Ports: []plan.Port{{Name: "http", Protocol: "TCP", Number: 80, Target: "8080"}}, Traffic: plan.Traffic{SessionAffinity: "None"}}
}

// importing is a link whose Services of these names have ServiceExports.
func importing(name string, ids ...plan.ID) plan.Cluster {
	c := link(name, ids...)
	for i := range c.Exports {
		c.Exports[i].Mirror, c.Exports[i].Exported = false, &plan.ServiceExport{UID: name, Created: time.Now()}
	}
	return c
}

func shop(name string) plan.ID { return plan.ID{Namespace: "shop", Name: name} }

// always is a Lease that is held.
type always struct{ ctx context.Context }

func (a always) Write(write func(context.Context) error) error { return write(a.ctx) }

// inWorld runs a term in a bubble, and f beside it.
func inWorld(t *testing.T, links []plan.Cluster, f func(w *world, t *term)) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, links...)
		ctx, stop := context.WithCancel(t.Context())
		writer, err := New(Options{Services: w.services, MCS: w.mcs(), Leases: w.api.CoordinationV1().Leases, Namespace: "linkerd", Identity: "me", World: w.read, Changed: w.watch, Registerer: prometheus.NewRegistry(), Log: zap.NewNop()})
		if err != nil {
			t.Fatal(err)
		}
		one := newTerm(writer, always{ctx})
		done := make(chan struct{})
		go func() { one.loop.Run(ctx); close(done) }()
		f(w, one)
		stop()
		<-done
		time.Sleep(time.Second) // what touches the world has ended
	})
}

func (w *world) services(namespace string) corev1client.ServiceInterface {
	return slowly{w.api.CoreV1().Services(namespace), w}
}

// slowly is a client of Services that takes the world's delay.
type slowly struct {
	corev1client.ServiceInterface
	w *world
}

func (s slowly) Get(ctx context.Context, name string, o metav1.GetOptions) (*corev1.Service, error) {
	s.w.mu.Lock()
	delay := s.w.delay
	s.w.mu.Unlock()
	if delay != nil && !sleep.For(ctx, delay(name)) {
		return nil, ctx.Err()
	}
	return s.ServiceInterface.Get(ctx, name, o)
}

// take returns what has been written since it was last called.
func (w *world) take() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := w.writes
	w.writes = nil
	return all
}

func (w *world) service(name string) *corev1.Service {
	o, err := w.api.CoreV1().Services("shop").Get(context.Background(), name, metav1.GetOptions{})
	if err != nil {
		return nil
	}
	return o
}

// add puts a Service there as a user would.
func (w *world) add(o *corev1.Service) {
	if err := w.api.Tracker().Add(o.DeepCopy()); err != nil {
		w.t.Error(err)
	}
}

// edit changes a Service as a user would.
func (w *world) edit(name string, change func(o *corev1.Service)) {
	o := w.service(name).DeepCopy()
	change(o)
	if err := w.api.Tracker().Update(corev1.SchemeGroupVersion.WithResource("services"), o, "shop"); err != nil {
		w.t.Error(err)
	}
	w.change(func() {})
}
