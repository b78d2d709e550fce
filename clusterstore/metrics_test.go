package clusterstore

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"isthmus/clusterstore/cluster"
	"isthmus/clusterstore/internal/metricstest"
	"isthmus/clusterstore/kube"
)

func TestMetrics(t *testing.T) {
	bad, opaque := secret("bad", "west", "t", 0), secret("opaque", "none", "t", 0)
	bad.Data = nil
	opaque.Type = corev1.SecretTypeOpaque
	inBubble(t, func(e *env) {
		registry := prometheus.NewRegistry()
		if err := registerStore(e.store, registry); err != nil {
			t.Fatal(err)
		}
		east := e.named("east")
		east.sync()
		e.named("north").fail("refused")
		metricstest.Check(t, registry,
			"cluster_store_size 2",
			"isthmus_cluster_rotation_failing cluster=east 0",
			"isthmus_cluster_rotation_failing cluster=north 0",
			"isthmus_cluster_stale_seconds cluster=east 0",
			"isthmus_cluster_stale_seconds cluster=north 0",
			"isthmus_cluster_standing cluster=east standing=in-service 1",
			"isthmus_cluster_standing cluster=north standing=last-resort 1",
			"isthmus_cluster_state cluster=east state=ready 1",
			"isthmus_cluster_state cluster=north state=unreachable 1",
			"isthmus_cluster_state cluster=west state=rejected 1",
			"isthmus_link_rejected reason=annotation 0",
			"isthmus_link_rejected reason=duplicate 1",
			"isthmus_link_rejected reason=kubeconfig 1",
			"isthmus_link_rejected reason=label 0",
			"isthmus_link_secrets 4",
			"isthmus_link_secrets_unreadable 0",
		)
		east.lose("gone")
		e.pass(90 * time.Second)
		e.put(with(secret("a", "east", "t2", 5), "when-lost", "withdraw"))
		e.last(3).fail("unauthorized")
		e.remove("n")
		e.remove("bad")
		metricstest.Check(t, registry,
			"cluster_store_size 1",
			"isthmus_cluster_rotation_failing cluster=east 1",
			"isthmus_cluster_stale_seconds cluster=east 90",
			"isthmus_cluster_standing cluster=east standing=withdrawn 1",
			"isthmus_cluster_state cluster=east state=stale 1",
			"isthmus_link_rejected reason=annotation 0",
			"isthmus_link_rejected reason=duplicate 1",
			"isthmus_link_rejected reason=kubeconfig 0",
			"isthmus_link_rejected reason=label 0",
			"isthmus_link_secrets 2",
			"isthmus_link_secrets_unreadable 0",
		)
	}, with(secret("a", "east", "t1", 5), "when-lost", "withdraw"), secret("b", "east", "t1", 0),
		with(secret("n", "north", "t1", 0), "cordon", "last-resort"), bad, opaque)
}

// TestForgottenWithItsLink: metrics of requests to a cluster are removed with its last
// Secret, and not before.
func TestForgottenWithItsLink(t *testing.T) {
	registry := prometheus.NewRegistry()
	m, err := cluster.NewMetrics(registry)
	if err != nil {
		t.Fatal(err)
	}
	inBubble(t, func(e *env) {
		if _, err := kube.New("east", &rest.Config{Host: "https://east"}, m.Requests()); err != nil { // as a Cluster's
			t.Fatal(err)
		}
		e.store.opts.Metrics = m
		ofEast := func() bool {
			return strings.Contains(strings.Join(metricstest.Lines(t, registry), "\n"), "cluster=east")
		}
		e.put(secret("a", "east", "t2", 5))
		if !ofEast() {
			t.Error("a rotation has removed the series")
		}
		e.remove("a")
		if ofEast() {
			t.Error("the series are still there")
		}
	}, secret("a", "east", "t1", 5))
}
