package exports

import (
	"cmp"
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"isthmus/local/lease"
)

// newWriteMetric registers the metrics, and returns the counter of writes.
func newWriteMetric(r prometheus.Registerer, s *lease.Candidate[leadership]) (*prometheus.CounterVec, error) {
	writes := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "isthmus_service_writes_total",
		Help: "Writes of Services, ServiceImports and conditions of ServiceExports, by what they are for, what was " +
			"done and how that ended.",
	}, []string{"kind", "verb", "result"})
	leader := s.Gauge(
		"isthmus_exports_leader",
		"Whether this replica holds the Lease for writing exported Services: 1 or 0.",
		nil,
		func(*leadership) float64 { return 1 },
	)
	return writes, errors.Join(r.Register(writes), r.Register(leader))
}

// count counts a write.
func (w *Writer) count(c *Change, v Verb, err error) {
	result := "ok"
	if err != nil {
		result = "error"
	}
	w.writes.WithLabelValues(cmp.Or(string(c.For), "unknown"), string(v), result).Inc()
}
