package exports

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	mcs "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"isthmus/clusterstore/typed"
)

// client is of one kind, in a namespace.
type client[O any] interface {
	Get(context.Context, string, metav1.GetOptions) (O, error)
	Create(context.Context, O, metav1.CreateOptions) (O, error)
	Update(context.Context, O, metav1.UpdateOptions) (O, error)
	Delete(context.Context, string, metav1.DeleteOptions) error
}

// clientsIn are the clients of a namespace, and of a version of the MCS-API.
type clientsIn struct{ version, namespace string }

func (c clientsIn) services(w *Writer) (client[*corev1.Service], Verb) {
	return w.Services(c.namespace), Update
}

func (c clientsIn) imports(w *Writer) (client[*mcs.ServiceImport], Verb) {
	return w.MCS[c.version].ServiceImports(c.namespace), Update
}

func (c clientsIn) importStatus(w *Writer) (client[*mcs.ServiceImport], Verb) {
	return statusOf[*mcs.ServiceImport]{w.MCS[c.version].ServiceImports(c.namespace)}, Status
}

func (c clientsIn) exportStatus(w *Writer) (client[*mcs.ServiceExport], Verb) {
	return statusOf[*mcs.ServiceExport]{w.MCS[c.version].ServiceExports(c.namespace)}, Status
}

// statusOf updates the status.
type statusOf[O any] struct{ typed.WithStatus[O] }

func (c statusOf[O]) Update(ctx context.Context, o O, options metav1.UpdateOptions) (O, error) {
	return c.UpdateStatus(ctx, o, options)
}
