package externalworkload

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"isthmus/clusterstore/crd"
)

const (
	// resync is how often every Service is synced, changed or not.
	resync = 10 * time.Minute
	// byService is the index of slices by Service.
	byService = "service"
)

var byNamespace = cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}

// newInformers sets the term's informers. The term runs them.
func (t *term) newInformers() {
	services, slices := t.o.Client.Services(""), ourSlices{t.o.Client.EndpointSlices("")}
	t.services = newInformer(t, t.o.Client, services, resource{
		name: "services", example: &corev1.Service{}, strip: stripService, handler: t.onService(),
		SharedIndexInformerOptions: cache.SharedIndexInformerOptions{ResyncPeriod: resync, Indexers: byNamespace},
	})
	t.workloads = newInformer(t, t.o.Workloads, t.o.Workloads, resource{
		name: "externalworkloads", example: &crd.ExternalWorkload{}, strip: stripWorkload, handler: t.onWorkload(),
		SharedIndexInformerOptions: cache.SharedIndexInformerOptions{Indexers: byNamespace},
	})
	t.slices = newInformer(t, t.o.Client, slices, resource{
		name: "endpointslices", example: &discoveryv1.EndpointSlice{}, strip: stripSlice, handler: t.onSlice(),
		SharedIndexInformerOptions: cache.SharedIndexInformerOptions{Indexers: cache.Indexers{byService: indexByService}},
	})
}

// resource is what the informers of different kinds of object differ in.
type resource struct {
	name    string
	example runtime.Object
	strip   cache.TransformFunc
	handler cache.ResourceEventHandler
	cache.SharedIndexInformerOptions
}

// lister is a client of one resource, in all namespaces.
type lister[L runtime.Object] interface {
	List(context.Context, metav1.ListOptions) (L, error)
	Watch(context.Context, metav1.ListOptions) (watch.Interface, error)
}

// newInformer returns an informer that reports to the term's writer whether the
// resource can be read. The informer asks client whether it can stream lists.
func newInformer[L runtime.Object](t *term, client any, from lister[L], r resource) cache.SharedIndexInformer {
	var newest error // of the informer's goroutine
	observe := func(ctx context.Context, err error) {
		newest = err
		switch {
		case ctx.Err() != nil: // the term is over, and another may have begun
		case errors.Is(err, context.Canceled), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		case apierrors.IsResourceExpired(err), apierrors.IsGone(err): // a list follows
		default:
			t.setRead(r.name, err)
		}
	}
	lw := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			list, err := from.List(ctx, o)
			observe(ctx, err)
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			w, err := from.Watch(ctx, o)
			observe(ctx, err)
			return w, err
		},
	}
	i := cache.NewSharedIndexInformerWithOptions(cache.ToListWatcherWithWatchListSemantics(lw, client), r.example, r.SharedIndexInformerOptions)
	// None of these fails before the informer runs.
	_ = i.SetTransform(r.strip)
	_ = i.SetWatchErrorHandlerWithContext(func(ctx context.Context, _ *cache.Reflector, err error) {
		if newest == nil || !errors.Is(err, newest) { // no request has failed: the informer can't use what it has read
			observe(ctx, err)
		}
	})
	_, _ = i.AddEventHandler(r.handler)
	return i
}

// ourSlices reads the slices that are marked as ours.
type ourSlices struct {
	lister[*discoveryv1.EndpointSliceList]
}

var ourSelector = labels.Set{discoveryv1.LabelManagedBy: writerName}.String()

func (s ourSlices) List(ctx context.Context, o metav1.ListOptions) (*discoveryv1.EndpointSliceList, error) {
	o.LabelSelector = ourSelector
	return s.lister.List(ctx, o)
}

func (s ourSlices) Watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	o.LabelSelector = ourSelector
	return s.lister.Watch(ctx, o)
}

func indexByService(o any) ([]string, error) {
	s, ok := o.(*discoveryv1.EndpointSlice)
	if !ok {
		return nil, fmt.Errorf("unexpected object of type %T", o)
	}
	return []string{serviceOf(s).String()}, nil
}

// The strip functions remove what the writer does not need, before an informer stores
// an object. They return anything else, as a deletion's last state, as it is.

func stripMeta(o *metav1.ObjectMeta) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: o.Namespace, Name: o.Name, UID: o.UID, ResourceVersion: o.ResourceVersion,
		Labels: o.Labels, DeletionTimestamp: o.DeletionTimestamp,
	}
}

func stripService(o any) (any, error) {
	s, ok := o.(*corev1.Service)
	if !ok {
		return o, nil
	}
	return &corev1.Service{ObjectMeta: stripMeta(&s.ObjectMeta), Spec: corev1.ServiceSpec{
		Type: s.Spec.Type, Selector: s.Spec.Selector, Ports: s.Spec.Ports, ClusterIP: s.Spec.ClusterIP, IPFamilies: s.Spec.IPFamilies,
	}}, nil
}

func stripWorkload(o any) (any, error) {
	w, ok := o.(*crd.ExternalWorkload)
	if !ok {
		return o, nil
	}
	kept := &crd.ExternalWorkload{ObjectMeta: stripMeta(&w.ObjectMeta), Invalid: w.Invalid}
	kept.Spec.Ports, kept.Spec.WorkloadIPs = w.Spec.Ports, w.Spec.WorkloadIPs
	for _, c := range w.Status.Conditions {
		if c.Type == readyType {
			kept.Status.Conditions = append(kept.Status.Conditions, crd.WorkloadCondition{Type: c.Type, Status: c.Status})
		}
	}
	return kept, nil
}

// stripSlice keeps all that an update must write back.
func stripSlice(o any) (any, error) {
	if s, ok := o.(*discoveryv1.EndpointSlice); ok {
		s.ManagedFields = nil // API servers keep theirs
	}
	return o, nil
}
