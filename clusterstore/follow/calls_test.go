package follow

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"isthmus/clusterstore/decode"
	"isthmus/clusterstore/decode/decodetest"
)

// calls are the requests for Secrets of a fake API.
type calls struct {
	List  func(context.Context, metav1.ListOptions) (runtime.Object, error)
	Watch func(context.Context, metav1.ListOptions) (watch.Interface, error)
}

func (c calls) source() decode.Source[*corev1.Secret] {
	return decodetest.Fake[*corev1.Secret](c.List, c.Watch)
}

func sameAs[T comparable](a, b T) bool { return a == b }

// streamsList reports whether a watch begins with all objects.
func streamsList(o metav1.ListOptions) bool {
	return o.SendInitialEvents != nil && *o.SendInitialEvents
}
