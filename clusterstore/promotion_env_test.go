package clusterstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/rest"

	"isthmus/clusterstore/cluster"

	"isthmus/clusterstore/decode"
	"isthmus/clusterstore/follow"
	"isthmus/clusterstore/kube"
	"isthmus/federation"
)

// wholeCluster is what clients see of servedAPI while all kinds are read.
const wholeCluster = "10.1.0.1 opaque deployment=web; 10.1.0.2"

// servedAPI is a fake of one cluster's API. Its Service shop/web has a Pod of a Deployment, whose port a Server makes
// opaque, and an ExternalWorkload. A Node has the region north.
type servedAPI struct {
	objects map[string][]decode.Object // by resource
	ended   federation.Latest[struct{}]

	mu   sync.Mutex
	errs map[string]error // what requests are answered with, by "TOKEN RESOURCE"; either may be *
}

func newServedAPI() *servedAPI {
	return &servedAPI{errs: make(map[string]error), objects: map[string][]decode.Object{
		"services": {&corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"},
			Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "http", Port: 80}}},
		}},
		"endpointslices": {&discoveryv1.EndpointSlice{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-1",
				Labels: map[string]string{discoveryv1.LabelServiceName: "web"}},
			AddressType: discoveryv1.AddressTypeIPv4,
			Ports:       []discoveryv1.EndpointPort{{Name: new("http"), Port: new(int32(8080))}},
			Endpoints: []discoveryv1.Endpoint{
				{Addresses: []string{"10.1.0.1"},
					TargetRef: &corev1.ObjectReference{Kind: "Pod", Namespace: "shop", Name: "web-1-a"}},
				{Addresses: []string{"10.1.0.2"},
					TargetRef: &corev1.ObjectReference{Kind: "ExternalWorkload", Namespace: "shop", Name: "vm"}},
			},
		}},
		"pods": {&corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "shop", Name: "web-1-a", Labels: map[string]string{"app": "web"},
				OwnerReferences: []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "web-1"}},
			},
			Status: corev1.PodStatus{PodIP: "10.1.0.1", Phase: corev1.PodRunning},
		}},
		"externalworkloads": {&decode.ExternalWorkload{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "vm"},
			Spec:       decode.ExternalWorkloadSpec{WorkloadIPs: []decode.WorkloadIP{{IP: "10.1.0.2"}}},
		}},
		"servers": {&decode.Server{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"},
			Spec: decode.ServerSpec{
				PodSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
				Port:        intstr.FromInt32(8080), ProxyProtocol: decode.ProtocolOpaque,
			},
		}},
		"replicasets": {&metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: "web-1",
			OwnerReferences: []metav1.OwnerReference{{Kind: "Deployment", Name: "web"}},
		}}},
		"nodes": {&metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
			Name: "node", Labels: map[string]string{"topology.kubernetes.io/region": "north"},
		}}},
	}}
}

// answer makes requests fail; nil: they no longer do. about is as in errs.
func (a *servedAPI) answer(about string, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.errs[about] = err
}

// cut ends all watches, as a server does that restarts.
func (a *servedAPI) cut() { a.ended.Set(struct{}{}) }

func (a *servedAPI) find(token, resource string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return cmp.Or(a.errs["* *"], a.errs[token+" *"], a.errs["* "+resource], a.errs[token+" "+resource])
}

func (a *servedAPI) sources(token string) decode.Sources {
	return decode.Sources{
		Serves: func(_ context.Context, resource string, _ ...schema.GroupVersion) (bool, error) {
			return !apierrors.IsNotFound(a.find(token, resource)), a.find(token, "discovery")
		},
		Services:       servedKind[*corev1.Service]{a, token, "services"},
		EndpointSlices: servedKind[*discoveryv1.EndpointSlice]{a, token, "endpointslices"},
		Pods:           servedKind[*corev1.Pod]{a, token, "pods"},
		Workloads:      servedKind[*decode.ExternalWorkload]{a, token, "externalworkloads"},
		Servers:        servedKind[*decode.Server]{a, token, "servers"},
		ReplicaSets:    servedKind[*metav1.PartialObjectMetadata]{a, token, "replicasets"},
		Jobs:           servedKind[*metav1.PartialObjectMetadata]{a, token, "jobs"},
		NodeMetadata:   servedKind[*metav1.PartialObjectMetadata]{a, token, "nodes"},
		Document:       func(context.Context, string, any) error { return nil },
	}
}

// servedKind is a Source of one kind, for who has that token.
type servedKind[O decode.Object] struct {
	api             *servedAPI
	token, resource string
}

func (k servedKind[O]) List(
	_ context.Context, _ metav1.ListOptions, each func(O, *decode.Refused) error,
) (meta metav1.ListMeta, err error) {
	if err := k.api.find(k.token, k.resource); err != nil {
		return meta, err
	}
	for _, o := range k.api.objects[k.resource] {
		if err := each(o.(O), nil); err != nil {
			return meta, err
		}
	}
	return metav1.ListMeta{ResourceVersion: "1"}, nil
}

