package e2e

import (
	"fmt"
	"strings"
	"testing"

	"isthmus/e2e/harness"
	"isthmus/e2e/harness/kube"
)

// installedIn is the kustomization for an installation in a namespace. Linkerd's own namespace needs no transformers.
func installedIn(namespace string, transformers ...string) kustomization {
	return kustomization{
		Resources:    []string{"install"},
		Components:   []string{"install/exports"},
		Transformers: transformers,
		Namespace:    namespace,
	}
}

// permission is an answer that kubectl auth can-i is expected to give.
type permission struct {
	question string
	answer   string // yes or no
}

// TestTwoInstallations: two installations in one cluster have their own permissions, in whichever order they are
// applied. A kustomization that only overrides the namespace takes nothing from either.
func TestTwoInstallations(t *testing.T) {
	t.Parallel()
	server := startClusters(t, []string{"namespace", "serviceaccount"}, "west")[0]
	c := client(t, server)
	for _, name := range []string{"linkerd", "my-mesh", "plain", "linkerd-multicluster"} {
		must(t, c.Apply(t.Context(), kube.Namespace(name)))
	}
	first := overlay(t, installedIn("linkerd"), nil)
	second := overlay(t, installedIn("my-mesh", "install/names", "install/exports/names"), nil)
	plain := overlay(t, installedIn("plain"), nil)
	mirrors := overlay(t, kustomization{
		Resources:    []string{"install/exports/linkerd"},
		Transformers: []string{"install/exports/linkerd/names"},
		Namespace:    "my-mesh",
	}, nil)
	allowed := []permission{
		{"list pods -A", "yes"},
		{"update endpointslices.discovery.k8s.io -A", "yes"},
		{"create services -A", "yes"},
		{"list namespaces -A", "yes"},
		{"list leases.coordination.k8s.io -n linkerd-multicluster", "yes"},
		{"delete namespaces -A", "no"},
	}
	denied := []permission{{"list pods -A", "no"}, {"create services -A", "no"}}
	for _, order := range [][]string{
		{first, manifest(t, "install/exports/linkerd"), second, mirrors, plain},
		{plain, mirrors, second, manifest(t, "install/exports/linkerd"), first},
	} {
		for _, dir := range order {
			mustShell(t, server, "kubectl apply -k "+dir)
		}
		for _, account := range []string{
			"linkerd:isthmus", "linkerd:linkerd-destination", "my-mesh:isthmus", "my-mesh:linkerd-destination",
		} {
			expected := allowed
			if strings.HasSuffix(account, ":linkerd-destination") {
				expected = allowed[2:] // Linkerd's own manifest grants the others
			}
			awaitPermissions(t, server, account, expected)
		}
		awaitPermissions(t, server, "plain:isthmus", denied)
	}
}

// awaitPermissions waits until an API server gives the expected answers about a ServiceAccount, NAMESPACE:NAME.
func awaitPermissions(t *testing.T, server *harness.Cluster, account string, expected []permission) {
	t.Helper()
	for _, p := range expected {
		command := fmt.Sprintf("kubectl auth can-i %s --as=system:serviceaccount:%s || true", p.question, account)
		await(t, account+": "+p.question, func() error {
			out, err := shell(t, server, command)
			if lines := strings.Fields(out); err == nil && (len(lines) == 0 || lines[len(lines)-1] != p.answer) {
				err = fmt.Errorf("the answer is not %s: %s", p.answer, out)
			}
			return err
		})
	}
}

// TestTwoLinkAccounts: two accounts for links in one cluster have their own permissions,
// in whichever order they are applied.
func TestTwoLinkAccounts(t *testing.T) {
	t.Parallel()
	server := startClusters(t, []string{"namespace", "serviceaccount"}, "east")[0]
	c := client(t, server)
	for _, name := range []string{"linkerd-multicluster", "my-mesh", "plain"} {
		must(t, c.Apply(t.Context(), kube.Namespace(name)))
	}
	first := manifest(t, "link")
	second := overlay(t, kustomization{
		Resources: []string{"link"}, Transformers: []string{"link/names"}, Namespace: "my-mesh",
	}, nil)
	plain := overlay(t, kustomization{Resources: []string{"link"}, Namespace: "plain"}, nil)
	for _, order := range [][]string{{first, second, plain}, {plain, second, first}} {
		for _, dir := range order {
			mustShell(t, server, "kubectl apply -k "+dir)
		}
		allowed := []permission{{"list pods -A", "yes"}, {"list secrets -A", "no"}}
		awaitPermissions(t, server, "linkerd-multicluster:isthmus-remote-access", allowed)
		awaitPermissions(t, server, "my-mesh:isthmus-remote-access", allowed)
		awaitPermissions(t, server, "plain:isthmus-remote-access", []permission{{"list pods -A", "no"}})
	}
}
