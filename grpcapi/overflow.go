package grpcapi

import (
	"slices"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"isthmus/federation"
)

// maxOverflows bounds how many names of one kind are counted for: clients may ask
// for any hostname of a service, and take nothing of what they are told.
const maxOverflows = 1000

// overflows counts stalled streams by what they were about. A series is there once
// it counts, until its service goes; what is too many counts under no name.
type overflows struct {
	table *federation.Table // fixed, as are desc and labels
	desc  *prometheus.Desc
	names int // of labels

	mu sync.Mutex
	of map[string]*overflow // by labels
}

type overflow struct {
	service federation.ServiceID
	labels  []string
	n       uint64
}

func newOverflows(t *federation.Table, name, help string, labels ...string) *overflows {
	return &overflows{table: t, desc: prometheus.NewDesc(name, help, labels, nil), names: len(labels), of: make(map[string]*overflow)}
}

// inc counts one more.
func (o *overflows) inc(service federation.ServiceID, labels ...string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	key := strings.Join(labels, "\x00")
	if o.of[key] == nil && len(o.of) >= maxOverflows {
		key, labels, service = "", slices.Repeat([]string{""}, o.names), federation.ServiceID{}
	}
	one := o.of[key]
	if one == nil {
		one = &overflow{service: service, labels: labels}
		o.of[key] = one
	}
	one.n++
}

// Describe implements prometheus.Collector.
func (o *overflows) Describe(ch chan<- *prometheus.Desc) { ch <- o.desc }

// Collect implements prometheus.Collector.
func (o *overflows) Collect(ch chan<- prometheus.Metric) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for key, one := range o.of {
		if key != "" && !o.table.Defined(one.service) {
			delete(o.of, key)
			continue
		}
		ch <- prometheus.MustNewConstMetric(o.desc, prometheus.CounterValue, float64(one.n), one.labels...)
	}
}
