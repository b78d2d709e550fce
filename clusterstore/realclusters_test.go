package clusterstore

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	metadatafake "k8s.io/client-go/metadata/fake"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"
	mcs "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"isthmus/clusterstore/cluster"
	"isthmus/clusterstore/crd"
	"isthmus/clusterstore/decode"
	"isthmus/clusterstore/decode/decodetest"
	"isthmus/clusterstore/kube"
	"isthmus/clusterstore/typed/typedtest"
)

// shop is a cluster's API with the Service web and one endpoint of it.
func shop(address string) *fake.Clientset {
	name, port := "http", int32(80)
	return fake.NewClientset(
		&corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: web.Namespace, Name: web.Name},
			Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: name, Port: port}}},
		},
		webSlice("web-1", address),
	)
}

func webSlice(name string, addresses ...string) *discoveryv1.EndpointSlice {
	port, number := "http", int32(8080)
	return &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: web.Namespace, Name: name, Labels: map[string]string{discoveryv1.LabelServiceName: web.Name}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints:   []discoveryv1.Endpoint{{Addresses: addresses}},
		Ports:       []discoveryv1.EndpointPort{{Name: &port, Port: &number}},
	}
}

// onFakes makes the Store's clusters real ones, each with one of these fake APIs, by
// token. A token without API is refused.
func (e *env) onFakes(apis map[string]*fake.Clientset) {
	e.store.create = func(from *rest.Config, cfg cluster.Config) (Cluster, error) {
		api := apis[from.BearerToken]
		if api == nil {
			api = fake.NewClientset()
			api.PrependReactor("list", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
				return true, nil, apierrors.NewUnauthorized("who are you?")
			})
		}
		cfg.Client = &kube.Client{Sources: decodetest.Sources(typedtest.Clients(api), metadatafake.NewSimpleMetadataClient(metadatafake.NewTestScheme()))}
		withoutCustom(&cfg.Client.Sources)
		return cluster.New(cfg)
	}
	e.store.opts.Rules.EndpointSlices = true
}

// withoutCustom makes the sources those of a cluster that does not have Linkerd's resources, and has a ServiceExport and a ServiceImport
// shop/web.
func withoutCustom(s *decode.Sources) {
	s.Servers = decodetest.New[*crd.Server](absent[*crd.ServerList]{})
	s.Workloads = decodetest.New[*crd.ExternalWorkload](absent[*crd.ExternalWorkloadList]{})
	s.Profiles = decodetest.New[*crd.ServiceProfile](absent[*crd.ServiceProfileList]{})
	still := func(context.Context, metav1.ListOptions) (watch.Interface, error) { return watch.NewFake(), nil }
	web := metav1.ObjectMeta{Namespace: "shop", Name: "web"}
	s.ServiceExports = decodetest.Fake[*mcs.ServiceExport](func(context.Context, metav1.ListOptions) (*mcs.ServiceExportList, error) {
		return &mcs.ServiceExportList{Items: []mcs.ServiceExport{{ObjectMeta: web}}}, nil
	}, still)
	s.ServiceImports = decodetest.Fake[*mcs.ServiceImport](func(context.Context, metav1.ListOptions) (*mcs.ServiceImportList, error) {
		return &mcs.ServiceImportList{Items: []mcs.ServiceImport{{ObjectMeta: web}}}, nil
	}, still)
	s.MCSVersion = func() string { return "v1alpha1" }
}

// absent is a client of a custom resource that the cluster does not have.
type absent[L runtime.Object] struct{}

func (absent[L]) List(context.Context, metav1.ListOptions) (none L, err error) {
	return none, apierrors.NewNotFound(schema.GroupResource{}, "")
}

func (absent[L]) Watch(context.Context, metav1.ListOptions) (watch.Interface, error) {
	return nil, apierrors.NewNotFound(schema.GroupResource{}, "")
}

// addresses checks the addresses that the table publishes.
func (e *env) addresses(want ...string) {
	e.t.Helper()
	set, _ := e.watch.Get()
	var got []string
	for _, ep := range set.Endpoints {
		got = append(got, ep.Addr.String())
	}
	if !slices.Equal(got, want) {
		e.t.Errorf("served: %v, want %v", got, want)
	}
}

// Real clusters: linked, followed, rotated without a change of the set, given wrong
// credentials, and unlinked.
func TestRealClusters(t *testing.T) {
	inBubble(t, func(e *env) {
		east, north := shop("10.1.0.1"), shop("10.2.0.1")
		e.onFakes(map[string]*fake.Clientset{"t1": east, "t2": east, "n1": north})
		e.put(secret("e", "east", "t1", 0))
		e.put(secret("n", "north", "n1", 0))
		e.pass(5 * time.Second)
		e.linked("east=ready north=ready")
		e.addresses("10.1.0.1:8080", "10.2.0.1:8080")
		before, _ := e.watch.Get()

		e.put(secret("e", "east", "t2", 0))
		e.pass(5 * time.Second)
		e.status("e east ready", "n north ready")
		if now, _ := e.watch.Get(); now != before {
			t.Error("the rotation has changed the set")
		}
		if _, err := east.DiscoveryV1().EndpointSlices(web.Namespace).Create(t.Context(), webSlice("web-2", "10.1.0.2"), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		e.pass(time.Second)
		e.addresses("10.1.0.1:8080", "10.1.0.2:8080", "10.2.0.1:8080")

		e.put(secret("e", "east", "wrong", 0))
		e.pass(time.Minute)
		e.addresses("10.1.0.1:8080", "10.1.0.2:8080", "10.2.0.1:8080")
		e.status("e east ready !new credentials do not work, the old ones are in use: the API server refuses the token: …who are you?; write the link Secret anew", "n north ready")
		e.remove("e")
		e.addresses("10.2.0.1:8080")
	})
}

// A cluster that forbids a needed resource is unreachable at once, and the reason names
// the resource. It becomes ready once that is allowed.
func TestForbiddenResource(t *testing.T) {
	inBubble(t, func(e *env) {
		api := shop("10.1.0.1")
		var allowed atomic.Bool
		api.PrependReactor("list", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
			return !allowed.Load(), nil, apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "", errors.New("no RBAC"))
		})
		e.onFakes(map[string]*fake.Clientset{"t1": api})
		e.put(secret("e", "east", "t1", 0))
		e.linked("east=unreachable")
		e.status("e east unreachable: pods: …pods is forbidden: no RBAC")
		e.pass(time.Hour)
		e.linked("east=unreachable")
		allowed.Store(true)
		e.pass(10 * time.Second)
		e.linked("east=ready")
		e.addresses("10.1.0.1:8080")
	})
}

// While the link Secrets can't be read the Store is not settled.
func TestSecretsCantBeRead(t *testing.T) {
	inBubble(t, func(e *env) {
		e.settled(false)
		e.pass(time.Hour)
		e.settled(false)
		e.logged("link Secrets can't be read; links stay as they are")
		e.forbidden.Store(false)
		e.pass(5 * time.Second)
		e.logged("link Secrets can be read again", "cluster linked")
		e.linked("east=pending")
	}, nil, secret("s", "east", "t1", 0))
}
