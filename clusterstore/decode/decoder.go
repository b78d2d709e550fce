package decode

import (
	"sync"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// kind is one of Kubernetes' own kinds.
type kind[T any] struct {
	schema.GroupVersionKind
	copies   bool // texts are not lent, since many are kept
	decoders sync.Pool
}

// decoder decodes objects, one after the other, into the same one.
type decoder[T any] struct {
	object T
	table  table[T]
	room   room
}

// The kinds. All clusters share their decoders.
var (
	pods           = newKind(corev1.SchemeGroupVersion.WithKind("Pod"), podTable)
	services       = newKind(corev1.SchemeGroupVersion.WithKind("Service"), serviceTable)
	endpointSlices = newKind(discoveryv1.SchemeGroupVersion.WithKind("EndpointSlice"), sliceTable)
	endpoints      = newKind(corev1.SchemeGroupVersion.WithKind("Endpoints"), endpointsTable)
	secrets        = newKind(corev1.SchemeGroupVersion.WithKind("Secret"), secretTable)
	nodes          = newKind(corev1.SchemeGroupVersion.WithKind("Node"), nodeTable)
	partials       = newKind(partialVersion.WithKind("PartialObjectMetadata"), partialTable)
)

func init() { secrets.copies = true }

// partialVersion has the group that [metav1.SchemeGroupVersion] lacks.
var partialVersion = schema.GroupVersion{Group: metav1.GroupName, Version: "v1"}

func newKind[T any](of schema.GroupVersionKind, table func(*room) table[T]) *kind[T] {
	k := &kind[T]{GroupVersionKind: of}
	k.decoders.New = func() any {
		d := &decoder[T]{}
		d.table = table(&d.room)
		return d
	}
	return k
}

// use lends a decoder for one object.
func (k *kind[T]) use(f func(*decoder[T]) error) error {
	d := k.decoders.Get().(*decoder[T])
	err := f(d)
	var zero T
	d.object = zero
	d.room.clear()
	k.decoders.Put(d)
	return err
}
