// Package apisim_test compares the simulated API server of internal/apisim with real ones.
package apisim_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"isthmus/e2e/cluster"
	"isthmus/e2e/kube"
	"isthmus/e2e/object"
	"isthmus/internal/apisim"
)

// namespace is what all objects are in. A real server makes none there by itself.
const namespace = "play"

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestAsRealServers asks a real API server and this package's the same things and compares what they answer.
func TestAsRealServers(t *testing.T) {
	real, light := newReal(t), newLight(t)
	for _, a := range []*api{real, light} {
		a.all()
	}
	for i, want := range real.notes {
		if i >= len(light.notes) || light.notes[i] != want {
			t.Errorf("a real server: %s\nthis one:      %s", want, slices.Concat(light.notes, make([]string, len(real.notes)))[i])
		}
	}
	if len(light.notes) != len(real.notes) {
		t.Errorf("%d answers, a real server has %d", len(light.notes), len(real.notes))
	}
}

// all is what is asked.
func (a *api) all() {
	const list = "/api/v1/namespaces/play/services"
	for _, name := range []string{"c", "a", "b"} {
		a.put(service(name, ""))
	}
	a.put(object.ReplicaSet(namespace, "rs", "web"))
	a.put(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "one", Namespace: namespace}, Type: "example.com/one"})
	a.put(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "two", Namespace: namespace}, Type: "example.com/two"})

	a.list("all", list, "", "")
	a.list("all namespaces", "/api/v1/services", "", "")
	a.list("a type of Secrets", "/api/v1/namespaces/play/secrets?fieldSelector=type%3Dexample.com%2Ftwo", "", "")
	a.list("metadata", "/apis/apps/v1/namespaces/play/replicasets", "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1", "")
	a.pages(list)

	from := a.version(list)
	plain := a.watch("from a version", list+"?watch=true&resourceVersion="+from, "")
	a.put(service("d", ""))
	a.put(service("d", "changed"))
	a.delete(service("a", ""))
	plain.next(3)
	again := a.watch("from the same version, afterwards", list+"?watch=true&resourceVersion="+from, "")
	again.next(3)
	a.beginning(list)
	a.watch("of metadata", "/apis/apps/v1/namespaces/play/replicasets?watch=true",
		"application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1").next(1)
	a.watch("of a type of Secrets",
		"/api/v1/namespaces/play/secrets?fieldSelector=type%3Dexample.com%2Ftwo&watch=true", "").next(1)
	a.watch("from a version that is too old", list+"?watch=true&resourceVersion=1", "").next(1)
	a.watch("for a second", list+"?watch=true&timeoutSeconds=1&resourceVersion="+a.version(list), "").end()

	a.list("in protobuf", list, protobuf, "")
	a.list("nothing in protobuf", "/api/v1/namespaces/empty/pods", protobuf, "")
	a.watch("in protobuf", list+"?watch=true", protobuf).next(3)
	changes := a.watch("of changes in protobuf", list+"?watch=true&resourceVersion="+a.version(list), protobuf)
	a.put(service("c", "changed"))
	a.delete(service("c", ""))
	changes.next(2)
	a.watch("from a version that is too old, in protobuf", list+"?watch=true&resourceVersion=1", protobuf).next(1)

	a.writes("application/json")
	a.writes(protobuf)

	a.list("what is not served", "/apis/nothing.example.com/v1/things", "", "")
	a.list("with a wrong token", list, "", "Bearer wrong")
}

// beginning watches without a version, which brings all objects first.
func (a *api) beginning(list string) {
	w := a.watch("with all objects", list+"?watch=true", "")
	w.next(3)
	a.delete(service("d", ""))
	a.put(service("a", ""))
	w.next(2)
}

func service(name, annotation string) *corev1.Service {
	o := object.Service(namespace, name)
	o.Spec.ClusterIP, o.Annotations = "None", map[string]string{"example.com/note": annotation}
	return o
}

// newLight starts this package's server.
func newLight(t *testing.T) *api {
	a, s := newServer(t)
	s.TakeWrites(nil, nil)
	a.put = func(o metav1.Object) { a.must(s.Put(o.(runtime.Object))) }
	a.delete = func(o metav1.Object) { a.must(s.Delete(o.(runtime.Object))) }
	return a
}

func newServer(t *testing.T) (*api, *apisim.Server) {
	authority, err := apisim.NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	s, err := apisim.Start("light", authority)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	s.Admit("good")
	text, err := s.Kubeconfig(s.Addr(), "good")
	if err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(text)
	if err != nil {
		t.Fatal(err)
	}
	return newAPI(t, config), s
}

// startReal starts a real API server, and returns a client of its objects too.
func startReal(t *testing.T) (*api, *kube.Client) {
	t.Helper()
	c, err := cluster.Start(t.Context(), cluster.Config{Name: "real", Dir: filepath.Join(t.TempDir(), "real"), Controllers: []string{"namespace", "serviceaccount"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	a := newAPI(t, c.REST())
	k, err := kube.New("real", c.REST())
	a.must(err)
	t.Cleanup(k.Close)
	return a, k
}

// newReal starts a real one, with what is compared in it.
func newReal(t *testing.T) *api {
	a, k := startReal(t)
	a.must(k.Apply(t.Context(), object.Namespace(namespace)))
	a.put = func(o metav1.Object) {
		var err error
		switch o := o.(type) {
		case *corev1.Service:
			_, err = kube.Put(t.Context(), k.CoreV1().Services(namespace), o)
		case *corev1.Secret:
			_, err = kube.Put(t.Context(), k.CoreV1().Secrets(namespace), o)
		case *appsv1.ReplicaSet:
			_, err = kube.Put(t.Context(), k.AppsV1().ReplicaSets(namespace), o)
		default:
			err = fmt.Errorf("%T is not written here", o)
		}
		a.must(err)
	}
	a.delete = func(o metav1.Object) {
		a.must(k.CoreV1().Services(namespace).Delete(t.Context(), o.GetName(), metav1.DeleteOptions{}))
	}
	return a
}

func newAPI(t *testing.T, config *rest.Config) *api {
	config.Host = strings.TrimRight(config.Host, "/")
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.CloseIdleConnections)
	return &api{t: t, rest: config, client: client}
}

func (a *api) must(err error) {
	a.t.Helper()
	if err != nil {
		a.t.Fatal(err)
	}
}
