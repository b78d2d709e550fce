package typed_test

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"

	"isthmus/clusterstore/typed"
	"isthmus/clusterstore/typed/typedtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// recorder is an API server that notes what it is asked.
type recorder struct {
	asked  []string
	answer string
}

func (r *recorder) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	body, _ := io.ReadAll(q.Body)
	r.asked = append(r.asked, fmt.Sprintf("%s %s as %q accepts %q by %s\n%q",
		q.Method, q.URL, q.Header.Get("Content-Type"), q.Header.Get("Accept"), q.UserAgent(), body))
	w.Header().Set("Content-Type", "application/json")
	io.WriteString(w, r.answer)
}

func (r *recorder) take() []string {
	asked := r.asked
	r.asked = nil
	return asked
}

func (r *recorder) start(t *testing.T) (*rest.Config, *http.Client) {
	s := httptest.NewServer(r)
	t.Cleanup(s.Close)
	t.Cleanup(s.Client().CloseIdleConnections)
	return &rest.Config{Host: s.URL, QPS: -1}, s.Client()
}

// calls makes one request of each kind to a resource.
func calls[T, L any](ctx context.Context, c typed.Resource[T, L], o T) {
	_, _ = c.Get(ctx, "x", metav1.GetOptions{ResourceVersion: "1"})
	_, _ = c.List(ctx, metav1.ListOptions{LabelSelector: "a=b", Limit: 3, TimeoutSeconds: new(int64(9))})
	if w, err := c.Watch(ctx, metav1.ListOptions{FieldSelector: "a=b", AllowWatchBookmarks: true}); err == nil {
		w.Stop()
		for range w.ResultChan() {
		}
	}
	_, _ = c.Create(ctx, o, metav1.CreateOptions{FieldManager: "me"})
	_, _ = c.Update(ctx, o, metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}})
	_, _ = c.Patch(ctx, "x", types.MergePatchType, []byte("{}"), metav1.PatchOptions{Force: new(true)}, "status")
	_ = c.Delete(ctx, "x", metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: new(types.UID("u"))}})
}

// both makes the same requests with two clients.
func both[T, L any](ctx context.Context, here, there typed.Resource[T, L], o T) (mine, theirs func()) {
	return func() { calls(ctx, here, o) }, func() { calls(ctx, there, o) }
}

// in is both for a namespace.
func in[T, L any, R typed.Resource[T, L]](ctx context.Context, here typed.Namespaced[T, L], there func(string) R, o T) (mine, theirs func()) {
	return both(ctx, here("ns"), typed.Resource[T, L](there("ns")), o)
}

