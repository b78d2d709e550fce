package e2e

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"

	"isthmus/e2e/harness"
	"isthmus/e2e/harness/kube"
)

// TestPolicy applies the components with Linkerd's policy, and the example from docs/operations.md,
// to an API server that rejects unknown fields. Each port of Isthmus must admit exactly the clients
// in its policy, and the NetworkPolicy must contain the same namespaces.
func TestPolicy(t *testing.T) {
	t.Parallel()
	server := startClusters(t, []string{"namespace", "serviceaccount"}, "west")[0]
	c := definePolicy(t, server)
	must(t, c.Apply(t.Context(), restricted("mesh"), restricted("linkerd")))
	want := map[int32][]string{8086: {"identity *"}, 9996: {"Namespace linkerd-viz", "Namespace monitoring"}}
	check := func(t *testing.T, objects []*unstructured.Unstructured, pod corev1.PodTemplateSpec, container string) {
		apply(t, c, objects)
		i := slices.IndexFunc(pod.Spec.Containers, func(c corev1.Container) bool { return c.Name == container })
		if got, err := admitted(t, objects, pod, pod.Spec.Containers[i].Ports); err != nil ||
			!maps.EqualFunc(got, want, slices.Equal[[]string]) {
			t.Errorf("admitted clients by port: %v, %v; want %v", got, err, want)
		}
	}

	for _, namespace := range []string{"", "mesh"} {
		t.Run("install in namespace "+namespace, func(t *testing.T) {
			objects := build(t, overlay(
				t,
				kustomization{
					Resources:  []string{"install"},
					Components: []string{"install/policy"},
					Namespace:  namespace,
				},
				nil,
			))
			check(t, objects, find[appsv1.Deployment](t, objects, "Deployment", "isthmus").Spec.Template, "isthmus")
			if got := monitoringNamespaces(t, objects); !slices.Equal(got, want[9996]) {
				t.Errorf("the NetworkPolicy admits %q to the admin port, want %q", got, want[9996])
			}
		})
	}
	for _, namespace := range []string{"linkerd", "mesh"} {
		t.Run("in Linkerd's place in namespace "+namespace, func(t *testing.T) {
			given := rendered(t, "plain")
			for _, o := range given {
				o.SetNamespace(namespace)
			}
			objects := build(
				t,
				overlay(
					t,
					kustomization{
						Resources:  []string{"linkerd.yaml"},
						Components: []string{"linkerd", "linkerd/policy"},
					},
					map[string][]byte{"linkerd.yaml": manifestOf(t, given)},
				),
			)
			check(
				t,
				objects,
				find[appsv1.Deployment](t, objects, "Deployment", "linkerd-destination").Spec.Template,
				"destination",
			)
		})
	}
	t.Run("Prometheus without a proxy", func(t *testing.T) {
		text, err := os.ReadFile("../docs/operations.md")
		must(t, err)
		example := regexp.MustCompile("(?s)\n```yaml\n(apiVersion: policy\\.linkerd\\.io.*?)```\n").FindSubmatch(text)
		if example == nil {
			t.Fatal("docs/operations.md has no example of a policy")
		}
		more, err := kube.Parse(string(example[1]))
		must(t, err)
		objects := append(
			build(
				t,
				overlay(t, kustomization{Resources: []string{"install"}, Components: []string{"install/policy"}}, nil),
			),
			more...)
		want[9996] = append(slices.Clone(want[9996]), "network 10.42.7.0/24")
		check(t, objects, find[appsv1.Deployment](t, objects, "Deployment", "isthmus").Spec.Template, "isthmus")
	})
}

// definePolicy replaces a CRD that accepts any fields by CRDs with the fields of Linkerd's policy.
func definePolicy(t *testing.T, server *harness.Cluster) *kube.Client {
	t.Helper()
	text, err := os.ReadFile("testdata/linkerd/policy-definitions.yaml")
	must(t, err)
	crds, err := kube.Parse(string(text))
	must(t, err)
	c := client(t, server)
	api := c.Dynamic.Resource(definitions)
	must(t, api.Delete(t.Context(), "servers.policy.linkerd.io", metav1.DeleteOptions{}))
	for _, crd := range crds {
		await(t, crd.GetName()+" is written", func() error { // the old CRD may still be in deletion
			_, err := api.Create(t.Context(), crd, metav1.CreateOptions{})
			return err
		})
	}
	for version, n := range map[string]int{"policy.linkerd.io/v1beta3": 1, "policy.linkerd.io/v1alpha1": 3} {
		await(t, version+" is served", func() error {
			list, err := c.Discovery().ServerResourcesForGroupVersion(version)
			if err == nil && len(list.APIResources) != n {
				err = fmt.Errorf("%d resources", len(list.APIResources))
			}
			return err
		})
	}
	c = client(t, server) // a new client that discovers the CRDs
	misspelt := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "policy.linkerd.io/v1beta3",
		"kind":       "Server",
		"metadata":   map[string]any{"name": "misspelt", "namespace": "default"},
		"spec":       map[string]any{"podSelector": map[string]any{}, "port": int64(1), "protocol": "gRPC"},
	}}
	await(t, "an unknown field is rejected", func() error {
		if err := c.Apply(t.Context(), misspelt); err == nil || apierrors.IsNotFound(err) ||
			!regexp.MustCompile(`protocol.*not declared`).MatchString(err.Error()) {
			return errors.Join(errors.New("it is accepted"), err)
		}
		return nil
	})
	return c
}

