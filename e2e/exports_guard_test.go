package e2e

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"isthmus/e2e/harness/kube"
)

// marked returns a Service with the mark of the gateway in namespace linkerd, as the gateway writes it.
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

// unmarked takes the mark off, and leaves what Linkerd's service mirror writes.
func unmarked(s *corev1.Service) { delete(s.Labels, "isthmus.io/written-by"); s.Annotations = nil }

func selectsPods(s *corev1.Service) { s.Spec.Selector = map[string]string{"app": "web"} }

// TestGuard: an API server with manifests/install/exports and its guard lets the gateway's account write what the gateway writes,
// and nothing else.
func TestGuard(t *testing.T) {
	t.Parallel()
	server := startClusters(t, []string{"namespace", "serviceaccount"}, "west")[0]
	admin := client(t, server)
	must(t, admin.Apply(t.Context(), restricted("linkerd"), kube.Namespace("shop")))
	apply(t, admin, build(t, overlay(t, kustomization{Resources: []string{"install"}, Components: []string{"install/exports"}, Namespace: "linkerd"}, nil)))
	for _, o := range build(t, manifest(t, "install/exports/guard")) {
		if o.GetName() == "isthmus-exports" { // the other policy, for all other accounts, has a test of its own
			must(t, admin.Apply(t.Context(), o))
		}
	}
	token, err := admin.Token(t.Context(), "linkerd", "isthmus")
	must(t, err)
	account, err := kube.NewClient("west", &rest.Config{Host: server.REST().Host, BearerToken: token, TLSClientConfig: rest.TLSClientConfig{CAData: server.REST().CAData}})
	must(t, err)
	t.Cleanup(account.Close)
	mine, all := account.CoreV1().Services("shop"), admin.CoreV1().Services("shop")
	dry := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
	await(t, "the guard is in force", func() error {
		if _, err := mine.Create(t.Context(), marked("web-east", selectsPods), dry); err == nil || !strings.Contains(err.Error(), "isthmus-exports") {
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
			t.Errorf("%s is not refused as %q: %v", what, refused, err)
		}
	}

	const noMark, selector, kind = "no Service without its mark", "no Service that has a selector", "only Services of type ClusterIP"
	for name, x := range map[string]struct {
		change  func(*corev1.Service)
		refused string
	}{
		"without the mark":     {unmarked, noMark},
		"of another namespace": {func(s *corev1.Service) { s.Labels["isthmus.io/written-by"] = "other" }, noMark},
		"copy of another":      {func(s *corev1.Service) { s.Annotations["isthmus.io/written-as"] = "Service shop/web-west" }, noMark},
		"with a selector":      {selectsPods, selector},
		"with externalIPs":     {func(s *corev1.Service) { s.Spec.ExternalIPs = []string{"192.0.2.1"} }, kind},
		"NodePort":             {func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeNodePort }, kind},
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
		refused     string // to update it
		kept        string // to delete it
	}{
		"a user's":                 {func(s *corev1.Service) { selectsPods(s); s.Labels, s.Annotations = nil, nil }, func(*corev1.Service) {}, update, remove},
		"a user's, with Linkerd's": {func(s *corev1.Service) { selectsPods(s); unmarked(s) }, func(*corev1.Service) {}, update, remove},
		"a user's copy of ours":    {func(s *corev1.Service) { s.Annotations["isthmus.io/written-as"] = "Service shop/a" }, func(*corev1.Service) {}, update, remove},
		"ours, with a selector":    {selectsPods, func(*corev1.Service) {}, update, remove},
		"Linkerd's mirror":         {unmarked, func(*corev1.Service) {}, "", remove},
		"ours":                     {func(*corev1.Service) {}, func(s *corev1.Service) { s.Spec.Ports[0].Port = 81 }, "", ""},
		"ours, for a ServiceImport": {func(s *corev1.Service) { s.OwnerReferences = nil }, func(s *corev1.Service) {
			s.OwnerReferences = []metav1.OwnerReference{{APIVersion: "multicluster.x-k8s.io/v1beta1", Kind: "ServiceImport", Name: "web", UID: "an-import"}}
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
