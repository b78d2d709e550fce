package main

import (
	"os"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"k8s.io/client-go/rest"
)

// TestReplicaName: the name is $HOSTNAME, or else the machine's.
func TestReplicaName(t *testing.T) {
	machine, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	for env, want := range map[string]string{"isthmus-7": "isthmus-7", "": machine} {
		t.Setenv("HOSTNAME", env)
		if got, err := replicaName(); got != want || err != nil {
			t.Errorf("$HOSTNAME=%q: %q, %v, want %q", env, got, err, want)
		}
	}
}

// TestWriterFollowsFlags: without EndpointSlices there is no writer, and its queue has metrics only if asked for.
func TestWriterFollowsFlags(t *testing.T) {
	for _, x := range []struct {
		slices, metrics bool
		parts, series   int
	}{{true, true, 1, 12}, {true, false, 1, 4}, {false, true, 0, 0}} {
		registry := prometheus.NewRegistry()
		o := &options{namespace: "linkerd", slices: x.slices, queueMetrics: x.metrics}
		w, err := newSliceWriter(o, &rest.Config{Host: "http://127.0.0.1:1"}, nil, registry, zap.NewNop())
		if err != nil {
			t.Fatal(err)
		}
		if n := len(w.parts()); n != x.parts {
			t.Errorf("%+v: %d parts", x, n)
		}
		families, err := registry.Gather()
		n := 0
		for _, f := range families {
			n += len(f.GetMetric())
		}
		if err != nil || n != x.series {
			t.Errorf("%+v: %d series: %v", x, n, err)
		}
	}
}
