package grpcapi

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"isthmus/federation"
)

// propagation measures, by cluster, how long it takes from a change to the message
// that sends it. A cluster's series exists while it is linked.
type propagation struct {
	table *federation.Table

	mu        sync.RWMutex
	byCluster map[federation.ClusterName]prometheus.Histogram
}

// observe counts a set that a stream has sent.
func (p *propagation) observe(set *federation.Set) {
	if set.Changed.IsZero() {
		return
	}
	p.mu.RLock()
	h := p.byCluster[set.Origin]
	p.mu.RUnlock()
	if h == nil {
		h = p.add(set.Origin)
	}
	h.Observe(time.Since(set.Changed).Seconds())
}

func (p *propagation) add(c federation.ClusterName) prometheus.Histogram {
	p.mu.Lock()
	defer p.mu.Unlock()
	h := p.byCluster[c]
	if h == nil {
		h = prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:        "isthmus_propagation_seconds",
			Help:        "Time from when the gateway received a change of endpoints to when it sent it on a proxy's Get stream.",
			ConstLabels: prometheus.Labels{"cluster": c.String()},
			Buckets:     []float64{.005, .05, .25, 1, 5}, // few: there is one histogram for each cluster
		})
		p.byCluster[c] = h
	}
	return h
}

// Describe implements prometheus.Collector. It describes nothing, because clusters
// come and go.
func (p *propagation) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (p *propagation) Collect(ch chan<- prometheus.Metric) {
	linked := p.table.Linked()
	for c := range linked {
		p.add(c)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for c, h := range p.byCluster {
		if _, ok := linked[c]; ok {
			ch <- h
		} else {
			delete(p.byCluster, c)
		}
	}
}
