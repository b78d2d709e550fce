package cluster

import (
	"cmp"
	"context"
	"errors"
	"io"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	mcs "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"isthmus/clusterstore/decode"
	"isthmus/federation"
)

// fakeAPI is a fake of a cluster's API. Tests send events with it and can make requests fail.
type fakeAPI struct {
	decode.Sources
	ended federation.Latest[struct{}] // set when all watches end

	mu   sync.Mutex
	errs map[string]error // errors by verb and resource: "list pods", "watch pods", "* pods", "discover pods"
}

func newFakeAPI(objects ...metav1.Object) *fakeAPI {
	a := &fakeAPI{errs: make(map[string]error)}
	meta := func(name string) *fakeKind[*metav1.PartialObjectMetadata] {
		return &fakeKind[*metav1.PartialObjectMetadata]{api: a, name: name}
	}
	a.Sources = decode.Sources{
		Serves: a.serves, MCSVersion: func() string { return "v1beta1" },
		Pods:           &fakeKind[*corev1.Pod]{api: a, name: "pods"},
		Services:       &fakeKind[*corev1.Service]{api: a, name: "services"},
		EndpointSlices: &fakeKind[*discoveryv1.EndpointSlice]{api: a, name: "endpointslices"},
		Endpoints:      &fakeKind[*coreEndpoints]{api: a, name: "endpoints"},
		ReplicaSets:    meta("replicasets"),
		Jobs:           meta("jobs"),
		Nodes:          &fakeKind[*corev1.Node]{api: a, name: "nodes"},
		NodeMetadata:   meta("nodes"),
		Namespaces:     meta("namespaces"),
		Servers:        &fakeKind[*decode.Server]{api: a, name: "servers"},
		Workloads:      &fakeKind[*decode.ExternalWorkload]{api: a, name: "externalworkloads"},
		Profiles:       &fakeKind[*decode.ServiceProfile]{api: a, name: "serviceprofiles"},
		ServiceExports: &fakeKind[*mcs.ServiceExport]{api: a, name: "serviceexports"},
		ServiceImports: &fakeKind[*mcs.ServiceImport]{api: a, name: "serviceimports"},
	}
	for _, o := range objects {
		a.send(watch.Added, o)
	}
	return a
}

// send sends an event of an object.
func (a *fakeAPI) send(as watch.EventType, o metav1.Object) {
	switch o := o.(type) {
	case *corev1.Pod:
		sendTo(a.Pods, as, o)
	case *corev1.Service:
		sendTo(a.Services, as, o)
	case *discoveryv1.EndpointSlice:
		sendTo(a.EndpointSlices, as, o)
	case *mcs.ServiceExport:
		sendTo(a.ServiceExports, as, o)
	case *decode.ExternalWorkload:
		sendTo(a.Workloads, as, o)
	case *corev1.Node:
		sendTo(a.Nodes, as, o)
	case *metav1.PartialObjectMetadata:
		sendTo(a.NodeMetadata, as, o)
	}
}

func sendTo[O decode.Object](to decode.Source[O], as watch.EventType, o O) {
	k := to.(*fakeKind[O])
	before, _ := k.events.Get()
	k.events.Set(append(slices.Clone(before), decode.Event[O]{Type: as, Object: o}))
}

func (a *fakeAPI) find(verb, resource string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return cmp.Or(a.errs[verb+" "+resource], a.errs["* "+resource])
}

// serves fakes API discovery. Errors for the verb discover apply to it.
func (a *fakeAPI) serves(_ context.Context, resource string, _ ...schema.GroupVersion) (bool, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return !apierrors.IsNotFound(a.errs["* "+resource]), a.errs["discover "+resource]
}

func (a *fakeAPI) set(key string, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.errs[key] = err
}

// cut ends all watches, as a server that shuts down does.
func (a *fakeAPI) cut() { a.ended.Set(struct{}{}) }

func forbidden(resource string) error {
	return apierrors.NewForbidden(schema.GroupResource{Resource: resource}, "", errors.New("no role"))
}

// fakeKind is a Source of one kind. Its objects are the result of all events so far.
type fakeKind[O decode.Object] struct {
	api    *fakeAPI
	name   string
	events federation.Latest[[]decode.Event[O]]
}

func (k *fakeKind[O]) List(
	_ context.Context,
	_ metav1.ListOptions,
	each func(O, *decode.Refused) error,
) (metav1.ListMeta, error) {
	err := k.api.find("list", k.name)
	events, _ := k.events.Get()
	for i, e := range events {
		later := slices.ContainsFunc(events[i+1:], func(l decode.Event[O]) bool {
			return l.Object.GetNamespace() == e.Object.GetNamespace() && l.Object.GetName() == e.Object.GetName()
		})
		if err == nil && !later && e.Type != watch.Deleted {
			err = each(e.Object, nil)
		}
	}
	return metav1.ListMeta{}, err
}

func (k *fakeKind[O]) Watch(ctx context.Context, _ metav1.ListOptions) (decode.Events[O], error) {
	if err := k.api.find("watch", k.name); err != nil {
		return nil, err
	}
	events, _ := k.events.Get()
	_, ended := k.api.ended.Get()
	return &fakeEvents[O]{k, ctx, ended, len(events)}, nil
}

// fakeEvents has the events of one watch.
type fakeEvents[O decode.Object] struct {
	*fakeKind[O]
	ctx   context.Context
	ended <-chan struct{}
	come  int
}

func (e *fakeEvents[O]) Next(each func(decode.Event[O]) error) error {
	for {
		events, newer := e.events.Get()
		if e.come < len(events) {
			e.come++
			return each(events[e.come-1])
		}
		select {
		case <-newer:
		case <-e.ended:
			return io.EOF
		case <-e.ctx.Done():
			return e.ctx.Err()
		}
	}
}

func (e *fakeEvents[O]) Close() error { return nil }
