package externalworkload

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/util/workqueue"
)

// queueName is the queue's name in the metrics of Linkerd's controller.
const queueName = "endpoints_controller_workqueue"

type metrics struct {
	queue  *queueMetrics
	writes *prometheus.CounterVec // by operation
}

func newMetrics(r prometheus.Registerer, withQueue bool, leads func() bool) (*metrics, error) {
	m := &metrics{
		queue: newQueueMetrics(),
		writes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "isthmus_endpointslice_writes_total",
			Help: "EndpointSlices that this replica has created, updated or deleted for ExternalWorkloads.",
		}, []string{"operation"}),
	}
	for _, op := range []operation{creates, updates, removes} {
		m.writes.WithLabelValues(string(op))
	}
	leading := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "isthmus_endpointslice_writer_leading",
		Help: "1 while this replica writes the EndpointSlices for ExternalWorkloads.",
	}, func() float64 {
		if leads() {
			return 1
		}
		return 0
	})
	all := []prometheus.Collector{m.writes, leading}
	if withQueue {
		all = append(all, m.queue.all()...)
	}
	for _, c := range all {
		if err := r.Register(c); err != nil {
			return nil, fmt.Errorf("metrics: %w", err)
		}
	}
	return m, nil
}

// queueMetrics implements workqueue.MetricsProvider. It outlives the queues: each
// term has one of its own.
type queueMetrics struct {
	depth, unfinished, longest prometheus.Gauge
	adds, retries, drops       prometheus.Counter
	waited, worked             prometheus.Histogram
}

func newQueueMetrics() *queueMetrics {
	labels := prometheus.Labels{"name": queueName}
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Name: "workqueue_" + name, Help: help, ConstLabels: labels})
	}
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: "workqueue_" + name, Help: help, ConstLabels: labels})
	}
	histogram := func(name, help string) prometheus.Histogram {
		return prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "workqueue_" + name, Help: help, ConstLabels: labels, Buckets: prometheus.ExponentialBuckets(1e-8, 10, 10),
		})
	}
	return &queueMetrics{
		depth:      gauge("depth", "Keys in the work queue."),
		unfinished: gauge("unfinished_work_seconds", "For how long all keys being worked on have been so."),
		longest:    gauge("longest_running_processor_seconds", "For how long the oldest key being worked on has been so."),
		adds:       counter("adds_total", "Keys added to the work queue."),
		retries:    counter("retries_total", "Keys added to the work queue again after a failure."),
		drops:      counter("drops_total", "Always 0: no key is given up."),
		waited:     histogram("queue_duration_seconds", "How long a key stays in the work queue."),
		worked:     histogram("work_duration_seconds", "How long a key is worked on."),
	}
}

func (m *queueMetrics) all() []prometheus.Collector {
	return []prometheus.Collector{m.depth, m.unfinished, m.longest, m.adds, m.retries, m.drops, m.waited, m.worked}
}

// reset sets the gauges to 0 after the end of a queue.
func (m *queueMetrics) reset() {
	for _, g := range []prometheus.Gauge{m.depth, m.unfinished, m.longest} {
		g.Set(0)
	}
}

func (m *queueMetrics) NewDepthMetric(string) workqueue.GaugeMetric            { return m.depth }
func (m *queueMetrics) NewAddsMetric(string) workqueue.CounterMetric           { return m.adds }
func (m *queueMetrics) NewLatencyMetric(string) workqueue.HistogramMetric      { return m.waited }
func (m *queueMetrics) NewWorkDurationMetric(string) workqueue.HistogramMetric { return m.worked }

// NewRetriesMetric returns a counter that is not exported: a queue counts whatever is
// added with a delay as a retry. The term counts the true ones.
func (m *queueMetrics) NewRetriesMetric(string) workqueue.CounterMetric {
	return prometheus.NewCounter(prometheus.CounterOpts{Name: "not_registered"})
}

func (m *queueMetrics) NewUnfinishedWorkSecondsMetric(string) workqueue.SettableGaugeMetric {
	return m.unfinished
}
func (m *queueMetrics) NewLongestRunningProcessorSecondsMetric(string) workqueue.SettableGaugeMetric {
	return m.longest
}