// TestRequests: each request is that of client-go's clientset.
func TestRequests(t *testing.T) {
	for _, contentType := range []string{"", runtime.ContentTypeProtobuf, runtime.ContentTypeJSON} {
		r := &recorder{answer: "{}"}
		config, client := r.start(t)
		config.ContentType = contentType
		ours, err := typed.New(config, client)
		if err != nil {
			t.Fatal(err)
		}
		theirs, err := kubernetes.NewForConfigAndClient(config, client)
		if err != nil {
			t.Fatal(err)
		}
		ctx, core := t.Context(), theirs.CoreV1()
		meta := metav1.ObjectMeta{Name: "x", Labels: map[string]string{"a": "b"}}
		own, all := authorizationv1.SelfSubjectAccessReview{ObjectMeta: meta}, authorizationv1.SubjectAccessReview{ObjectMeta: meta}
		who, token := authenticationv1.SelfSubjectReview{ObjectMeta: meta}, authenticationv1.TokenRequest{ObjectMeta: meta}
		type pair struct{ mine, theirs func() }
		one := func(mine, theirs func()) pair { return pair{mine, theirs} }
		pairs := map[string]pair{
			"ConfigMaps": one(in(ctx, ours.ConfigMaps, core.ConfigMaps, &corev1.ConfigMap{ObjectMeta: meta})),
			//lint:ignore SA1019 they are read with --enable-endpoint-slices=false
			"Endpoints":       one(in(ctx, ours.Endpoints, core.Endpoints, &corev1.Endpoints{ObjectMeta: meta})),
			"EndpointSlices":  one(in(ctx, ours.EndpointSlices, theirs.DiscoveryV1().EndpointSlices, &discoveryv1.EndpointSlice{ObjectMeta: meta})),
			"Leases":          one(in(ctx, ours.Leases, theirs.CoordinationV1().Leases, &coordinationv1.Lease{ObjectMeta: meta})),
			"Pods":            one(in(ctx, ours.Pods, core.Pods, &corev1.Pod{ObjectMeta: meta})),
			"Secrets":         one(in(ctx, ours.Secrets, core.Secrets, &corev1.Secret{ObjectMeta: meta})),
			"ServiceAccounts": one(in(ctx, ours.ServiceAccounts, core.ServiceAccounts, &corev1.ServiceAccount{ObjectMeta: meta})),
			"Services":        one(in(ctx, ours.Services, core.Services, &corev1.Service{ObjectMeta: meta})),

			"ClusterRoleBindings": one(both(ctx, ours.ClusterRoleBindings, resourceOf(theirs.RbacV1().ClusterRoleBindings()), &rbacv1.ClusterRoleBinding{ObjectMeta: meta})),
			"ClusterRoles":        one(both(ctx, ours.ClusterRoles, resourceOf(theirs.RbacV1().ClusterRoles()), &rbacv1.ClusterRole{ObjectMeta: meta})),
			"Namespaces":          one(both(ctx, ours.Namespaces, resourceOf(core.Namespaces()), &corev1.Namespace{ObjectMeta: meta})),
			"Nodes":               one(both(ctx, ours.Nodes, resourceOf(core.Nodes()), &corev1.Node{ObjectMeta: meta})),

			"SelfSubjectAccessReviews": {
				func() { _, _ = ours.SelfSubjectAccessReviews.Create(ctx, &own, metav1.CreateOptions{}) },
				func() {
					_, _ = theirs.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, &own, metav1.CreateOptions{})
				},
			},
			"SubjectAccessReviews": {
				func() { _, _ = ours.SubjectAccessReviews.Create(ctx, &all, metav1.CreateOptions{}) },
				func() {
					_, _ = theirs.AuthorizationV1().SubjectAccessReviews().Create(ctx, &all, metav1.CreateOptions{})
				},
			},
			"SelfSubjectReviews": {
				func() { _, _ = ours.SelfSubjectReviews.Create(ctx, &who, metav1.CreateOptions{}) },
				func() {
					_, _ = theirs.AuthenticationV1().SelfSubjectReviews().Create(ctx, &who, metav1.CreateOptions{})
				},
			},
			"CreateToken": {
				func() { _, _ = ours.CreateToken(ctx, "ns", "x", &token) },
				func() { _, _ = core.ServiceAccounts("ns").CreateToken(ctx, "x", &token, metav1.CreateOptions{}) },
			},
			"REST": {
				func() { ours.REST.Post().Namespace("ns").Resource("pods").Name("x").SubResource("portforward").Do(ctx) },
				func() {
					core.RESTClient().Post().Namespace("ns").Resource("pods").Name("x").SubResource("portforward").Do(ctx)
				},
			},
		}
		for name, p := range pairs {
			p.mine()
			mine := r.take()
			p.theirs()
			if theirs := r.take(); len(mine) == 0 || !slices.Equal(mine, theirs) {
				t.Errorf("%s requests\n%s\nand client-go\n%s", name, strings.Join(mine, "\n"), strings.Join(theirs, "\n"))
			}
		}
		if got, want := slices.Sorted(maps.Keys(pairs)), fields(ours, reflect.Func, reflect.Interface); !slices.Equal(got, want) {
			t.Errorf("compared: %v, there are %v", got, want)
		}
	}
}

func resourceOf[T, L any](c typed.Resource[T, L]) typed.Resource[T, L] { return c }

// fields lists the fields of Clients that are set, by name.
func fields(c *typed.Clients, kinds ...reflect.Kind) (names []string) {
	v := reflect.ValueOf(c).Elem()
	for i := range v.NumField() {
		if slices.Contains(kinds, v.Field(i).Kind()) && !v.Field(i).IsNil() {
			names = append(names, v.Type().Field(i).Name)
		}
	}
	slices.Sort(names)
	return names
}

// TestFakes: fakes have all that real clients have, but REST.
func TestFakes(t *testing.T) {
	real, err := typed.New(&rest.Config{Host: "https://none"}, http.DefaultClient)
	if err != nil {
		t.Fatal(err)
	}
	fakes := typedtest.Clients(fake.NewClientset(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "x"}}))
	want := slices.DeleteFunc(fields(real, reflect.Func, reflect.Interface), func(s string) bool { return s == "REST" })
	if got := fields(fakes, reflect.Func, reflect.Interface); !slices.Equal(got, want) || len(want) < 16 {
		t.Errorf("fakes have %v, want %v", got, want)
	}
	if pod, err := fakes.Pods("ns").Get(t.Context(), "x", metav1.GetOptions{}); err != nil || pod.Name != "x" {
		t.Errorf("%v, %v", pod, err)
	}
	if !fakes.IsWatchListSemanticsUnSupported() || real.IsWatchListSemanticsUnSupported() {
		t.Error("fakes can't stream lists, and API servers can")
	}
}

// TestUnknownKind: an answer of a kind that nobody asks for is refused, and not made into
// what was asked for.
func TestUnknownKind(t *testing.T) {
	r := &recorder{answer: `{"kind":"CronJobList","apiVersion":"batch/v1","items":[{},{}]}`}
	c, err := typed.New(r.start(t))
	if err != nil {
		t.Fatal(err)
	}
	if list, err := c.Pods("").List(t.Context(), metav1.ListOptions{}); err == nil || !strings.Contains(err.Error(), "CronJobList") || len(list.Items) > 0 {
		t.Errorf("%v, %v", list, err)
	}
}

// TestUnusable: credentials of which no client can be made are an error.
func TestUnusable(t *testing.T) {
	if _, err := typed.New(&rest.Config{Host: "https://:::"}, http.DefaultClient); err == nil {
		t.Error("no error")
	}
}
