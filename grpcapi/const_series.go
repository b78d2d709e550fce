package grpcapi

import (
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// constSeries is one series of a scrape. Unlike a series of prometheus.NewConstMetric, it shares its
// labels with others: there are as many series as members of services.
type constSeries struct {
	desc   *prometheus.Desc
	labels []*dto.LabelPair // sorted by name; read only
	value  float64
	write  func(*dto.Metric, *float64)
}

// Desc implements prometheus.Metric.
func (s *constSeries) Desc() *prometheus.Desc { return s.desc }

// Write implements prometheus.Metric.
func (s *constSeries) Write(to *dto.Metric) error {
	to.Label = s.labels
	s.write(to, &s.value)
	return nil
}

func writeGauge(to *dto.Metric, value *float64)   { to.Gauge = &dto.Gauge{Value: value} }
func writeCounter(to *dto.Metric, value *float64) { to.Counter = &dto.Counter{Value: value} }

// label is a label and its value.
type label struct{ name, value string }

// labelPairs has each label of a scrape once.
type labelPairs map[label]*dto.LabelPair

func (all labelPairs) pair(name, value string) *dto.LabelPair {
	if p := all[label{name, value}]; p != nil {
		return p
	}
	p := &dto.LabelPair{Name: &name, Value: &value}
	all[label{name, value}] = p
	return p
}
