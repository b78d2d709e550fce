package externalworkload

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"isthmus/clusterstore/crd"
)

// onService marks a Service at each of its events, and all of them at each resync.
func (t *term) onService() cache.ResourceEventHandler {
	mark := func(o any) {
		if s, ok := objectOf[*corev1.Service](o); ok {
			t.mark(nameOf(s))
		}
	}
	return cache.ResourceEventHandlerFuncs{AddFunc: mark, UpdateFunc: func(_, o any) { mark(o) }, DeleteFunc: mark}
}

// onWorkload notes which workloads have changed.
func (t *term) onWorkload() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc: func(o any) {
			if w, ok := o.(*crd.ExternalWorkload); ok {
				t.workloadChanged(nil, w)
				t.arrive()
			}
		},
		UpdateFunc: func(before, after any) {
			b, ok := before.(*crd.ExternalWorkload)
			a, okAfter := after.(*crd.ExternalWorkload)
			if ok && okAfter {
				t.workloadChanged(b, a)
			}
		},
		DeleteFunc: func(o any) {
			if w, ok := objectOf[*crd.ExternalWorkload](o); ok {
				t.workloadChanged(w, nil)
			}
		},
	}
}

// onSlice marks the Services whose slices others have changed.
func (t *term) onSlice() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc: func(o any) {
			if s, ok := o.(*discoveryv1.EndpointSlice); ok && t.tracker.ShouldSync(s) {
				t.mark(serviceOf(s))
			}
			t.arrive()
		},
		UpdateFunc: func(before, after any) {
			b, ok := before.(*discoveryv1.EndpointSlice)
			a, okAfter := after.(*discoveryv1.EndpointSlice)
			if ok && okAfter {
				t.sliceChanged(b, a)
			}
		},
		DeleteFunc: func(o any) {
			// The tracker takes any deletion as expected if this term has not written the slice.
			if s, ok := objectOf[*discoveryv1.EndpointSlice](o); ok && (!t.tracker.Has(s) || !t.tracker.HandleDeletion(s)) {
				t.mark(serviceOf(s))
			}
		},
	}
}

// sliceChanged marks the Services of a slice that others have changed. Labels and
// owners change without a new generation, and a slice that was created again under
// the same name is another one.
func (t *term) sliceChanged(before, after *discoveryv1.EndpointSlice) {
	if serviceOf(before) != serviceOf(after) || before.UID != after.UID {
		t.tracker.HandleDeletion(before) // as if it were deleted from that Service
		t.mark(serviceOf(before))
		t.mark(serviceOf(after))
		return
	}
	if t.tracker.ShouldSync(after) || !maps.Equal(before.Labels, after.Labels) ||
		!equality.Semantic.DeepEqual(before.OwnerReferences, after.OwnerReferences) {
		t.mark(serviceOf(after))
	}
}

// objectOf returns the object of an event: for a deletion that the informer has
// missed, the object as it was last read.
func objectOf[T any](o any) (T, bool) {
	if deleted, ok := o.(cache.DeletedFinalStateUnknown); ok {
		o = deleted.Obj
	}
	t, ok := o.(T)
	return t, ok
}

// inNamespace lists what an informer holds of a namespace.
func inNamespace[T any](i cache.SharedIndexInformer, namespace string) []T {
	return byIndex[T](i, cache.NamespaceIndex, namespace)
}

// byIndex lists what an informer holds under an index's value.
func byIndex[T any](i cache.SharedIndexInformer, index, value string) []T {
	objects, err := i.GetIndexer().ByIndex(index, value)
	if err != nil {
		return nil // there is no such index
	}
	list := make([]T, 0, len(objects))
	for _, o := range objects {
		if t, ok := o.(T); ok {
			list = append(list, t)
		}
	}
	return list
}

type object interface {
	GetNamespace() string
	GetName() string
}

func nameOf(o object) types.NamespacedName {
	return types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}
}

// serviceOf names the Service that a slice is of.
func serviceOf(s *discoveryv1.EndpointSlice) types.NamespacedName {
	return types.NamespacedName{Namespace: s.Namespace, Name: s.Labels[discoveryv1.LabelServiceName]}
}
