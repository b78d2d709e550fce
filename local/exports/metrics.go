package exports

import (
	"cmp"
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are those of one Writer.
type metrics struct {
	writes *prometheus.CounterVec
}

func newMetrics(r prometheus.Registerer, leads func() bool) (*metrics, error) {
	m := &metrics{writes: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "isthmus_service_writes_total", Help: "Writes of Services, ServiceImports and conditions of ServiceExports, by what they are for, what was done and how that ended.",
	}, []string{"kind", "verb", "result"})}
	leader := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "isthmus_exports_leader", Help: "Whether this replica holds the Lease for writing exported Services: 1 or 0.",
	}, func() float64 {
		if leads() {
			return 1
		}
		return 0
	})
	return m, errors.Join(r.Register(m.writes), r.Register(leader))
}

func (m *metrics) count(one task, v Verb, err error) {
	result := "ok"
	if err != nil {
		result = "error"
	}
	m.writes.WithLabelValues(cmp.Or(string(one.For), "unknown"), string(v), result).Inc()
}
