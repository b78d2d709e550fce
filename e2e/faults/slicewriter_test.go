package faults

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"isthmus/e2e/harness"
	"isthmus/e2e/harness/kube"
)

// TestSliceWriter starts a replica in a cluster with one large and several small namespaces. In the
// large namespace, many Services select the same ExternalWorkloads. The slices for the small
// namespaces must be among the first writes.
func TestSliceWriter(t *testing.T) {
	inTurn(t)
	services, workloads := either(60, 300), either(200, 1500)
	at := startSites(t, "west")[0]
	must(t, at.apply(t.Context(), kube.LinkNamespace))
	populate(t, at, "crowded", services, workloads)
	const others = 5
	for i := range others {
		populate(t, at, fmt.Sprint("quiet-", i), 1, 1)
	}
	g, err := harness.StartReplica(
		t.Context(),
		harness.ReplicaConfig{Kubeconfig: at.cluster().Kubeconfig(), Args: []string{"-log-level=info"}},
	)
	must(t, err)
	t.Cleanup(func() { must(t, g.Stop()) })
	all := services * ((workloads + 99) / 100)
	var written []discoveryv1.EndpointSlice
	await(t, 10*patience, func() error {
		list, err := at.client().
			DiscoveryV1().
			EndpointSlices("").
			List(t.Context(), metav1.ListOptions{
				LabelSelector: discoveryv1.LabelManagedBy + "=linkerd-external-workloads-controller",
			})
		if err == nil && len(list.Items) != all+others {
			err = fmt.Errorf("%d of %d slices are written", len(list.Items), all+others)
		}
		written = list.Items
		return err
	})
	slices.SortFunc(
		written,
		func(a, b discoveryv1.EndpointSlice) int { return cmp.Compare(version(t, a), version(t, b)) },
	)
	before, quiet := 0, 0 // slices in the large namespace before the last slice of the others
	for i := 0; quiet < others; i++ {
		if written[i].Namespace == "crowded" {
			before++
		} else {
			quiet++
		}
	}
	t.Logf("%d of %d slices of one namespace were written before the last of the others", before, all)
	if before > all/4 {
		t.Error("the other namespaces had to wait for the large one")
	}
}

// version returns a counter from a slice that increases with each write.
func version(t *testing.T, s discoveryv1.EndpointSlice) int {
	v, err := strconv.Atoi(s.ResourceVersion)
	must(t, err)
	return v
}

// populate creates Services in a namespace that all select the same ExternalWorkloads.
func populate(t *testing.T, at *site, namespace string, services, workloads int) {
	t.Helper()
	must(t, at.apply(t.Context(), namespace))
	labels := map[string]string{"app": "web"}
	inParallel(t, workloads, func(ctx context.Context, i int) error {
		o := kube.ExternalWorkload(namespace, fmt.Sprint("vm-", i), fmt.Sprintf("10.91.%d.%d", i/200, i%200+1))
		o.SetLabels(labels)
		return at.client().Apply(ctx, o)
	})
	inParallel(t, services, func(ctx context.Context, i int) error {
		o := kube.Service(namespace, fmt.Sprint("web-", i))
		o.Spec.Selector = labels
		return at.client().Apply(ctx, o)
	})
}

func inParallel(t *testing.T, n int, make func(context.Context, int) error) {
	t.Helper()
	const writers = 8
	var all sync.WaitGroup
	for w := range writers {
		all.Go(func() {
			for i := w; i < n; i += writers {
				if err := make(t.Context(), i); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
}
