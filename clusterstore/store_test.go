package clusterstore

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
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
	"isthmus/clusterstore/decode"
	"isthmus/clusterstore/internal/clustertest"
	"isthmus/clusterstore/kube"
)

// onFakes makes the Store's clusters real ones that read fake APIs. apis maps tokens to APIs. Other
// tokens are rejected.
func (e *env) onFakes(apis map[string]*fake.Clientset) {
	e.store.create = func(from *rest.Config, cfg cluster.Config) (Cluster, error) {
		api := apis[from.BearerToken]
		if api == nil {
			api = fake.NewClientset()
			api.PrependReactor("list", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
				return true, nil, apierrors.NewUnauthorized("who are you?")
			})
		}
		cfg.Client = &kube.Client{
			Sources: fakeSources(api, metadatafake.NewSimpleMetadataClient(metadatafake.NewTestScheme())),
		}
		withoutCustom(&cfg.Client.Sources)
		return cluster.New(cfg)
	}
	e.store.rules.EndpointSlices = true
}

// withoutCustom gives a cluster a ServiceExport and a ServiceImport shop/web, and none of Linkerd's
// resources.
func withoutCustom(s *decode.Sources) {
	s.Servers = sourceOf[*decode.Server](absent{})
	s.Workloads = sourceOf[*decode.ExternalWorkload](absent{})
	s.Profiles = sourceOf[*decode.ServiceProfile](absent{})
	still := func(context.Context, metav1.ListOptions) (watch.Interface, error) { return watch.NewFake(), nil }
	web := metav1.ObjectMeta{Namespace: "shop", Name: "web"}
	s.ServiceExports = fakeSource[*mcs.ServiceExport](
		func(context.Context, metav1.ListOptions) (*mcs.ServiceExportList, error) {
			return &mcs.ServiceExportList{Items: []mcs.ServiceExport{{ObjectMeta: web}}}, nil
		},
		still,
	)
	s.ServiceImports = fakeSource[*mcs.ServiceImport](
		func(context.Context, metav1.ListOptions) (*mcs.ServiceImportList, error) {
			return &mcs.ServiceImportList{Items: []mcs.ServiceImport{{ObjectMeta: web}}}, nil
		},
		still,
	)
	s.MCSVersion = func() string { return "v1alpha1" }
}

// absent is a client of a custom resource that does not exist in the cluster.
type absent struct{}

func (absent) List(context.Context, metav1.ListOptions) (*corev1.List, error) {
	return nil, apierrors.NewNotFound(schema.GroupResource{}, "")
}

func (absent) Watch(context.Context, metav1.ListOptions) (watch.Interface, error) {
	return nil, apierrors.NewNotFound(schema.GroupResource{}, "")
}

// TestSecretsCantBeRead checks that the Store is not settled while link Secrets cannot be listed.
func TestSecretsCantBeRead(t *testing.T) {
	inBubble(t, func(e *env) {
		e.settled(false)
		e.pass(time.Hour)
		e.settled(false)
		e.logged("link Secrets cannot be read; the current links stay in effect")
		e.forbidden.Store(false)
		e.pass(5 * time.Second)
		e.logged("link Secrets can be read again", "cluster linked")
		e.linked("east=pending")
	}, nil, secret("s", "east", "t1", 0))
}

func TestMetrics(t *testing.T) {
	bad, opaque := secret("bad", "west", "t", 0), secret("opaque", "none", "t", 0)
	bad.Data = nil
	opaque.Type = corev1.SecretTypeOpaque
	inBubble(t, func(e *env) {
		registry := prometheus.NewRegistry()
		if err := registerStore(e.store, registry); err != nil {
			t.Fatal(err)
		}
		east := e.named("east")
		east.sync()
		e.named("north").fail("refused")
		clustertest.CheckMetrics(t, registry,
			"cluster_store_size 2",
			"isthmus_cluster_rotation_failing cluster=east 0",
			"isthmus_cluster_rotation_failing cluster=north 0",
			"isthmus_cluster_stale_seconds cluster=east 0",
			"isthmus_cluster_stale_seconds cluster=north 0",
			"isthmus_cluster_standing cluster=east standing=in-service 1",
			"isthmus_cluster_standing cluster=north standing=last-resort 1",
			"isthmus_cluster_state cluster=east state=ready 1",
			"isthmus_cluster_state cluster=north state=unreachable 1",
			"isthmus_cluster_state cluster=west state=rejected 1",
			"isthmus_link_rejected reason=annotation 0",
			"isthmus_link_rejected reason=duplicate 1",
			"isthmus_link_rejected reason=kubeconfig 1",
			"isthmus_link_rejected reason=label 0",
			"isthmus_link_secrets 4",
			"isthmus_link_secrets_unreadable 0",
		)
		east.lose("gone")
		e.pass(90 * time.Second)
		e.put(with(secret("a", "east", "t2", 5), "when-lost", "withdraw"))
		e.last(3).fail("unauthorized")
		e.remove("n")
		e.remove("bad")
		clustertest.CheckMetrics(t, registry,
			"cluster_store_size 1",
			"isthmus_cluster_rotation_failing cluster=east 1",
			"isthmus_cluster_stale_seconds cluster=east 90",
			"isthmus_cluster_standing cluster=east standing=withdrawn 1",
			"isthmus_cluster_state cluster=east state=stale 1",
			"isthmus_link_rejected reason=annotation 0",
			"isthmus_link_rejected reason=duplicate 1",
			"isthmus_link_rejected reason=kubeconfig 0",
			"isthmus_link_rejected reason=label 0",
			"isthmus_link_secrets 2",
			"isthmus_link_secrets_unreadable 0",
		)
	}, with(secret("a", "east", "t1", 5), "when-lost", "withdraw"), secret("b", "east", "t1", 0),
		with(secret("n", "north", "t1", 0), "cordon", "last-resort"), bad, opaque)
}

// TestForgottenWithItsLink checks that request metrics of a cluster are removed together with its
// last Secret.
func TestForgottenWithItsLink(t *testing.T) {
	registry := prometheus.NewRegistry()
	m, err := cluster.NewMetrics(registry)
	if err != nil {
		t.Fatal(err)
	}
	inBubble(t, func(e *env) {
		if _, err := kube.New("east", &rest.Config{Host: "https://east"}, m.Requests()); err != nil { // as a Cluster's
			t.Fatal(err)
		}
		e.store.metrics = m
		ofEast := func() bool {
			return strings.Contains(strings.Join(clustertest.MetricLines(t, registry), "\n"), "cluster=east")
		}
		e.put(secret("a", "east", "t2", 5))
		if !ofEast() {
			t.Error("a rotation has removed the series")
		}
		e.remove("a")
		if ofEast() {
			t.Error("the series were not removed")
		}
	}, secret("a", "east", "t1", 5))
}
