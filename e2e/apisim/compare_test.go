package apisim_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"go.uber.org/goleak"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"isthmus/e2e/apisim"
	"isthmus/e2e/cluster"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// api is an API server, real or not, and a note of what it has answered.
type api struct {
	t      *testing.T
	rest   *rest.Config
	client *http.Client
	put    func(metav1.Object)
	delete func(metav1.Object)
	notes  []string
}

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
	const list = "/api/v1/namespaces/default/services"
	for _, name := range []string{"c", "a", "b"} {
		a.put(service(name, ""))
	}
	a.put(&appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Name: "rs", Namespace: "default"}, Spec: appsv1.ReplicaSetSpec{
		Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": "b"}}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "none"}}}},
	}})
	a.put(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "one", Namespace: "default"}, Type: "example.com/one"})
	a.put(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "two", Namespace: "default"}, Type: "example.com/two"})

	a.list("all", list, "", "")
	a.list("all namespaces", "/api/v1/services", "", "")
	a.list("a type of Secrets", "/api/v1/namespaces/default/secrets?fieldSelector=type%3Dexample.com%2Ftwo", "", "")
	a.list("metadata", "/apis/apps/v1/namespaces/default/replicasets", "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1", "")
	a.pages(list)

	from := a.version(list)
	plain := a.watch("from a version", list+"?watch=true&resourceVersion="+from, "")
	a.put(service("d", ""))
	a.put(service("d", "changed"))
	a.delete(service("a", ""))
	plain.next(3)
	again := a.watch("from the same version, afterwards", list+"?watch=true&resourceVersion="+from, "")
	again.next(3)
	a.streamed(list)
	a.watch("of metadata", "/apis/apps/v1/namespaces/default/replicasets?watch=true&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan",
		"application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1").next(2)
	a.watch("of a type of Secrets", "/api/v1/namespaces/default/secrets?fieldSelector=type%3Dexample.com%2Ftwo&watch=true&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan", "").next(2)
	a.watch("from a version that is too old", list+"?watch=true&resourceVersion=1", "").next(1)
	a.watch("for a second", list+"?watch=true&timeoutSeconds=1&resourceVersion="+a.version(list), "").end()

	a.list("what is not served", "/apis/nothing.example.com/v1/things", "", "")
	a.list("with a wrong token", list, "", "Bearer wrong")
}

// streamed watches from the beginning, and what happens then.
func (a *api) streamed(list string) {
	w := a.watch("with all objects", list+"?watch=true&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan", "")
	w.next(4)
	a.delete(service("d", ""))
	a.put(service("a", ""))
	w.next(2)
}

func service(name, annotation string) *corev1.Service {
	o := &corev1.Service{Spec: corev1.ServiceSpec{ClusterIP: "None", Ports: []corev1.ServicePort{{Port: 80}}}}
	o.Name, o.Namespace, o.Annotations = name, "default", map[string]string{"example.com/note": annotation}
	return o
}

func (a *api) note(format string, args ...any) {
	a.notes = append(a.notes, fmt.Sprintf(format, args...))
}

// get asks for a path.
func (a *api) get(ctx context.Context, path, accept, authorization string) *http.Response {
	a.t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, a.rest.Host+path, nil)
	if err != nil {
		a.t.Fatal(err)
	}
	if accept != "" {
		req.Header.Set("Accept", accept)
	}
	client := a.client
	if authorization != "" {
		req.Header.Set("Authorization", authorization)
		anonymous, err := rest.HTTPClientFor(rest.AnonymousClientConfig(a.rest))
		if err != nil {
			a.t.Fatal(err)
		}
		a.t.Cleanup(anonymous.CloseIdleConnections)
		client = anonymous
	}
	resp, err := client.Do(req)
	if err != nil {
		a.t.Fatal(err)
	}
	return resp
}

// answer is a list, or a Status.
type answer struct {
	Kind, APIVersion, Reason string
	Metadata                 metav1.ListMeta
	Items                    []metav1.PartialObjectMetadata
}

func (a *api) list(what, path, accept, authorization string) answer {
	a.t.Helper()
	resp := a.get(a.t.Context(), path, accept, authorization)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		a.t.Fatal(err)
	}
	var got answer
	if err := json.Unmarshal(body, &got); err != nil && resp.StatusCode != http.StatusNotFound {
		a.t.Fatalf("%s: %v: %s", what, err, body)
	}
	a.note("%s: %d %s %s %s %s more=%v", what, resp.StatusCode, got.Kind, got.APIVersion, got.Reason, names(got.Items), got.Metadata.Continue != "")
	return got
}

