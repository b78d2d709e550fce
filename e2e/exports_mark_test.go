package e2e

import (
	"fmt"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"isthmus/e2e/harness/kube"
)

// The two keys of the mark.
const (
	markLabel      = "isthmus.io/written-by"
	markAnnotation = "isthmus.io/written-as"
)

// markGuard is an API server with the guard of the mark.
type markGuard struct {
	t     *testing.T
	host  string
	ca    []byte
	admin *kube.Client
}

// as returns a client of a ServiceAccount that may do everything, except what the guard refuses.
func (g *markGuard) as(namespace, name string) *kube.Client {
	account := fmt.Sprintf(
		"{apiVersion: v1, kind: ServiceAccount, metadata: {name: %s, namespace: %s}}", name, namespace)
	must(g.t, g.admin.ApplyYAML(g.t.Context(), account))
	must(g.t, g.admin.Apply(g.t.Context(), &rbacv1.ClusterRoleBinding{
		TypeMeta:   metav1.TypeMeta{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "ClusterRoleBinding"},
		ObjectMeta: metav1.ObjectMeta{Name: namespace + "-" + name},
		RoleRef:    rbacv1.RoleRef{APIGroup: "rbac.authorization.k8s.io", Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: namespace, Name: name}},
	}))
	token, err := g.admin.Token(g.t.Context(), namespace, name)
	must(g.t, err)
	c, err := kube.NewClient("west", &rest.Config{
		Host:            g.host,
		BearerToken:     token,
		TLSClientConfig: rest.TLSClientConfig{CAData: g.ca},
	})
	must(g.t, err)
	g.t.Cleanup(c.Close)
	return c
}

// markedKind is one of the kinds that have the mark.
type markedKind struct {
	kind     string
	resource schema.GroupVersionResource
	text     string // an object without the mark
}

func (k markedKind) in(c *kube.Client) dynamic.ResourceInterface { return c.In(k.resource, "shop") }

// object returns an object with these keys of the mark; an empty one is left out.
func (k markedKind) object(t *testing.T, name, label, annotation string) *unstructured.Unstructured {
	objects, err := kube.Parse(k.text)
	must(t, err)
	o := objects[0]
	o.SetName(name)
	o.SetNamespace("shop")
	if label != "" {
		o.SetLabels(map[string]string{markLabel: label})
	}
	if annotation != "" {
		o.SetAnnotations(map[string]string{markAnnotation: annotation})
	}
	return o
}

// TestMarkGuard: an API server with the guard lets nobody but the gateway put the full mark onto a
// Service or ServiceImport. It lets others take the mark off, copy such objects, change them and
// delete them.
func TestMarkGuard(t *testing.T) {
	t.Parallel()
	server := startClusters(t, []string{"namespace", "serviceaccount"}, "west")[0]
	g := &markGuard{t: t, host: server.REST().Host, ca: server.REST().CAData, admin: client(t, server)}
	must(t, g.admin.Apply(t.Context(), kube.Namespace("linkerd"), kube.Namespace("shop"), kube.Namespace("evil")))
	must(t, g.admin.ServeMCS(t.Context(), kube.MCSVersions...))
	guard := overlay(t, kustomization{Resources: []string{"install/exports/guard"}, Patches: []patch{
		{Target: patchTarget{"ValidatingAdmissionPolicy", "isthmus-exports-mark"}, Patch: `- op: replace
  path: /spec/variables/0/expression
  value: "['isthmus', 'linkerd-destination', 'my-gateway']"
`},
	}}, nil)
	apply(t, g.admin, build(t, guard))

	kinds := []markedKind{
		{
			kind:     "Service",
			resource: schema.GroupVersionResource{Version: "v1", Resource: "services"},
			text: "{apiVersion: v1, kind: Service, metadata: {name: web}, " +
				"spec: {type: ClusterIP, ports: [{port: 80}]}}",
		},
		{
			kind: "ServiceImport",
			resource: schema.GroupVersionResource{
				Group: "multicluster.x-k8s.io", Version: "v1beta1", Resource: "serviceimports",
			},
			text: "{apiVersion: multicluster.x-k8s.io/v1beta1, kind: ServiceImport, metadata: {name: web}, " +
				"spec: {type: ClusterSetIP, ports: [{port: 80}]}}",
		},
	}
	gateway, custom, impostor := g.as("linkerd", "isthmus"), g.as("linkerd", "my-gateway"), g.as("evil", "isthmus")
	dryRun := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
	for _, k := range kinds {
		await(t, "the guard of "+k.kind+" is in force", func() error {
			first := k.object(t, "first", "linkerd", k.kind+" shop/first")
			_, err := k.in(g.admin).Create(t.Context(), first, dryRun)
			if err == nil {
				return fmt.Errorf("a %s with the mark is accepted", k.kind)
			}
			return nil
		})
		g.creates(k, map[string]*kube.Client{
			"an administrator":            g.admin,
			"the gateway":                 gateway,
			"a gateway that was added":    custom,
			"another namespace's isthmus": impostor,
		})
		g.updates(k, gateway)
	}
}

