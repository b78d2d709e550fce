package e2e

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
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

type markGuard struct {
	t     *testing.T
	host  string
	ca    []byte
	admin *kube.Client
}

// as returns a client for a ServiceAccount that may do everything that the guard accepts.
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

// markedKind is a kind of object that can carry the mark.
type markedKind struct {
	kind     string
	resource schema.GroupVersionResource
	text     string // object without the mark
}

func (k markedKind) in(c *kube.Client) dynamic.ResourceInterface { return c.In(k.resource, "shop") }

// object returns an object with the given values of the mark's label and annotation. An empty value
// omits the key.
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

// TestMarkGuard checks that only Isthmus can add the full mark to a Service or ServiceImport. Other
// users must be able to remove the mark, and to copy, change and delete such objects.
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
				return fmt.Errorf("the guard accepts a %s with the mark", k.kind)
			}
			return nil
		})
		g.creates(k, map[string]*kube.Client{
			"an administrator":            g.admin,
			"the installation":            gateway,
			"an added installation":       custom,
			"another namespace's isthmus": impostor,
		})
		g.updates(k, gateway)
	}
}

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
		{"the installation", "linkerd", full, false},
		{"the installation", "other", full, true},
		{"an added installation", "linkerd", full, false},
		{"another namespace's isthmus", "linkerd", full, true},
	} {
		o := k.object(g.t, "web", x.label, x.annotation)
		_, err := k.in(clients[x.who]).Create(g.t.Context(), o, dryRun)
		g.check(fmt.Sprintf("%s creates a %s with %q and %q", x.who, k.kind, x.label, x.annotation), err, x.refused)
	}
}

func (g *markGuard) updates(k markedKind, gateway *kube.Client) {
	full := k.kind + " shop/web"
	for _, x := range []struct {
		what                    string
		label, annotation       string // current values of the mark
		newLabel, newAnnotation string
		refused                 bool
	}{
		{"add the mark", "", "", "linkerd", full, true},
		{"add the label", "", full, "linkerd", full, true},
		{"add the annotation", "linkerd", "", "linkerd", full, true},
		{"complete the mark of a copy", "linkerd", k.kind + " shop/original", "linkerd", full, true},
		{"add another installation's mark", "linkerd", full, "other", full, true},
		{"remove the label", "linkerd", full, "", full, false},
		{"remove the mark", "linkerd", full, "", "", false},
		{"keep the mark", "linkerd", full, "linkerd", full, false},
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
				g.t.Logf("%s: the API server did not change the metadata", what)
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
	// The error may contain the name of either policy of the guard.
	case refused && (err == nil || !strings.Contains(err.Error(), "ValidatingAdmissionPolicy 'isthmus-exports")):
		g.t.Errorf("%s is not rejected: %v", what, err)
	}
}

// marked returns a Service as Isthmus in the namespace linkerd writes it, including the mark.
func marked(name string, change ...func(*corev1.Service)) *corev1.Service {
	s := kube.Service("shop", name)
	s.Spec.Selector = nil
	s.Labels = map[string]string{"isthmus.io/written-by": "linkerd", "mirror.linkerd.io/mirrored-service": "true"}
	s.Annotations = map[string]string{"isthmus.io/written-as": "Service shop/" + name}
	for _, f := range change {
		f(s)
	}
	return s
}

// unmarked removes the mark but not the changes made by Linkerd's service mirror.
func unmarked(s *corev1.Service) { delete(s.Labels, "isthmus.io/written-by"); s.Annotations = nil }

func selectsPods(s *corev1.Service) { s.Spec.Selector = map[string]string{"app": "web"} }