func (k servedKind[O]) Watch(ctx context.Context, _ metav1.ListOptions) (decode.Events[O], error) {
	if err := k.api.find(k.token, k.resource); err != nil {
		return nil, err
	}
	_, ended := k.api.ended.Get()
	return servedEvents[O]{ctx, ended}, nil
}

// servedEvents are those of a watch that brings none.
type servedEvents[O decode.Object] struct {
	ctx   context.Context
	ended <-chan struct{}
}

func (e servedEvents[O]) Next(func(decode.Event[O]) error) error {
	select {
	case <-e.ctx.Done():
		return e.ctx.Err()
	case <-e.ended:
		return io.EOF
	}
}

func (e servedEvents[O]) Close() error { return nil }

// The answers of servedAPI.
var (
	errRefused  = apierrors.NewForbidden(schema.GroupResource{}, "", errors.New("no RBAC"))
	errBroken   = apierrors.NewInternalError(errors.New("conversion webhook failed"))
	errNoKind   = apierrors.NewNotFound(schema.GroupResource{}, "")
	errRevoked  = apierrors.NewUnauthorized("token")
	errNoServer = errors.New("connection refused")
)

// rotating is a Store with the link east, whose Secret has the token t1 at first.
type rotating struct {
	*env
	api  *servedAPI
	made []*cluster.Cluster

	mu   sync.Mutex
	seen []string // what clients of a live stream have seen, without repetitions
}

// onServedAPI runs a test on one API. before prepares it for the start with token t1, which has 25 s for it.
func onServedAPI(t *testing.T, before func(*rotating), f func(*rotating)) {
	inBubble(t, func(e *env) {
		r := &rotating{env: e, api: newServedAPI()}
		e.store.opts.Rules = cluster.Rules{EndpointSlices: true}
		e.store.create = r.create
		stop := r.watchSets()
		defer stop()
		if before != nil {
			before(r)
		}
		e.put(secret("s", "east", "t1", 0))
		e.pass(optionalTime)
		f(r)
	})
}

// optionalTime is how long a start waits for optional kinds at most, and a pause after a failure.
const optionalTime = 29 * time.Second

func (r *rotating) create(from *rest.Config, cfg cluster.Config) (Cluster, error) {
	cfg.Client = &kube.Client{Sources: r.api.sources(from.BearerToken)}
	cfg.Memory = follow.NewMemoryCap(r.store.opts.Memory)
	c, err := cluster.New(cfg)
	r.made = append(r.made, c)
	return c, err
}

// watchSets notes what is published until the result is called.
func (r *rotating) watchSets() (stop func()) {
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			set, changed := r.watch.Get()
			r.note(set)
			select {
			case <-changed:
			case <-done:
				return
			}
		}
	}()
	return func() { close(done); <-ended }
}

func (r *rotating) note(set *federation.Set) {
	var all []string
	for _, e := range set.Endpoints {
		text := e.Addr.Addr().String()
		if e.Opaque {
			text += " opaque"
		}
		for _, l := range e.Common.Get().Labels {
			if l.Name == "deployment" {
				text += " deployment=" + l.Value
			}
		}
		all = append(all, text)
	}
	text := strings.Join(all, "; ")
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.seen) == 0 || r.seen[len(r.seen)-1] != text {
		r.seen = append(r.seen, text)
	}
}

// saw checks what clients have seen since the last call. An empty set, with which every stream begins here, does not
// count.
func (r *rotating) saw(want ...string) {
	r.t.Helper()
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	got := slices.DeleteFunc(r.seen, func(s string) bool { return s == "" })
	if !slices.Equal(got, want) {
		r.t.Errorf("clients saw\n\t%s\nwant\n\t%s", strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
	}
	r.seen = nil
	if len(got) > 0 {
		r.seen = got[len(got)-1:]
	}
}

// rotate writes the Secret with another token.
func (r *rotating) rotate(token string) { r.t.Helper(); r.put(secret("s", "east", token, 0)) }

// inUse checks with which token the cluster is served, and what new credentials are waiting for.
func (r *rotating) inUse(token, waiting string) {
	r.t.Helper()
	synctest.Wait()
	v := r.store.publishedLinks()["east"]
	if v.serving == nil {
		r.t.Errorf("nothing is served: %+v", r.store.Status())
		return
	}
	st := r.store.Status()[0]
	got := fmt.Sprintf("%s %s, waits for %s", v.serving.creds.rest.BearerToken, st.State, strings.Join(st.Awaited, " "))
	if want := token + " ready, waits for " + waiting; got != want {
		r.t.Errorf("in use: %q, want %q; %q", got, want, st.Warnings)
	}
}
