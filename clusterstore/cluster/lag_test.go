package cluster

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// TestLagOfWatch: only updates are measured, and neither lists nor new objects.
func TestLagOfWatch(t *testing.T) {
	registry := prometheus.NewRegistry()
	m, err := NewMetrics(registry)
	if err != nil {
		t.Fatal(err)
	}
	observed := func() (n uint64) {
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			if f.GetName() == "pods_informer_lag_seconds" {
				n = f.GetMetric()[0].GetHistogram().GetSampleCount()
			}
		}
		return n
	}
	pod := func(name, app string) *corev1.Pod {
		now := metav1.Now()
		return aPod(name, podLabel("app", app), func(o *corev1.Pod) {
			o.ManagedFields = []metav1.ManagedFieldsEntry{{Operation: metav1.ManagedFieldsOperationUpdate, Time: &now}}
		})
	}
	inCluster(t, func(c *Config, _ *fakeAPI) { c.Metrics = m }, func(r *running) {
		r.create(pod("b", "x"))
		if n := observed(); n != 0 {
			t.Errorf("%d observations after a list and a new Pod", n)
		}
		time.Sleep(time.Minute)
		r.send(watch.Modified, pod("b", "y"))
		if n := observed(); n != 1 {
			t.Errorf("%d observations after an update", n)
		}
	}, pod("a", "x"))
}
