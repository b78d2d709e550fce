package grpcapi

import (
	"fmt"
	"iter"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"github.com/prometheus/client_golang/prometheus"

	"isthmus/federation"
)

// metrics holds the series that are updated when events happen. Series that describe open streams
// are computed on each scrape (see scraped).
type metrics struct {
	domain string // Options.ClusterDomain; fixed

	calls                   *callMetrics
	getOverflow             *overflows // by service
	profileOverflow         *overflows // by service and port
	endpointProfileOverflow prometheus.Counter
	stalled                 prometheus.Counter     // the sum of the three counters above
	closed                  *prometheus.CounterVec // by reason
	first                   prometheus.Histogram
	late                    prometheus.Counter
	profileUpdates          profileUpdates
	workloadUpdates         prometheus.Counter
	propagation             *propagation
}

func newMetrics(s *Server, r prometheus.Registerer) (*metrics, error) {
	open := collector{s}
	m := &metrics{
		domain: s.opts.ClusterDomain,
		calls:  newCallMetrics(s.panicked, s.opts.Request),
		getOverflow: newOverflows(s.table, open.openGets, prometheus.NewDesc(
			"endpoint_updates_queue_overflow",
			"Number of Get streams that ended because the proxy did not read an update in time.",
			[]string{"service"}, nil)),
		profileOverflow: newOverflows(s.table, open.openProfiles, prometheus.NewDesc(
			"profile_updates_queue_overflow",
			"Number of times that Isthmus ended a Service's GetProfile stream "+
				"because the proxy did not read an update in time.",
			[]string{"fqn", "port"}, nil)),
		endpointProfileOverflow: newCounter("endpoint_profile_updates_queue_overflow",
			"Number of times that Isthmus ended an endpoint's GetProfile stream "+
				"because the proxy did not read an update in time."),
		stalled: newCounter("isthmus_streams_stalled_total",
			"Number of streams that ended because the proxy did not read an update in time."),
		closed: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "isthmus_connections_closed_total",
			Help: "Number of connections that were closed because the client did not read responses.",
		}, []string{"reason"}),
		first: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "isthmus_first_frame_seconds",
			Help:    "How long the first message of a Get stream waited for clusters to sync.",
			Buckets: []float64{.001, .005, .01, .05, .1, .25, .5, 1, 1.5, 2, 3},
		}),
		late: newCounter("isthmus_first_frame_timeouts_total",
			"Number of Get streams that began without the endpoints of clusters that took too long to sync."),
		workloadUpdates: newCounter("workload_updates",
			"Number of changes to the profile of an endpoint or an unknown address "+
				"while a GetProfile stream watched the profile."),
		propagation: &propagation{
			table:     s.table,
			byCluster: make(map[federation.ClusterName]prometheus.Histogram),
		},
	}
	for _, reason := range []string{closedStalled, closedReflection} {
		m.closed.WithLabelValues(reason)
	}

	all := append(m.calls.collectors(),
		scraped(m.getOverflow.collect),
		scraped(m.profileOverflow.collect),
		m.endpointProfileOverflow,
		m.stalled,
		m.closed,
		m.first,
		m.late,
		m.workloadUpdates,
		m.propagation,
		s.refused,
		scraped(open.streams),
		scraped(open.endpoints),
		scraped(open.profiles),
	)
	for _, c := range all {
		if err := r.Register(c); err != nil {
			return nil, fmt.Errorf("metrics of the Destination server: %w", err)
		}
	}
	return m, nil
}

func newCounter(name, help string) prometheus.Counter {
	return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
}

func (m *metrics) profileChanged(k federation.ProfileKey, p *federation.Profile) {
	of, ok := profileSeriesOf(k, p, m.domain)
	if !ok {
		m.workloadUpdates.Inc()
		return
	}
	for _, series := range of {
		m.profileUpdates.inc(series)
	}
}

// maxOverflows limits the number of series in overflows. Without a limit, a client could create any
// number of series by requesting invented hostnames and letting the streams stall.
const maxOverflows = 1000

// For each destination, overflows counts the streams that have stalled. The series for an open
// stream exists before the first stall, with the value zero. A series that has counted a stall is
// kept until its service is removed. If more than maxOverflows series have counted stalls, the
// series whose last stall was longest ago is dropped.
type overflows struct {
	table *federation.Table // fixed, as are desc and open
	desc  *prometheus.Desc
	open  iter.Seq[[]string] // the labels of open streams

	mu       sync.Mutex
	byLabels *simplelru.LRU[string, *overflow]
}

type overflow struct {
	service federation.ServiceID
	labels  []string
	n       uint64
}

func newOverflows(t *federation.Table, open iter.Seq[[]string], desc *prometheus.Desc) *overflows {
	byLabels, _ := simplelru.NewLRU[string, *overflow](maxOverflows, nil) // fails only if the size is zero
	return &overflows{table: t, desc: desc, open: open, byLabels: byLabels}
}

func (o *overflows) inc(service federation.ServiceID, labels ...string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	key := keyOf(labels)
	one, ok := o.byLabels.Get(key)
	if !ok {
		one = &overflow{service: service, labels: labels}
		o.byLabels.Add(key, one)
	}
	one.n++
}

func (o *overflows) collect(ch chan<- prometheus.Metric) {
	o.mu.Lock()
	defer o.mu.Unlock()
	counts := make(map[string]*overflow)
	for _, key := range o.byLabels.Keys() {
		one, _ := o.byLabels.Peek(key)
		if !o.table.Defined(one.service) {
			o.byLabels.Remove(key)
			continue
		}
		counts[key] = one
	}
	for labels := range o.open {
		if key := keyOf(labels); counts[key] == nil {
			counts[key] = &overflow{labels: labels}
		}
	}
	for _, one := range counts {
		ch <- prometheus.MustNewConstMetric(o.desc, prometheus.CounterValue, float64(one.n), one.labels...)
	}
}

func keyOf(labels []string) string { return strings.Join(labels, "\x00") }

// propagation measures, for each linked cluster, the time from receiving a change to sending it to
// a proxy.
type propagation struct {
	table *federation.Table

	mu        sync.RWMutex
	byCluster map[federation.ClusterName]prometheus.Histogram
}

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
			Help:        "Time between the arrival of a change to endpoints and its transmission on a Get stream.",
			ConstLabels: prometheus.Labels{"cluster": c.String()},
			Buckets:     []float64{.005, .05, .25, 1, 5}, // few, because each cluster has a histogram
		})
		p.byCluster[c] = h
	}
	return h
}

// Describe implements prometheus.Collector. Describe sends no descriptors, because the set of
// clusters changes.
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

// profileUpdates counts changes to the profiles that streams use. If no open stream uses a profile,
// the next scrape drops the series of the profile. The zero value is ready to use.
type profileUpdates struct {
	mu sync.Mutex
	by map[profileSeries]uint64
}

// maxProfileUpdates is the maximum number of series in a profileUpdates. The limit exists because
// clients can invent namespaces.
const maxProfileUpdates = 100_000

func (u *profileUpdates) inc(s profileSeries) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.by == nil || len(u.by) >= maxProfileUpdates {
		u.by = make(map[profileSeries]uint64)
	}
	u.by[s]++
}

func (u *profileUpdates) keep(open map[profileSeries]bool) map[profileSeries]uint64 {
	u.mu.Lock()
	defer u.mu.Unlock()
	maps.DeleteFunc(u.by, func(s profileSeries, _ uint64) bool { return !open[s] })
	return maps.Clone(u.by)
}
