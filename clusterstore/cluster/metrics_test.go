package cluster

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"isthmus/clusterstore/follow"
	"isthmus/clusterstore/internal/clustertest"
	"isthmus/federation"
	"isthmus/internal/adminapi"
)

// TestSeries checks that cache metrics have the names of Linkerd's destination controller. Of
// endpoints and endpointslices, the unused one is 0. A kind that has not been listed has a series.
// Troubles of a linked cluster only have series while they last.
func TestSeries(t *testing.T) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectorOf(Series("east", Ready, Health{Health: follow.Health{Resources: []adminapi.Resource{
		{Resource: "pods", Objects: 3, Refused: 2}, {Resource: "endpointslices", Objects: 2},
		{Resource: "servers", Err: "no RBAC", Failure: adminapi.Forbidden},
		{Resource: "jobs", Err: "no CRD", Failure: adminapi.Absent},
		{Resource: "replicasets", Err: "gone", Failure: adminapi.Failing, Synced: true}, {Resource: "nodes"},
	}}})))
	clustertest.CheckMetrics(t, registry,
		"endpoints_cache_size cluster=east 0",
		"endpointslices_cache_size cluster=east 2",
		"isthmus_cluster_kind_unread cluster=east reason=forbidden resource=servers 1",
		"isthmus_cluster_stale_seconds cluster=east 0",
		"isthmus_cluster_state cluster=east state=ready 1",
		"isthmus_objects_refused cluster=east resource=pods 2",
		"job_cache_size cluster=east 0",
		"node_cache_size cluster=east 0",
		"pod_cache_size cluster=east 3",
		"replicaset_cache_size cluster=east 0",
		"server_cache_size cluster=east 0",
	)
}

// TestTroublesOfLocalCluster checks that the local cluster has zeros if there is no trouble.
func TestTroublesOfLocalCluster(t *testing.T) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectorOf(troubles(federation.Local, adminapi.Resource{Resource: "pods"})))
	clustertest.CheckMetrics(t, registry,
		"isthmus_objects_refused cluster=local resource=pods 0",
	)
}

// TestStaleSeries checks that an unreachable cluster counts as stale from its first failure.
func TestStaleSeries(t *testing.T) {
	lost := Health{Health: follow.Health{StaleSince: time.Now().Add(-time.Hour)}}
	for state, want := range map[State]float64{Stale: 3600, Unreachable: 3600, Ready: 0} {
		for _, m := range Series("east", state, lost) {
			var d dto.Metric
			if m.Desc() != staleDesc {
				continue
			}
			if err := m.Write(&d); err != nil || d.GetGauge().GetValue() < want || d.GetGauge().GetValue() > want+60 {
				t.Errorf("%s: %v, %v", state, d.GetGauge().GetValue(), err)
			}
		}
	}
}

type collectorOf []prometheus.Metric

func (c collectorOf) Describe(chan<- *prometheus.Desc) {}

func (c collectorOf) Collect(ch chan<- prometheus.Metric) {
	for _, m := range c {
		ch <- m
	}
}

// TestLagOfWatch checks that the lag is measured for updates only, not for lists and new objects.
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
