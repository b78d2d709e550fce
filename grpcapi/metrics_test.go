package grpcapi

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"isthmus/federation"
	"isthmus/grpcapi/internal/wiretest"
)

// value returns the value of a counter or gauge.
func value(m prometheus.Metric) float64 {
	var out dto.Metric
	if err := m.Write(&out); err != nil {
		panic(err)
	}
	return out.GetCounter().GetValue() + out.GetGauge().GetValue()
}

// series returns the number of a collector's series.
func series(c prometheus.Collector) int {
	ch := make(chan prometheus.Metric, 10_000)
	c.Collect(ch)
	return len(ch)
}

func TestMetricsAreRegisteredOnce(t *testing.T) {
	r := prometheus.NewRegistry()
	w := newWorld(t, Options{Registerer: r})
	if _, err := New(w.table, w.server.dir, Options{Registerer: r}); err == nil {
		t.Error("a second server registered the same metrics")
	}
}

// count returns the count of the series with these labels.
func (o *overflows) count(labels ...string) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	one, ok := o.byLabels.Peek(strings.Join(labels, "\x00"))
	if !ok {
		return 0
	}
	return int(one.n)
}

// TestOverflowsAreBounded checks that stalls of many names create at most maxOverflows series.
// Stalls do not evict a series that keeps counting, and the series end with the service.
func TestOverflowsAreBounded(t *testing.T) {
	table := federation.NewTable(federation.Options{})
	table.Define(web, &federation.Definition{Members: []federation.Member{{Service: web}}})
	none := func(func([]string) bool) {}
	o := newOverflows(table, none, prometheus.NewDesc("x", "x", []string{"fqn", "port"}, nil))
	made := func(i int) string { return fmt.Sprintf("made-up-%d.web.shop.svc.cluster.local", i) }
	for i := range 3 * maxOverflows {
		o.inc(web, made(i), "80")
		if i%(maxOverflows/2) == 0 {
			o.inc(web, "web.shop.svc.cluster.local", "80")
		}
	}
	if n := series(scraped(o.collect)); n != maxOverflows {
		t.Errorf("%d series", n)
	}
	for name, want := range map[string]int{
		"web.shop.svc.cluster.local": 6,
		made(0):                      0,
		made(2 * maxOverflows):       0,
		made(3*maxOverflows - 1):     1,
	} {
		if n := o.count(name, "80"); n != want {
			t.Errorf("%d overflows of %s, want %d", n, name, want)
		}
	}
	table.Define(web, nil)
	if n := series(scraped(o.collect)); n != 0 {
		t.Errorf("%d series of a deleted service", n)
	}
}

// TestOverflowsBeginAtZero checks that open streams have series before the first stall. The first
// stall is then an increase from zero.
func TestOverflowsBeginAtZero(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newCounted(t)
		w.offer("", pods("10.0.0.1:80")...)
		w.profiles.put(webKey, wiretest.WebProfile())
		gets, profile := []*caller{w.get(webAddr, ""), w.get(webAddr, `{"nodeName":"n"}`)}, w.getProfile(webAddr, "")
		empty := w.get("no-such-pod.web.shop.svc.cluster.local:80", "")
		synctest.Wait()
		w.expect(t,
			"endpoint_updates_queue_overflow",
			"endpoint_updates_queue_overflow service=web.shop.svc.cluster.local:80 0",
		)
		w.expect(t, "profile_updates_queue_overflow", noOverflow)
		w.server.metrics.getOverflow.inc(web, webAddr)
		w.expect(t,
			"endpoint_updates_queue_overflow",
			"endpoint_updates_queue_overflow service=web.shop.svc.cluster.local:80 1",
		)
		for _, c := range append(gets, empty) {
			c.hangUp()
		}
		profile.hangUp()
		synctest.Wait()
		w.expect(t, "profile_updates_queue_overflow")
		w.expect(t,
			"endpoint_updates_queue_overflow",
			"endpoint_updates_queue_overflow service=web.shop.svc.cluster.local:80 1",
		)
	})
}