// TestGuard checks that an API server with manifests/install/exports and its guard accepts exactly
// the writes of Isthmus from its account.
func TestGuard(t *testing.T) {
	t.Parallel()
	server := startClusters(t, []string{"namespace", "serviceaccount"}, "west")[0]
	admin := client(t, server)
	must(t, admin.Apply(t.Context(), restricted("linkerd"), kube.Namespace("shop")))
	apply(t, admin, build(t, overlay(
		t,
		kustomization{
			Resources:  []string{"install"},
			Components: []string{"install/exports"},
			Namespace:  "linkerd",
		},
		nil,
	)))
	for _, o := range build(t, manifest(t, "install/exports/guard")) {
		if o.GetName() == "isthmus-exports" { // the policy for all other accounts has its own test
			must(t, admin.Apply(t.Context(), o))
		}
	}
	token, err := admin.Token(t.Context(), "linkerd", "isthmus")
	must(t, err)
	account, err := kube.NewClient(
		"west",
		&rest.Config{
			Host:            server.REST().Host,
			BearerToken:     token,
			TLSClientConfig: rest.TLSClientConfig{CAData: server.REST().CAData},
		},
	)
	must(t, err)
	t.Cleanup(account.Close)
	mine, all := account.CoreV1().Services("shop"), admin.CoreV1().Services("shop")
	dry := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
	await(t, "the guard is in force", func() error {
		if _, err := mine.Create(t.Context(), marked("web-east", selectsPods), dry); err == nil ||
			!strings.Contains(err.Error(), "isthmus-exports") {
			return fmt.Errorf("a Service that selects Pods is accepted: %v", err)
		}
		return nil
	})
	check := func(what string, err error, refused string) {
		t.Helper()
		switch {
		case refused == "" && err != nil:
			t.Errorf("%s: %v", what, err)
		case refused != "" && (err == nil || !strings.Contains(err.Error(), refused)):
			t.Errorf("%s is not rejected with %q: %v", what, refused, err)
		}
	}

	const (
		noMark   = "may write only Services that have its mark"
		selector = "only Services without a selector"
		kind     = "only Services of type ClusterIP"
	)
	for name, x := range map[string]struct {
		change  func(*corev1.Service)
		refused string
	}{
		"without the mark":     {unmarked, noMark},
		"of another namespace": {func(s *corev1.Service) { s.Labels["isthmus.io/written-by"] = "other" }, noMark},
		"copy of another": {
			func(s *corev1.Service) { s.Annotations["isthmus.io/written-as"] = "Service shop/web-west" },
			noMark,
		},
		"with a selector":  {selectsPods, selector},
		"with externalIPs": {func(s *corev1.Service) { s.Spec.ExternalIPs = []string{"192.0.2.1"} }, kind},
		"NodePort":         {func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeNodePort }, kind},
		"ExternalName": {func(s *corev1.Service) {
			s.Spec.Type, s.Spec.ExternalName = corev1.ServiceTypeExternalName, "example.com"
		}, kind},
		"ours": {func(*corev1.Service) {}, ""},
	} {
		_, err := mine.Create(t.Context(), marked("web-east", x.change), dry)
		check("create "+name, err, x.refused)
	}

	const update, remove = "may update only Services that have its mark", "may delete only Services that have its mark"
	for name, x := range map[string]struct {
		there, then func(*corev1.Service)
		refused     string // expected error for an update
		kept        string // expected error for a deletion
	}{
		"a user's": {
			func(s *corev1.Service) { selectsPods(s); s.Labels, s.Annotations = nil, nil },
			func(*corev1.Service) {},
			update,
			remove,
		},
		"a user's, with Linkerd's": {
			func(s *corev1.Service) { selectsPods(s); unmarked(s) },
			func(*corev1.Service) {},
			update,
			remove,
		},
		"a user's copy of ours": {
			func(s *corev1.Service) { s.Annotations["isthmus.io/written-as"] = "Service shop/a" },
			func(*corev1.Service) {},
			update,
			remove,
		},
		"ours, with a selector": {selectsPods, func(*corev1.Service) {}, update, remove},
		"Linkerd's mirror":      {unmarked, func(*corev1.Service) {}, "", remove},
		"ours": {
			func(*corev1.Service) {},
			func(s *corev1.Service) { s.Spec.Ports[0].Port = 81 },
			"",
			"",
		},
		"ours, for a ServiceImport": {func(s *corev1.Service) { s.OwnerReferences = nil }, func(s *corev1.Service) {
			s.OwnerReferences = []metav1.OwnerReference{{
				APIVersion: "multicluster.x-k8s.io/v1beta1",
				Kind:       "ServiceImport",
				Name:       "web",
				UID:        "an-import",
			}}
			s.Spec.SessionAffinity = corev1.ServiceAffinityClientIP
		}, "", ""},
		"ours, to be unmarked": {func(*corev1.Service) {}, unmarked, noMark, ""},
		"ours, to select":      {func(*corev1.Service) {}, selectsPods, selector, ""},
	} {
		there, err := all.Create(t.Context(), marked("web-east", x.there), metav1.CreateOptions{})
		must(t, err)
		next := marked("web-east", x.then)
		next.ResourceVersion, next.UID = there.ResourceVersion, there.UID
		next.Spec.ClusterIP, next.Spec.ClusterIPs = there.Spec.ClusterIP, there.Spec.ClusterIPs
		_, err = mine.Update(t.Context(), next, metav1.UpdateOptions{DryRun: dry.DryRun})
		check("update "+name, err, x.refused)
		check("delete "+name, mine.Delete(t.Context(), "web-east", metav1.DeleteOptions{DryRun: dry.DryRun}), x.kept)
		must(t, all.Delete(t.Context(), "web-east", metav1.DeleteOptions{}))
	}
	others := map[string]error{}
	_, others["Secret"] = account.CoreV1().Secrets("shop").List(t.Context(), metav1.ListOptions{})
	others["Namespace"] = account.CoreV1().Namespaces().Delete(t.Context(), "shop", metav1.DeleteOptions{})
	for kind := range maps.Keys(others) {
		check("another "+kind, others[kind], "forbidden")
	}
}
