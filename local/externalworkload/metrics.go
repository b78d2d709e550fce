package externalworkload

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"isthmus/local/lease"
)

// queueName is the name of the work queue in the metrics of Linkerd's controller.
const queueName = "endpoints_controller_workqueue"

type metrics struct {
	writes *prometheus.CounterVec // by operation
	// The following metrics describe the queue of Services that must be synced, and have the same
	// meaning as the metrics of client-go's work queues.
	adds, retries, drops prometheus.Counter
	waited, worked       prometheus.Histogram
}

func newMetrics(r prometheus.Registerer, withQueue bool, s *lease.Candidate[leadership]) (*metrics, error) {
	labels := prometheus.Labels{"name": queueName}
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: "workqueue_" + name, Help: help, ConstLabels: labels})
	}
	histogram := func(name, help string) prometheus.Histogram {
		return prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:        "workqueue_" + name,
			Help:        help,
			ConstLabels: labels,
			Buckets:     prometheus.ExponentialBuckets(1e-8, 10, 10),
		})
	}
	m := &metrics{
		writes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "isthmus_endpointslice_writes_total",
			Help: "EndpointSlices that this replica has created, updated or deleted for ExternalWorkloads.",
		}, []string{"operation"}),
		adds:    counter("adds_total", "Keys added to the work queue."),
		retries: counter("retries_total", "Keys that were returned to the work queue after a failure."),
		drops:   counter("drops_total", "Always 0, because Isthmus never drops a key from the work queue."),
		waited:  histogram("queue_duration_seconds", "How long a key stays in the work queue."),
		worked:  histogram("work_duration_seconds", "How long processing a key takes."),
	}
	for _, op := range []operation{creates, updates, removes} {
		m.writes.WithLabelValues(string(op))
	}
	all := []prometheus.Collector{
		m.writes,
		s.Gauge(
			"isthmus_endpointslice_writer_leading",
			"1 while this replica writes the EndpointSlices for ExternalWorkloads, otherwise 0.",
			nil,
			func(*leadership) float64 { return 1 },
		),
	}
	if withQueue {
		all = append(all, m.adds, m.retries, m.drops, m.waited, m.worked,
			s.Gauge("workqueue_depth", "Keys in the work queue.", labels, func(t *leadership) float64 {
				t.mu.Lock()
				defer t.mu.Unlock()
				return float64(len(t.waiting))
			}),
			s.Gauge(
				"workqueue_unfinished_work_seconds",
				"Time spent so far on all keys that are being processed.",
				labels,
				func(t *leadership) float64 { sum, _ := t.underWay(); return sum },
			),
			s.Gauge(
				"workqueue_longest_running_processor_seconds",
				"Time since processing began for the oldest key that is still being processed.",
				labels,
				func(t *leadership) float64 { _, longest := t.underWay(); return longest },
			))
	}
	for _, c := range all {
		if err := r.Register(c); err != nil {
			return nil, fmt.Errorf("metrics: %w", err)
		}
	}
	return m, nil
}
