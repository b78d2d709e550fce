package externalworkload

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"

	"isthmus/clusterstore/crd"
)

// TestReadsOnce: however many slices a Service has, one request reads them, in their present version, and no others.
func TestReadsOnce(t *testing.T) {
	svc := aService("web", "80/8080")
	term := newTestTerm(t, svc)
	var ours []*discoveryv1.EndpointSlice
	for i := range 5 {
		s := newSlice(svc, discoveryv1.AddressTypeIPv4, nil, nil)
		s.Name = fmt.Sprint("s-", i)
		ours = append(ours, s)
	}
	going := change(ours[0].DeepCopy(), func(s *discoveryv1.EndpointSlice) {
		s.Name, s.DeletionTimestamp, s.Finalizers = "going", &metav1.Time{Time: time.Now()}, []string{"example.org/slow"}
	})
	others := change(ours[0].DeepCopy(), func(s *discoveryv1.EndpointSlice) {
		s.Name, s.Labels[discoveryv1.LabelManagedBy] = "others", "others"
	})
	elsewhere := change(ours[0].DeepCopy(), func(s *discoveryv1.EndpointSlice) {
		s.Name, s.Labels[discoveryv1.LabelServiceName] = "elsewhere", "db"
	})
	for _, s := range append(ours, going, others, elsewhere) {
		must(t, term.api.Tracker().Add(s))
	}
	list, err := term.slicesOf(t.Context(), nameOf(svc))
	must(t, err)
	if len(list) != len(ours) || list[0].Name != "s-0" || list[4].Name != "s-4" {
		t.Errorf("%d slices: %v", len(list), list)
	}
	requests := term.api.Actions()
	if len(requests) != 1 {
		t.Fatalf("requests %v", requests)
	}
	asked := requests[0].(clienttesting.ListActionImpl)
	want := metav1.ListOptions{LabelSelector: "endpointslice.kubernetes.io/managed-by=" + Mark + ",kubernetes.io/service-name=web"}
	if asked.Namespace != "ns" || asked.ListOptions != want {
		t.Errorf("in namespace %q, by %+v, want %+v", asked.Namespace, asked.ListOptions, want)
	}
}

// TestNothingToRead: a Service that selects no workloads and has no slices takes no request.
func TestNothingToRead(t *testing.T) {
	svc := aService("web", "80/8080")
	term := newTestTerm(t, svc)
	term.report(nameOf(svc), []string{"vm-1: no"})
	must(t, term.sync(t.Context(), nameOf(svc)))
	if n := len(term.api.Actions()); n > 0 || term.hasProblems(nameOf(svc)) {
		t.Errorf("%d requests, problems %v", n, term.problems)
	}
	term.still.marked = 1
	must(t, term.sync(t.Context(), nameOf(svc)))
	if n := len(term.api.Actions()); n != 1 {
		t.Errorf("with a slice: %d requests", n)
	}
}

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
	term.still.workloads = nil
	if must(t, term.sync(t.Context(), nameOf(svc))); term.api.Actions()[len(term.api.Actions())-1].GetVerb() != "delete" {
		t.Error("it is not deleted once its Service selects nothing")
	}
}

// TestVersions: a slice is updated and deleted only as it was read.
func TestVersions(t *testing.T) {
	svc := aService("web", "80/8080")
	term := newTestTerm(t, svc)
	term.still.workloads = []*crd.ExternalWorkload{aWorkload("vm-1", "10.0.0.1", "8080")}
	read := func(name string, kind discoveryv1.AddressType) discoveryv1.EndpointSlice {
		s := newSlice(svc, kind, nil, nil)
		s.Name, s.UID, s.ResourceVersion = name, types.UID("uid-of-"+name), "version-of-"+name
		return *s
	}
	list := &discoveryv1.EndpointSliceList{Items: []discoveryv1.EndpointSlice{read("a", discoveryv1.AddressTypeIPv4), read("b", discoveryv1.AddressTypeIPv6)}}
	term.api.PrependReactor("list", "endpointslices", func(clienttesting.Action) (bool, runtime.Object, error) { return true, list, nil })
	update, remove := 0, 0
	term.api.PrependReactor("*", "endpointslices", func(a clienttesting.Action) (bool, runtime.Object, error) {
		switch a := a.(type) {
		case clienttesting.UpdateActionImpl:
			update++
			if s := a.Object.(*discoveryv1.EndpointSlice); s.Name != "a" || s.UID != "uid-of-a" || s.ResourceVersion != "version-of-a" {
				t.Errorf("updated: %+v", s.ObjectMeta)
			}
			return true, a.Object, nil
		case clienttesting.DeleteActionImpl:
			remove++
			p := a.DeleteOptions.Preconditions
			if a.Name != "b" || p == nil || p.UID == nil || *p.UID != "uid-of-b" || p.ResourceVersion == nil || *p.ResourceVersion != "version-of-b" {
				t.Errorf("%s deleted with %+v", a.Name, p)
			}
			return true, nil, nil
		}
		return false, nil, nil
	})
	if must(t, term.sync(t.Context(), nameOf(svc))); update != 1 || remove != 1 {
		t.Errorf("%d updates, %d deletes", update, remove)
	}
}

// TestProblemsForgotten: a Service with unusable workloads only, and so without slices, is deleted together with the last
// of them.
func TestProblemsForgotten(t *testing.T) {
	inCluster(t, func(c *cluster) {
		c.put(aService("web", "http=80/8080"))
		c.put(aWorkload("vm-1", "nowhere", "8080"))
		r := c.start("a")
		c.until("the problem is shown", 5*time.Second, func() bool { return len(r.Status().Problems) == 1 })
		c.pass(time.Second)
		c.deleteWorkload("vm-1")
		synctest.Wait()
		must(t, c.api.CoreV1().Services("ns").Delete(t.Context(), "web", metav1.DeleteOptions{}))
		c.pass(time.Minute)
		if s := r.Status(); len(s.Problems) > 0 || c.written() != "" {
			t.Errorf("%+v", s.Problems)
		}
	})
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