// names leaves out what only real servers make.
func names(items []metav1.PartialObjectMetadata) (list []string) {
	for _, o := range items {
		if o.Name != "kubernetes" {
			list = append(list, fmt.Sprintf("%s/%s whole=%v", o.Namespace, o.Name, o.ResourceVersion != "" && o.UID != "" && !o.CreationTimestamp.IsZero()))
		}
	}
	return list
}

// pages lists in parts, while something happens.
func (a *api) pages(path string) {
	first := a.list("first page", path+"?limit=2", "", "")
	a.put(service("aa", ""))
	a.note("left: %d", *first.Metadata.RemainingItemCount)
	second := a.list("second page", path+"?limit=2&continue="+url.QueryEscape(first.Metadata.Continue), "", "")
	a.note("of one version: %v", first.Metadata.ResourceVersion == second.Metadata.ResourceVersion)
	a.delete(service("aa", ""))
}

func (a *api) version(path string) string {
	resp := a.get(a.t.Context(), path, "", "")
	defer resp.Body.Close()
	var got answer
	if err := json.NewDecoder(resp.Body).Decode(&got); err != nil {
		a.t.Fatal(err)
	}
	return got.Metadata.ResourceVersion
}

// watch is one under way.
type watch struct {
	api   *api
	what  string
	lines *bufio.Reader
	last  uint64 // version
}

func (a *api) watch(what, path, accept string) *watch {
	a.t.Helper()
	ctx, stop := context.WithCancel(a.t.Context())
	resp := a.get(ctx, path, accept, "")
	a.t.Cleanup(func() { stop(); resp.Body.Close() })
	a.note("watch %s: %d", what, resp.StatusCode)
	return &watch{api: a, what: what, lines: bufio.NewReader(resp.Body)}
}

// next notes so many events, but for those of what only real servers make.
func (w *watch) next(n int) {
	w.api.t.Helper()
	for n > 0 {
		text, err := w.lines.ReadBytes('\n')
		if err != nil {
			w.api.t.Fatalf("watch %s: %v", w.what, err)
		}
		var e struct {
			Type   string
			Object struct {
				Kind, APIVersion, Reason string
				Code                     int
				Metadata                 metav1.ObjectMeta
			}
		}
		if err := json.Unmarshal(text, &e); err != nil {
			w.api.t.Fatalf("watch %s: %v: %s", w.what, err, text)
		}
		if e.Object.Metadata.Name == "kubernetes" {
			continue
		}
		n--
		version, _ := strconv.ParseUint(e.Object.Metadata.ResourceVersion, 10, 64)
		ascending := version > w.last || e.Type == "ADDED" && version > 0
		w.last = version
		w.api.note("watch %s: %s %s %s %s %q %s %d ascending=%v", w.what, e.Type, e.Object.APIVersion, e.Object.Kind,
			e.Object.Metadata.Name, e.Object.Metadata.Annotations, e.Object.Reason, e.Object.Code, ascending)
	}
}

// end notes that the server has ended the watch.
func (w *watch) end() {
	_, err := w.lines.ReadBytes('\n')
	w.api.note("watch %s: ended: %v", w.what, err)
}

// newLight starts this package's server.
func newLight(t *testing.T) *api {
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
	a := newAPI(t, config)
	a.put = func(o metav1.Object) { a.must(s.Put(o.(runtime.Object))) }
	a.delete = func(o metav1.Object) { a.must(s.Delete(o.(runtime.Object))) }
	return a
}

// newReal starts a real one.
func newReal(t *testing.T) *api {
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
	k, err := kubernetes.NewForConfigAndClient(c.REST(), a.client)
	if err != nil {
		t.Fatal(err)
	}
	a.put = func(o metav1.Object) { a.must(write(t.Context(), k, o)) }
	a.delete = func(o metav1.Object) {
		a.must(k.CoreV1().Services(o.GetNamespace()).Delete(t.Context(), o.GetName(), metav1.DeleteOptions{}))
	}
	return a
}

func write(ctx context.Context, k kubernetes.Interface, o metav1.Object) error {
	var err error
	switch o := o.(type) {
	case *corev1.Service:
		_, err = k.CoreV1().Services(o.Namespace).Create(ctx, o, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			_, err = k.CoreV1().Services(o.Namespace).Update(ctx, o, metav1.UpdateOptions{})
		}
	case *corev1.Secret:
		_, err = k.CoreV1().Secrets(o.Namespace).Create(ctx, o, metav1.CreateOptions{})
	case *appsv1.ReplicaSet:
		_, err = k.AppsV1().ReplicaSets(o.Namespace).Create(ctx, o, metav1.CreateOptions{})
	default:
		err = fmt.Errorf("%T is not written here", o)
	}
	return err
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
