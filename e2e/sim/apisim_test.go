package sim_test

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	serializer "k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"isthmus/e2e/harness"
	"isthmus/e2e/harness/kube"
	"isthmus/internal/apisim"
)

// namespace contains all objects. A real API server does not create objects in it by itself.
const namespace = "play"

// TestAsRealServers checks that a server of package apisim answers requests like a real API server.
func TestAsRealServers(t *testing.T) {
	real, light := newReal(t), newLight(t)
	for _, a := range []*api{real, light} {
		a.all()
	}
	for i, want := range real.notes {
		if i >= len(light.notes) || light.notes[i] != want {
			t.Errorf(
				"a real server: %s\napisim:        %s",
				want,
				slices.Concat(light.notes, make([]string, len(real.notes)))[i],
			)
		}
	}
	if len(light.notes) != len(real.notes) {
		t.Errorf("%d notes about apisim, %d about a real server", len(light.notes), len(real.notes))
	}
}

// all makes the requests.
func (a *api) all() {
	const list = "/api/v1/namespaces/play/services"
	for _, name := range []string{"c", "a", "b"} {
		a.put(service(name, ""))
	}
	a.put(kube.ReplicaSet(namespace, "rs", "web"))
	a.put(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "one", Namespace: namespace}, Type: "example.com/one"})
	a.put(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "two", Namespace: namespace}, Type: "example.com/two"})

	a.list("all", list, "", "")
	a.list("all namespaces", "/api/v1/services", "", "")
	a.list("a type of Secrets", "/api/v1/namespaces/play/secrets?fieldSelector=type%3Dexample.com%2Ftwo", "", "")
	a.list(
		"metadata",
		"/apis/apps/v1/namespaces/play/replicasets",
		"application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
		"",
	)
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

	a.list("a resource that is not served", "/apis/nothing.example.com/v1/things", "", "")
	a.list("with a wrong token", list, "", "Bearer wrong")
}

// beginning watches without a version, so the watch begins with all existing objects.
func (a *api) beginning(list string) {
	w := a.watch("with all objects", list+"?watch=true", "")
	w.next(3)
	a.delete(service("d", ""))
	a.put(service("a", ""))
	w.next(2)
}

func service(name, annotation string) *corev1.Service {
	o := kube.Service(namespace, name)
	o.Spec.ClusterIP, o.Annotations = "None", map[string]string{"example.com/note": annotation}
	return o
}

// newLight starts a server of package apisim.
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

