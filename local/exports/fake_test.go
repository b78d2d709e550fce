package exports

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	mcs "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"isthmus/clusterstore/kube"
	"isthmus/local/exports/plan"
)

// world is an in-memory local cluster with links to other clusters.
type world struct {
	t        *testing.T
	services *kind[*corev1.Service, corev1.Service]
	imports  *kind[*mcs.ServiceImport, mcs.ServiceImport]
	exports  *kind[*mcs.ServiceExport, mcs.ServiceExport]
	leases   *fake.Clientset
	slow     atomic.Int64 // how long a read takes, as a time.Duration

	mu      sync.Mutex // not held while objects are read or written
	changed chan struct{}
	links   []plan.Cluster
	stale   map[plan.ID]*plan.Service // read instead of the stored Services; nil means that the Service is not read
	writes  []string
	before  func(request string, id plan.ID) error // "create", "get import", "status export"; may be nil
	prune   func(o metav1.Object)                  // drops fields that an older version of the kind lacks; may be nil
	version string                                 // of the MCS-API; empty if the API does not exist
	unseen  bool                                   // if set, ServiceImports are read as an empty list
}

func newWorld(t *testing.T, links ...plan.Cluster) *world {
	w := &world{t: t, changed: make(chan struct{}), links: links, stale: make(map[plan.ID]*plan.Service)}
	w.services = newKind[*corev1.Service](w, "", nil)
	w.imports = newKind[*mcs.ServiceImport](w, " import", func(to, from *mcs.ServiceImport) { to.Status = from.Status })
	w.exports = newKind[*mcs.ServiceExport](w, " export", func(to, from *mcs.ServiceExport) { to.Status = from.Status })
	w.leases = fake.NewClientset()
	return w
}

// newKind returns a kind. name is the suffix of its requests, such as " import".
func newKind[T pointer[O], O any](w *world, name string, status func(to, from T)) *kind[T, O] {
	return &kind[T, O]{
		all: make(map[plan.ID]T), status: status,
		asked: func(verb string, id plan.ID) error {
			w.mu.Lock()
			before, version := w.before, w.version
			w.mu.Unlock()
			if name != "" && version == "" {
				w.t.Errorf("%s%s %v although the kind does not exist", verb, name, id)
			}
			if before == nil {
				return nil
			}
			return before(verb+name, id)
		},
		stored: func(verb string, o T) {
			w.change(func() {
				w.writes = append(w.writes, verb+name+" "+o.GetNamespace()+"/"+o.GetName())
				if w.prune != nil {
					w.prune(o)
				}
				if s, ok := any(o).(*corev1.Service); ok && verb == "create" && len(s.Spec.ClusterIPs) == 0 {
					s.Spec.ClusterIPs = []string{"10.96.0." + strings.TrimPrefix(string(s.UID), "uid-")}
				}
			})
		},
	}
}

// change changes the world, and wakes the writer a millisecond later. The objects that the writer
// is writing are then stored.
func (w *world) change(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f()
	changed := w.changed
	w.changed = make(chan struct{})
	time.AfterFunc(time.Millisecond, func() { close(changed) })
}

func (w *world) watch() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.changed
}

func (w *world) read() (plan.World, bool) {
	time.Sleep(time.Duration(w.slow.Load()))
	services, imports, exports := w.services.list(), w.imports.list(), w.exports.list()
	w.mu.Lock()
	defer w.mu.Unlock()
	is := plan.World{
		Settings: plan.Settings{
			Controller:     "linkerd",
			ClusterName:    "local",
			Labels:         true,
			ServiceExports: true,
			UnlinkedAfter:  10 * time.Minute,
		},
		Now: time.Now(), Clusters: slices.Clone(w.links), Namespaces: map[string]bool{"shop": true, "other": true},
		Services:   make(map[plan.ID]*plan.Service),
		Imports:    make(map[plan.ID]*plan.ServiceImport),
		MCSVersion: w.version,
	}
	for _, o := range services {
		s := readService(o)
		is.Services[s.ID] = s
	}
	for _, o := range imports {
		if i := readServiceImport(o); !w.unseen {
			is.Imports[i.ID] = i
		}
	}
	own := plan.Cluster{Synced: true, ServiceExportsSynced: true}
	for _, o := range exports {
		id := plan.ID{Namespace: o.Namespace, Name: o.Name}
		own.Exports = append(own.Exports, plan.Export{
			ID:       id,
			Service:  exported(id),
			Exported: readServiceExport(o, true),
		})
	}
	is.Clusters = append(is.Clusters, own)
	for id, s := range w.stale {
		if is.Services[id] = s; s == nil { // not read yet
			delete(is.Services, id)
		}
	}
	return is, true
}

