package externalworkload

import (
	"testing"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"isthmus/clusterstore/crd"
)

// TestUnseen: what this term has created counts though the cluster has not seen it yet, and is made anew once it is gone.
func TestUnseen(t *testing.T) {
	svc := aService("web", "80/8080")
	term := newTestTerm(t, svc)
	term.still.workloads = []*crd.ExternalWorkload{aWorkload("vm-1", "10.0.0.1", "8080")}
	created := 0
	term.api.PrependReactor("create", "endpointslices", func(a clienttesting.Action) (bool, runtime.Object, error) {
		created++
		a.(clienttesting.CreateActionImpl).Object.(*discoveryv1.EndpointSlice).Name = "s"
		return false, nil, nil
	})
	for i, want := range []int{1, 1, 2} {
		if i == 2 {
			must(t, term.api.DiscoveryV1().EndpointSlices("ns").Delete(t.Context(), "s", metav1.DeleteOptions{}))
		}
		if must(t, term.sync(t.Context(), nameOf(svc))); created != want {
			t.Errorf("sync %d: %d slices were created, want %d", i, created, want)
		}
	}
	term.still.marked = []string{"s"}
	must(t, term.sync(t.Context(), nameOf(svc)))
	if names, _ := term.created.get(nameOf(svc)); len(names) > 0 {
		t.Errorf("%v are kept though the cluster has seen them", names)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
