package cluster

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"isthmus/clusterstore/follow"
)

// TestSeries: the caches of a cluster under the names that they have in
// Linkerd's destination controller; what is not read is empty.
func TestSeries(t *testing.T) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectorOf(Series("east", Ready, Health{Health: follow.Health{Resources: []follow.ResourceHealth{
		{Resource: "pods", Objects: 3}, {Resource: "endpointslices", Objects: 2}, {Resource: "servers"},
	}}})))
	want := []string{
		"endpoints_cache_size cluster=east 0",
		"endpointslices_cache_size cluster=east 2",
		"isthmus_cluster_stale_seconds cluster=east 0",
		"isthmus_cluster_state cluster=east state=ready 1",
		"pod_cache_size cluster=east 3",
		"server_cache_size cluster=east 0",
	}
	if got := scrape(t, registry); !slices.Equal(got, want) {
		t.Errorf("scraped\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}

type collectorOf []prometheus.Metric

func (c collectorOf) Describe(chan<- *prometheus.Desc) {}

func (c collectorOf) Collect(ch chan<- prometheus.Metric) {
	for _, m := range c {
		ch <- m
	}
}

// scrape returns every series as a line: name, label values, value.
func scrape(t *testing.T, registry *prometheus.Registry) (lines []string) {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			line := f.GetName()
			for _, l := range m.GetLabel() {
				line += " " + l.GetName() + "=" + l.GetValue()
			}
			lines = append(lines, fmt.Sprint(line, " ", m.GetGauge().GetValue()+m.GetCounter().GetValue()))
		}
	}
	return lines
}
