package grpcapi

import (
	"strings"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"github.com/prometheus/client_golang/prometheus"

	"isthmus/federation"
)

// maxOverflows bounds how many names of one kind are counted for: clients may ask
// for any hostname of a service, and take nothing of what they are told.
const maxOverflows = 1000

// overflows counts stalled streams by what they were about. A series is there once
// it counts, until its service goes, or until so many others have counted since.
type overflows struct {
	table *federation.Table // fixed, as is desc
	desc  *prometheus.Desc

	mu sync.Mutex
	of *simplelru.LRU[string, *overflow] // by labels
}

type overflow struct {
	service federation.ServiceID
	labels  []string
	n       uint64
}

func newOverflows(t *federation.Table, name, help string, labels ...string) *overflows {
	of, _ := simplelru.NewLRU[string, *overflow](maxOverflows, nil) // fails for a size of zero only
	return &overflows{table: t, desc: prometheus.NewDesc(name, help, labels, nil), of: of}
}

// inc counts one more.
func (o *overflows) inc(service federation.ServiceID, labels ...string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	key := strings.Join(labels, "\x00")
	one, ok := o.of.Get(key)
	if !ok {
		one = &overflow{service: service, labels: labels}
		o.of.Add(key, one)
	}
	one.n++
}

// Describe implements prometheus.Collector.
func (o *overflows) Describe(ch chan<- *prometheus.Desc) { ch <- o.desc }

// Collect implements prometheus.Collector.
func (o *overflows) Collect(ch chan<- prometheus.Metric) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, key := range o.of.Keys() {
		one, _ := o.of.Peek(key)
		if !o.table.Defined(one.service) {
			o.of.Remove(key)
			continue
		}
		ch <- prometheus.MustNewConstMetric(o.desc, prometheus.CounterValue, float64(one.n), one.labels...)
	}
}