// serviceClient implements the methods of a Service client that the writer calls.
type serviceClient struct {
	in[*corev1.Service, corev1.Service]
	below
}

// below is embedded one level deeper than in, so that the methods of in take precedence.
type below struct{ corev1client.ServiceInterface }

// writer returns a Writer that has not started.
func (w *world) writer() *Writer {
	api := kube.MCS{
		ServiceImports: func(namespace string) kube.WithStatus[*mcs.ServiceImport] {
			return in[*mcs.ServiceImport, mcs.ServiceImport]{w.imports, namespace}
		},
		ServiceExports: func(namespace string) kube.WithStatus[*mcs.ServiceExport] {
			return in[*mcs.ServiceExport, mcs.ServiceExport]{w.exports, namespace}
		},
	}
	made, err := New(Options{
		Services: func(namespace string) corev1client.ServiceInterface {
			return serviceClient{in: in[*corev1.Service, corev1.Service]{w.services, namespace}}
		},
		Leases:    w.leases.CoordinationV1().Leases,
		MCS:       map[string]kube.MCS{"v1beta1": api},
		Namespace: "linkerd",
		Identity:  "me",
		World:     w.read, Changed: w.watch, Registerer: prometheus.NewRegistry(), Log: zap.NewNop(),
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return made
}

// link returns a linked cluster that exports mirrors of the given Services.
func link(name string, ids ...plan.ID) plan.Cluster {
	allow, _ := plan.ParsePatterns("*")
	c := plan.Cluster{
		Name:                 name,
		Domain:               "cluster.local",
		Synced:               true,
		ServiceExportsSynced: true,
		LinkSettings:         plan.LinkSettings{Allow: allow},
	}
	for _, id := range ids {
		c.Exports = append(c.Exports, plan.Export{ID: id, Mirror: true, Service: exported(id)})
	}
	return c
}

// exported returns an exported Service.
func exported(id plan.ID) *plan.Service {
	return &plan.Service{
		ID:         id,
		Type:       "ClusterIP",
		ClusterIPs: []string{"10.0.0.1"},
		Ports:      []plan.Port{{Name: "http", Protocol: "TCP", Number: 80, Target: "8080"}},
		Traffic:    plan.Traffic{SessionAffinity: "None"},
	}
}

// importing returns a linked cluster whose given Services have ServiceExports.
func importing(name string, ids ...plan.ID) plan.Cluster {
	c := link(name, ids...)
	for i := range c.Exports {
		c.Exports[i].Mirror, c.Exports[i].Exported = false, &plan.ServiceExport{UID: name, Created: time.Now()}
	}
	return c
}

func shop(name string) plan.ID { return plan.ID{Namespace: "shop", Name: name} }

// always is a Lease that is always held.
type always struct{ ctx context.Context }

func (a always) Write(write func(context.Context) error) error { return write(a.ctx) }

// inWorld runs a leadership in a bubble, and f at the same time.
func inWorld(t *testing.T, links []plan.Cluster, f func(w *world, t *leadership)) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, links...)
		ctx, stop := context.WithCancel(t.Context())
		one := newLeadership(w.writer(), always{ctx})
		done := make(chan struct{})
		go func() { one.loop.Run(ctx); close(done) }()
		f(w, one)
		stop()
		<-done
		time.Sleep(time.Second) // wait for the goroutines that use the world
	})
}

// take returns the writes since the last call.
func (w *world) take() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := w.writes
	w.writes = nil
	return all
}

func (w *world) service(name string) *corev1.Service { return w.services.find(name) }

// edit changes a Service as a user would.
func (w *world) edit(name string, change func(o *corev1.Service)) {
	o := w.service(name)
	change(o)
	w.services.put(o)
	w.change(func() {})
}

// pointer is a pointer to an API object of type O.
type pointer[O any] interface {
	*O
	metav1.Object
	DeepCopy() *O
}