// creates tries who may create what.
func (g *markGuard) creates(k markedKind, clients map[string]*kube.Client) {
	full := k.kind + " shop/web"
	dryRun := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
	for _, x := range []struct {
		who, label, annotation string
		refused                bool
	}{
		{"an administrator", "linkerd", full, true},
		{"an administrator", "other", full, true},
		{"an administrator", "", full, false},
		{"an administrator", "linkerd", "", false},
		{"an administrator", "linkerd", k.kind + " shop/original", false}, // a copy
		{"an administrator", "", "", false},
		{"the gateway", "linkerd", full, false},
		{"the gateway", "other", full, true},
		{"a gateway that was added", "linkerd", full, false},
		{"another namespace's isthmus", "linkerd", full, true},
	} {
		o := k.object(g.t, "web", x.label, x.annotation)
		_, err := k.in(clients[x.who]).Create(g.t.Context(), o, dryRun)
		g.check(fmt.Sprintf("%s creates a %s with %q and %q", x.who, k.kind, x.label, x.annotation), err, x.refused)
	}
}

// updates tries what an administrator may change, also by the status.
func (g *markGuard) updates(k markedKind, gateway *kube.Client) {
	full := k.kind + " shop/web"
	for _, x := range []struct {
		what                    string
		label, annotation       string // as it is
		newLabel, newAnnotation string
		refused                 bool
	}{
		{"give the mark", "", "", "linkerd", full, true},
		{"give the label", "", full, "linkerd", full, true},
		{"give the annotation", "linkerd", "", "linkerd", full, true},
		{"make a copy an original", "linkerd", k.kind + " shop/original", "linkerd", full, true},
		{"give another gateway's mark", "linkerd", full, "other", full, true},
		{"take the label off", "linkerd", full, "", full, false},
		{"take the mark off", "linkerd", full, "", "", false},
		{"leave the mark", "linkerd", full, "linkerd", full, false},
	} {
		for _, subresource := range []string{"", "status"} {
			what := fmt.Sprintf("%s of a %s %s", x.what, k.kind, subresource)
			writer := g.admin
			if x.label != "" && x.annotation == full {
				writer = gateway
			}
			first := k.object(g.t, "web", x.label, x.annotation)
			o, err := k.in(writer).Create(g.t.Context(), first, metav1.CreateOptions{})
			must(g.t, err)
			next := k.object(g.t, "web", x.newLabel, x.newAnnotation)
			o.SetLabels(next.GetLabels())
			o.SetAnnotations(next.GetAnnotations())
			var subresources []string
			if subresource != "" {
				subresources = []string{subresource}
			}
			got, err := k.in(g.admin).Update(g.t.Context(), o, metav1.UpdateOptions{}, subresources...)
			ignored := err == nil &&
				(got.GetLabels()[markLabel] != x.newLabel || got.GetAnnotations()[markAnnotation] != x.newAnnotation)
			if x.refused && subresource == "status" && ignored {
				g.t.Logf("%s: the API server leaves the metadata as it is", what)
			} else {
				g.check(what, err, x.refused)
			}
			must(g.t, k.in(g.admin).Delete(g.t.Context(), "web", metav1.DeleteOptions{}))
		}
	}
}

func (g *markGuard) check(what string, err error, refused bool) {
	g.t.Helper()
	switch {
	case !refused && err != nil:
		g.t.Errorf("%s: %v", what, err)
	// The API server may name either policy of the guard.
	case refused && (err == nil || !strings.Contains(err.Error(), "ValidatingAdmissionPolicy 'isthmus-exports")):
		g.t.Errorf("%s is not refused: %v", what, err)
	}
}
