package e2e

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"isthmus/e2e/admin"
	"isthmus/e2e/gateway"
	"isthmus/e2e/object"
	"isthmus/e2e/poll"
)

// TestExportsRewritten tests that 1,000 mirrors whose labels are no longer copied are each written once and stay the
// same Services. An upgrade to a version that excludes further labels does the same.
func TestExportsRewritten(t *testing.T) {
	t.Parallel()
	const namespaces, services = 4, 250
	x := newExporting(t)
	x.grant(true)
	var all sync.WaitGroup
	for n := range namespaces {
		namespace := fmt.Sprint("many-", n)
		must(t, x.west.Apply(t.Context(), object.Namespace(namespace)))
		must(t, x.east.Apply(t.Context(), object.Namespace(namespace)))
		all.Go(func() {
			for i := range services {
				s := object.Service(namespace, fmt.Sprint("web-", i))
				s.Labels = map[string]string{
					"mirror.linkerd.io/exported": "remote-discovery", "team": "a", "example.com/owner": fmt.Sprint(i),
				}
				if _, err := x.east.CoreV1().Services(namespace).Create(
					t.Context(), s, metav1.CreateOptions{},
				); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()

	g := x.gateway("-exports=on")
	before := x.awaitMirrors(namespaces*services,
		func(s *corev1.Service) bool { return s.Labels["example.com/owner"] != "" })
	must(t, g.Stop())

	began := time.Now()
	g = x.gateway("-exports=on", "-export-exclude-labels=example.com/*")
	after := x.awaitMirrors(namespaces*services,
		func(s *corev1.Service) bool { return s.Labels["example.com/owner"] == "" })
	t.Logf("%d mirrors were written again in %v", len(after), time.Since(began))
	for uid, s := range after {
		was := before[uid]
		if was == nil || s.Spec.ClusterIP != was.Spec.ClusterIP || s.Labels["team"] != "a" {
			t.Fatalf("%s/%s is another Service: %+v", s.Namespace, s.Name, s)
		}
	}
	await(t, "nothing is left to be written", func() error {
		_, changes, err := x.state(g)
		if err == nil && len(changes) > 0 {
			err = fmt.Errorf("%d changes", len(changes))
		}
		return err
	})
	if got := x.serviceUpdates(g); got != namespaces*services {
		t.Errorf("%v updates of Services, not one of each", got)
	}
}

// awaitMirrors waits until there are that many mirrors, all of which are right, and returns them by UID.
func (x *exporting) awaitMirrors(n int, right func(*corev1.Service) bool) map[types.UID]*corev1.Service {
	x.t.Helper()
	found := make(map[types.UID]*corev1.Service)
	err := poll.Until(x.t.Context(), 5*time.Minute, time.Second, func() error {
		options := metav1.ListOptions{LabelSelector: "isthmus.io/written-by=linkerd"}
		list, err := x.west.CoreV1().Services("").List(x.t.Context(), options)
		if err != nil {
			return err
		}
		clear(found)
		for i := range list.Items {
			if s := &list.Items[i]; right(s) {
				found[s.UID] = s
			}
		}
		if len(found) != n || len(list.Items) != n {
			return fmt.Errorf("%d of %d mirrors are right", len(found), len(list.Items))
		}
		return nil
	})
	must(x.t, err)
	return maps.Clone(found)
}

// serviceUpdates returns how many updates of Services a gateway has counted.
func (x *exporting) serviceUpdates(g *gateway.Gateway) float64 {
	x.t.Helper()
	samples, err := admin.Metrics(x.t.Context(), g.MetricsAddr())
	must(x.t, err)
	n, series := admin.Sum(samples, regexp.MustCompile(`^isthmus_service_writes_total\{.*verb="update"`))
	if series == 0 {
		must(x.t, errors.New("the gateway counts no updates"))
	}
	return n
}
