package clusterstore

import (
	"context"
	"errors"
	"io"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"

	"isthmus/clusterstore/decode"
)

// fakeSources returns Sources of the built-in kinds that read client-go's fakes. If m is nil, kinds
// that are read as metadata only have no Source.
func fakeSources(c kubernetes.Interface, m metadata.Interface) decode.Sources {
	partial := func(group, resource string) decode.Source[*metav1.PartialObjectMetadata] {
		if m == nil {
			return nil
		}
		from := m.Resource(schema.GroupVersionResource{Group: group, Version: "v1", Resource: resource})
		return sourceOf[*metav1.PartialObjectMetadata](from)
	}
	return decode.Sources{
		Serves: func(context.Context, string, ...schema.GroupVersion) (bool, error) {
			return false, errors.New("fakes have no discovery")
		},
		Pods:           sourceOf[*corev1.Pod](c.CoreV1().Pods("")),
		Services:       sourceOf[*corev1.Service](c.CoreV1().Services("")),
		EndpointSlices: sourceOf[*discoveryv1.EndpointSlice](c.DiscoveryV1().EndpointSlices("")),
		Endpoints:      sourceOf[*coreEndpoints](c.CoreV1().Endpoints("")),
		Secrets: func(namespace string) decode.Source[*corev1.Secret] {
			return sourceOf[*corev1.Secret](c.CoreV1().Secrets(namespace))
		},
		Nodes:        sourceOf[*corev1.Node](c.CoreV1().Nodes()),
		ReplicaSets:  partial("apps", "replicasets"),
		Jobs:         partial("batch", "jobs"),
		NodeMetadata: partial("", "nodes"),
		Namespaces:   partial("", "namespaces"),
	}
}

//lint:ignore SA1019 they are read with --enable-endpoint-slices=false
type coreEndpoints = corev1.Endpoints

type lister[L runtime.Object] interface {
	List(context.Context, metav1.ListOptions) (L, error)
	Watch(context.Context, metav1.ListOptions) (watch.Interface, error)
}

// sourceOf returns a Source that uses a client of client-go.
func sourceOf[O decode.Object, L runtime.Object](from lister[L]) decode.Source[O] {
	return fakeSource[O](from.List, from.Watch)
}

func fakeSource[O decode.Object, L runtime.Object](
	list func(context.Context, metav1.ListOptions) (L, error),
	watch func(context.Context, metav1.ListOptions) (watch.Interface, error),
) decode.Source[O] {
	return clientSource[O, L]{list, watch}
}

type clientSource[O decode.Object, L runtime.Object] struct {
	list  func(context.Context, metav1.ListOptions) (L, error)
	watch func(context.Context, metav1.ListOptions) (watch.Interface, error)
}

func (s clientSource[O, L]) List(
	ctx context.Context, o metav1.ListOptions, each func(O, *decode.Refused) error,
) (all metav1.ListMeta, err error) {
	list, err := s.list(ctx, o)
	if err != nil {
		return all, err
	}
	from, err := meta.ListAccessor(list)
	if err != nil {
		return all, err
	}
	all = metav1.ListMeta{
		ResourceVersion:    from.GetResourceVersion(),
		Continue:           from.GetContinue(),
		RemainingItemCount: from.GetRemainingItemCount(),
	}
	return all, meta.EachListItem(list, func(one runtime.Object) error { return each(one.(O), nil) })
}

func (s clientSource[O, L]) Watch(ctx context.Context, o metav1.ListOptions) (decode.Events[O], error) {
	w, err := s.watch(ctx, o)
	if err != nil {
		return nil, err
	}
	return clientEvents[O]{w, ctx}, nil
}

type clientEvents[O decode.Object] struct {
	from watch.Interface
	ctx  context.Context
}

func (e clientEvents[O]) Next(each func(decode.Event[O]) error) error {
	select {
	case <-e.ctx.Done():
		return e.ctx.Err()
	case event, ok := <-e.from.ResultChan():
		switch {
		case !ok:
			return io.EOF
		case event.Type == watch.Error:
			return apierrors.FromObject(event.Object)
		}
		return each(decode.Event[O]{Type: event.Type, Object: event.Object.(O)})
	}
}

func (e clientEvents[O]) Close() error {
	e.from.Stop()
	return nil
}