// The fields of Linkerd's policy that the tests use.
type (
	policyServer struct {
		metav1.TypeMeta   `json:",inline"`
		metav1.ObjectMeta `json:"metadata"`
		Spec              struct {
			PodSelector   metav1.LabelSelector `json:"podSelector"`
			Port          int32                `json:"port"`
			ProxyProtocol string               `json:"proxyProtocol"`
		} `json:"spec"`
	}
	policyReference struct {
		Group string `json:"group"`
		Kind  string `json:"kind"`
		Name  string `json:"name"`
	}
	authorizationPolicy struct {
		metav1.TypeMeta   `json:",inline"`
		metav1.ObjectMeta `json:"metadata"`
		Spec              struct {
			TargetRef                  policyReference   `json:"targetRef"`
			RequiredAuthenticationRefs []policyReference `json:"requiredAuthenticationRefs"`
		} `json:"spec"`
	}
	authentication struct {
		metav1.TypeMeta   `json:",inline"`
		metav1.ObjectMeta `json:"metadata"`
		Spec              struct {
			Identities   []string          `json:"identities"`
			IdentityRefs []policyReference `json:"identityRefs"`
			Networks     []struct {
				CIDR string `json:"cidr"`
			} `json:"networks"`
		} `json:"spec"`
	}
)

// admitted returns the clients that a proxy with these objects would admit to each port of a Pod.
func admitted(
	t *testing.T,
	objects []*unstructured.Unstructured,
	pod corev1.PodTemplateSpec,
	ports []corev1.ContainerPort,
) (map[int32][]string, error) {
	t.Helper()
	i := slices.IndexFunc(objects, func(o *unstructured.Unstructured) bool { return o.GetKind() == "Deployment" })
	namespace := objects[i].GetNamespace()
	here := slices.DeleteFunc(
		slices.Clone(objects),
		func(o *unstructured.Unstructured) bool { return o.GetNamespace() != namespace },
	)
	who := make(map[int32][]string)
	for _, port := range ports {
		servers := serversOf(t, here, pod, port.ContainerPort)
		if len(servers) != 1 {
			return nil, fmt.Errorf("port %s has the Servers %q", port.Name, servers)
		}
		list, err := admittedBy(t, here, policyReference{"policy.linkerd.io", "Server", servers[0]})
		if err != nil {
			return nil, err
		}
		who[port.ContainerPort] = list
	}
	return who, nil
}

func serversOf(
	t *testing.T,
	objects []*unstructured.Unstructured,
	pod corev1.PodTemplateSpec,
	port int32,
) (names []string) {
	t.Helper()
	for _, o := range objects {
		if o.GetKind() != "Server" {
			continue
		}
		s := find[policyServer](t, objects, "Server", o.GetName())
		selector, err := metav1.LabelSelectorAsSelector(&s.Spec.PodSelector)
		must(t, err)
		if s.Spec.Port == port && !selector.Empty() && selector.Matches(labels.Set(pod.Labels)) {
			names = append(names, s.Name)
		}
	}
	return names
}

// admittedBy returns the clients admitted by the policies for a Server. A policy admits a client
// that satisfies all its authentications. Each policy in manifests has a single authentication.
func admittedBy(t *testing.T, objects []*unstructured.Unstructured, server policyReference) (who []string, err error) {
	t.Helper()
	for _, o := range objects {
		if o.GetKind() != "AuthorizationPolicy" {
			continue
		}
		p := find[authorizationPolicy](t, objects, "AuthorizationPolicy", o.GetName()).Spec
		if p.TargetRef != server {
			continue
		}
		refs := p.RequiredAuthenticationRefs
		if len(refs) != 1 || refs[0].Group != "policy.linkerd.io" {
			return nil, fmt.Errorf("AuthorizationPolicy %s requires %v", o.GetName(), refs)
		}
		a := find[authentication](t, objects, refs[0].Kind, refs[0].Name).Spec
		for _, id := range a.Identities {
			who = append(who, "identity "+id)
		}
		for _, r := range a.IdentityRefs {
			who = append(who, r.Kind+" "+r.Name)
		}
		for _, n := range a.Networks {
			who = append(who, "network "+n.CIDR)
		}
	}
	slices.Sort(who)
	return who, nil
}

// monitoringNamespaces returns the other namespaces that the NetworkPolicy admits to the admin
// port.
func monitoringNamespaces(t *testing.T, objects []*unstructured.Unstructured) (names []string) {
	t.Helper()
	for _, rule := range find[networkingv1.NetworkPolicy](t, objects, "NetworkPolicy", "isthmus").Spec.Ingress {
		for _, from := range rule.From {
			if rule.Ports[0].Port.StrVal != "admin" || from.NamespaceSelector == nil {
				continue
			}
			for _, e := range from.NamespaceSelector.MatchExpressions {
				for _, name := range e.Values {
					names = append(names, "Namespace "+name)
				}
			}
		}
	}
	slices.Sort(names)
	return names
}