// startReal starts a real API server, and also returns a client for its objects.
func startReal(t *testing.T) (*api, *kube.Client) {
	t.Helper()
	c, err := harness.StartCluster(t.Context(), harness.ClusterConfig{
		Name:        "real",
		Dir:         filepath.Join(t.TempDir(), "real"),
		Controllers: []string{"namespace", "serviceaccount"},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	a := newAPI(t, c.REST())
	k, err := kube.NewClient("real", c.REST())
	a.must(err)
	t.Cleanup(k.Close)
	return a, k
}

// newReal starts a real API server with the namespace for the objects.
func newReal(t *testing.T) *api {
	a, k := startReal(t)
	a.must(k.Apply(t.Context(), kube.Namespace(namespace)))
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
			err = fmt.Errorf("%T is not supported", o)
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

// api is a real or simulated API server, with notes about its responses.
type api struct {
	t      *testing.T
	rest   *rest.Config
	client *http.Client
	put    func(metav1.Object)
	delete func(metav1.Object)
	notes  []string
}

func (a *api) note(format string, args ...any) {
	a.notes = append(a.notes, fmt.Sprintf(format, args...))
}

// get sends a GET request.
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

// answer is a list or a Status.
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
	if accept == protobuf {
		body = a.asJSON(body)
	}
	var got answer
	if err := json.Unmarshal(body, &got); err != nil && resp.StatusCode != http.StatusNotFound {
		a.t.Fatalf("%s: %v: %s", what, err, body)
	}
	a.note(
		"%s: %d %s %s %s %s more=%v",
		what,
		resp.StatusCode,
		got.Kind,
		got.APIVersion,
		got.Reason,
		names(got.Items),
		got.Metadata.Continue != "",
	)
	return got
}

const protobuf = "application/vnd.kubernetes.protobuf"

// asJSON converts an object from protobuf to JSON.
func (a *api) asJSON(body []byte) []byte {
	a.t.Helper()
	o, of, err := serializer.NewSerializer(scheme.Scheme, scheme.Scheme).Decode(body, nil, nil)
	if err != nil {
		a.t.Fatal(err)
	}
	o.GetObjectKind().SetGroupVersionKind(*of)
	text, err := json.Marshal(o)
	if err != nil {
		a.t.Fatal(err)
	}
	return text
}

// names returns a description of the items, without those that only real servers have.
func names(items []metav1.PartialObjectMetadata) (list []string) {
	for _, o := range items {
		if o.Namespace == namespace {
			list = append(list, fmt.Sprintf(
				"%s/%s whole=%v",
				o.Namespace,
				o.Name,
				o.ResourceVersion != "" && o.UID != "" && !o.CreationTimestamp.IsZero(),
			))
		}
	}
	return list
}

// pages lists objects in pages, with a write in between.
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

type watch struct {
	api   *api
	what  string
	lines *bufio.Reader
	as    string // the requested encoding
	last  uint64 // the last version
}

func (a *api) watch(what, path, accept string) *watch {
	a.t.Helper()
	ctx, stop := context.WithCancel(a.t.Context())
	resp := a.get(ctx, path, accept, "")
	a.t.Cleanup(func() { stop(); resp.Body.Close() })
	a.note("watch %s: %d", what, resp.StatusCode)
	return &watch{api: a, what: what, as: accept, lines: bufio.NewReader(resp.Body)}
}

// next notes the next n events. It ignores periodic bookmarks, since a server sends them at any
// time.
func (w *watch) next(n int) {
	w.api.t.Helper()
	for n > 0 {
		text, err := w.read()
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
		if e.Type == "BOOKMARK" && len(e.Object.Metadata.Annotations) == 0 {
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

// read returns the next event as JSON.
func (w *watch) read() ([]byte, error) {
	if w.as != protobuf {
		return w.lines.ReadBytes('\n')
	}
	var length uint32
	if err := binary.Read(w.lines, binary.BigEndian, &length); err != nil {
		return nil, err
	}
	text := make([]byte, length)
	if _, err := io.ReadFull(w.lines, text); err != nil {
		return nil, err
	}
	var e metav1.WatchEvent
	if err := e.Unmarshal(text); err != nil {
		return nil, err
	}
	return fmt.Appendf(nil, `{"type":%q,"object":%s}`, e.Type, w.api.asJSON(e.Object.Raw)), nil
}

// end notes that the server has ended the watch.
func (w *watch) end() {
	_, err := w.lines.ReadBytes('\n')
	w.api.note("watch %s: ended: %v", w.what, err)
}

// writes makes writes with a typed client, one object at a time.
func (a *api) writes(contentType string) {
	config := rest.CopyConfig(a.rest)
	config.ContentType, config.AcceptContentTypes = contentType, contentType+",application/json"
	client, err := kubernetes.NewForConfigAndClient(config, a.client)
	a.must(err)
	services := client.CoreV1().Services(namespace)
	ctx := a.t.Context()
	note := func(what string, o, before *corev1.Service, err error) {
		a.note("%s: %s", what, reason(err))
		if err == nil && before != nil {
			a.note(
				"%s: same UID=%v, version=%v, ClusterIP=%v, notes %q",
				what,
				o.UID == before.UID,
				o.ResourceVersion == before.ResourceVersion,
				o.Spec.ClusterIP == before.Spec.ClusterIP && o.Spec.ClusterIP != "",
				o.Annotations,
			)
		}
	}
	update := func(what string, from *corev1.Service, change func(*corev1.Service)) *corev1.Service {
		o := from.DeepCopy()
		change(o)
		next, err := services.Update(ctx, o, metav1.UpdateOptions{})
		note(what, next, from, err)
		return next
	}
	remove := func(what string, uid *metav1.Preconditions) {
		note(what, nil, nil, services.Delete(ctx, "w", metav1.DeleteOptions{Preconditions: uid}))
	}
	made, err := services.Create(ctx, kube.Service("", "w"), metav1.CreateOptions{})
	note("create", made, made, err)
	_, err = services.Create(ctx, kube.Service("", "w"), metav1.CreateOptions{})
	note("create an existing object", nil, nil, err)
	got, err := services.Get(ctx, "w", metav1.GetOptions{})
	note("get", got, made, err)
	_, err = services.Get(ctx, "none", metav1.GetOptions{})
	note("get a missing object", nil, nil, err)
	w := a.watch(
		"from the creation",
		"/api/v1/namespaces/play/services?watch=true&resourceVersion="+made.ResourceVersion,
		"",
	)
	changed := update("update", made, func(o *corev1.Service) { o.Annotations = map[string]string{"a": "b"} })
	update("update an old version", made, func(o *corev1.Service) { o.Annotations = map[string]string{"a": "c"} })
	update("update another UID", changed, func(o *corev1.Service) { o.ResourceVersion, o.UID = "", "other" })
	update("update any version, keeping the ClusterIP", changed, func(o *corev1.Service) {
		o.ResourceVersion, o.Spec.ClusterIP, o.Spec.ClusterIPs, o.Annotations["a"] = "", "", nil, "d"
	})
	update("update a missing object", changed, func(o *corev1.Service) { o.Name = "none" })
	remove("delete another UID", metav1.NewUIDPreconditions("other"))
	remove("delete an old version", metav1.NewRVDeletionPrecondition(made.ResourceVersion).Preconditions)
	remove("delete", metav1.NewUIDPreconditions(string(made.UID)))
	remove("delete a missing object", nil)
	w.next(3)

	leases := client.CoordinationV1().Leases(namespace)
	lease, err := leases.Create(
		ctx,
		&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "l"}},
		metav1.CreateOptions{},
	)
	a.note("create a Lease: %s", reason(err))
	lease.Spec.HolderIdentity = new("me")
	held, err := leases.Update(ctx, lease, metav1.UpdateOptions{})
	a.note("hold it: %s, by %s", reason(err), *held.Spec.HolderIdentity)
	_, err = leases.Update(ctx, lease, metav1.UpdateOptions{})
	a.note("hold it with an old version: %s", reason(err))
	a.must(leases.Delete(ctx, "l", metav1.DeleteOptions{}))
}

// reason returns the reason of an API error.
func reason(err error) string {
	status := apierrors.APIStatus(nil)
	if err != nil && !errors.As(err, &status) {
		return err.Error()
	}
	return string(apierrors.ReasonForError(err))
}