// kind stores the objects of one kind like an API server. A kind sets UIDs and versions, and
// rejects writes of an older version.
type kind[T pointer[O], O any] struct {
	asked  func(verb string, id plan.ID) error // is called before each request; an error fails the request
	stored func(verb string, o T)              // is called with each stored or deleted object, which it may change
	status func(to, from T)                    // copies the status; nil if the kind has no status subresource

	mu       sync.Mutex
	all      map[plan.ID]T
	versions int
}

func (k *kind[T, O]) list() (list []T) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, o := range k.all {
		list = append(list, o.DeepCopy())
	}
	return list
}

// find returns the object of that name in the namespace shop, or nil.
func (k *kind[T, O]) find(name string) T {
	k.mu.Lock()
	defer k.mu.Unlock()
	if o := k.all[shop(name)]; o != nil {
		return o.DeepCopy()
	}
	return nil
}

// put stores an object of any version, as another client would do.
func (k *kind[T, O]) put(o T) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.store(o.DeepCopy())
}

// store stores an object with a new version. The caller holds k.mu.
func (k *kind[T, O]) store(o T) T {
	k.versions++
	o.SetResourceVersion(strconv.Itoa(k.versions))
	k.all[plan.ID{Namespace: o.GetNamespace(), Name: o.GetName()}] = o
	return o.DeepCopy()
}

// in is a client for one namespace.
type in[T pointer[O], O any] struct {
	*kind[T, O]
	namespace string
}

// begin locks the kind, and returns the requested object or the error of the request.
func (k in[T, O]) begin(verb, name string) (have T, err error) {
	id := plan.ID{Namespace: k.namespace, Name: name}
	err = k.asked(verb, id)
	k.mu.Lock()
	have = k.all[id]
	switch {
	case err != nil:
	case have == nil && verb != "create":
		err = apierrors.NewNotFound(resource, name)
	case have != nil && verb == "create":
		err = apierrors.NewAlreadyExists(resource, name)
	}
	return have, err
}

var resource = schema.GroupResource{Resource: "objects"}

// Get and the other methods behave like those of client-go. With an error, they return an empty
// object.
func (k in[T, O]) Get(_ context.Context, name string, _ metav1.GetOptions) (T, error) {
	have, err := k.begin("get", name)
	defer k.mu.Unlock()
	if err != nil {
		return new(O), err
	}
	return have.DeepCopy(), nil
}

func (k in[T, O]) Create(_ context.Context, o T, _ metav1.CreateOptions) (T, error) {
	_, err := k.begin("create", o.GetName())
	defer k.mu.Unlock()
	if err != nil {
		return new(O), err
	}
	o = o.DeepCopy()
	o.SetUID(types.UID("uid-" + strconv.Itoa(k.versions+1)))
	o.SetCreationTimestamp(metav1.Now())
	if k.status != nil {
		k.status(o, new(O))
	}
	k.stored("create", o)
	return k.store(o), nil
}

func (k in[T, O]) Update(_ context.Context, o T, _ metav1.UpdateOptions) (T, error) {
	return k.update("update", o)
}

func (k in[T, O]) UpdateStatus(_ context.Context, o T, _ metav1.UpdateOptions) (T, error) {
	return k.update("status", o)
}

func (k in[T, O]) update(verb string, o T) (T, error) {
	have, err := k.begin(verb, o.GetName())
	defer k.mu.Unlock()
	if err == nil && (have.GetUID() != o.GetUID() || have.GetResourceVersion() != o.GetResourceVersion()) {
		err = apierrors.NewConflict(resource, o.GetName(), nil)
	}
	if err != nil {
		return new(O), err
	}
	next, status := T(o.DeepCopy()), T(have)
	if verb == "status" {
		next, status = have.DeepCopy(), o.DeepCopy()
	}
	if k.status != nil {
		k.status(next, status)
	}
	k.stored(verb, next)
	return k.store(next), nil
}

func (k in[T, O]) Delete(_ context.Context, name string, options metav1.DeleteOptions) error {
	have, err := k.begin("delete", name)
	defer k.mu.Unlock()
	if err != nil {
		return err
	}
	if p := options.Preconditions; p != nil &&
		(p.UID != nil && *p.UID != have.GetUID() ||
			p.ResourceVersion != nil && *p.ResourceVersion != have.GetResourceVersion()) {
		return apierrors.NewConflict(resource, name, nil)
	}
	delete(k.all, plan.ID{Namespace: k.namespace, Name: name})
	k.stored("delete", have)
	return nil
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
