package exports

import (
	"cmp"
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"isthmus/local/election"
)

// metrics are those of one Writer.
type metrics struct {
	writes *prometheus.CounterVec
}

func newMetrics(r prometheus.Registerer, s *election.Standing[term]) (*metrics, error) {
	m := &metrics{writes: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "isthmus_service_writes_total", Help: "Writes of Services, ServiceImports and conditions of ServiceExports, by what they are for, what was done and how that ended.",
	}, []string{"kind", "verb", "result"})}
	leader := s.Gauge("isthmus_exports_leader", "Whether this replica holds the Lease for writing exported Services: 1 or 0.", nil, func(*term) float64 { return 1 })
	return m, errors.Join(r.Register(m.writes), r.Register(leader))
}

func (m *metrics) count(one task, v Verb, err error) {
	result := "ok"
	if err != nil {
		result = "error"
	}
	m.writes.WithLabelValues(cmp.Or(string(one.For), "unknown"), string(v), result).Inc()
}
