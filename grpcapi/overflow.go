package grpcapi

import (
	"iter"
	"strconv"
	"strings"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"github.com/prometheus/client_golang/prometheus"

	"isthmus/federation"
)

// maxOverflows bounds the number of series: clients may ask for any hostname of a
// service, and stall.
const maxOverflows = 1000

// overflows counts stalled streams by what they are about, in the full form of its
// name, not as clients write it. A series exists while there are streams that it
// could count, so that it begins at zero. Once it has counted a stall, it exists until
// its service is gone, or until maxOverflows others have stalled since.
type overflows struct {
	table *federation.Table // fixed, as are desc and open
	desc  *prometheus.Desc
	open  iter.Seq[[]string] // the labels of streams that could be counted

	mu       sync.Mutex
	byLabels *simplelru.LRU[string, *overflow]
}

type overflow struct {
	service federation.ServiceID
	labels  []string
	n       uint64
}

func newOverflows(t *federation.Table, open iter.Seq[[]string], desc *prometheus.Desc) *overflows {
	byLabels, _ := simplelru.NewLRU[string, *overflow](maxOverflows, nil) // fails for a size of zero only
	return &overflows{table: t, desc: desc, open: open, byLabels: byLabels}
}

// openGets yields the authorities of open Get streams that have endpoints, except those of
// ports that are not declared.
func (s *Server) openGets(yield func([]string) bool) {
	for _, u := range s.getViews.uses() {
		name := target{u.key.Service, u.key.Client.Instance, u.key.Port}
		if u.streams > 0 && len(u.newest.Endpoints) > 0 && !u.newest.Undeclared &&
			!yield([]string{name.authority(s.opts.ClusterDomain)}) {
			return
		}
	}
}

// openProfiles yields the names and ports of the services of open GetProfile streams.
func (s *Server) openProfiles(yield func([]string) bool) {
	for _, u := range s.profileViews.uses() {
		to, ok := serviceOf(u.key, u.newest)
		if ok && u.streams > 0 && u.newest.Reason == federation.Resolved &&
			!yield([]string{to.host(s.opts.ClusterDomain), strconv.Itoa(int(to.port))}) {
			return
		}
	}
}

// inc counts one stall.
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

// collect sends the series.
func (o *overflows) collect(ch chan<- prometheus.Metric) {
	o.mu.Lock()
	defer o.mu.Unlock()
	counts := make(map[string]*overflow)
	for _, key := range o.byLabels.Keys() {
		if one, _ := o.byLabels.Peek(key); o.table.Defined(one.service) {
			counts[key] = one
		} else {
			o.byLabels.Remove(key)
		}
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
