package grpcapi

import (
	"maps"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"isthmus/federation"
)

// profileSeries are the labels of the series about a ServiceProfile.
type profileSeries struct{ namespace, profile string }

// profileUpdates counts changes of the profiles that streams see. What has no streams is
// forgotten when metrics are read. The zero value is ready to use.
type profileUpdates struct {
	mu sync.Mutex
	by map[profileSeries]uint64
}

// maxProfileUpdates is how many series are counted at most while metrics are not read: clients can make
// up namespaces.
const maxProfileUpdates = 100_000

func (u *profileUpdates) inc(s profileSeries) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.by == nil || len(u.by) >= maxProfileUpdates {
		u.by = make(map[profileSeries]uint64)
	}
	u.by[s]++
}

// keep forgets what has no streams, and returns a copy of the rest.
func (u *profileUpdates) keep(open map[profileSeries]bool) map[profileSeries]uint64 {
	u.mu.Lock()
	defer u.mu.Unlock()
	maps.DeleteFunc(u.by, func(s profileSeries, _ uint64) bool { return !open[s] })
	return maps.Clone(u.by)
}

// countProfile counts a change of a profile that streams see.
func (s *Server) countProfile(k federation.ProfileKey, p *federation.Profile) {
	of, ok := s.profileSeriesOf(k, p)
	if !ok {
		s.metrics.workloadUpdates.Inc()
		return
	}
	for _, series := range of {
		s.metrics.profileUpdates.inc(series)
	}
}

// profileSeriesOf returns the series that streams of a key count for; ok is false for those of an
// endpoint. A ServiceProfile in the client's namespace takes precedence over one in the service's
// own namespace: they count for both.
func (s *Server) profileSeriesOf(k federation.ProfileKey, p *federation.Profile) (list []profileSeries, ok bool) {
	to, ok := serviceOf(k, p)
	if !ok {
		return nil, false
	}
	host := to.host(s.opts.ClusterDomain)
	list = append(list, profileSeries{to.service.Namespace, host})
	if k.Namespace != "" && k.Namespace != to.service.Namespace {
		list = append(list, profileSeries{k.Namespace, host})
	}
	return list, true
}

var profileUpdatesDesc = prometheus.NewDesc("profile_updates", "How often the profile that such streams see has changed.", []string{"namespace", "profile"}, nil)

func (s *Server) collectProfiles(ch chan<- prometheus.Metric) {
	profiles := gauges("profile_subscribers", "GetProfile streams that a ServiceProfile of this name applies to, if it exists.", "namespace", "profile")
	services := gauges("service_subscribers", "GetProfile streams of a Service.", "namespace", "name")
	workloads := gauges("workload_subscribers", "GetProfile streams of an endpoint, or of an address whose owner is not known.")
	workloads.WithLabelValues()
	open := make(map[profileSeries]bool)
	for _, u := range s.profileViews.uses() {
		if u.streams == 0 {
			continue
		}
		streams := float64(u.streams)
		of, ok := s.profileSeriesOf(u.key, u.newest)
		if !ok {
			workloads.WithLabelValues().Add(streams)
			continue
		}
		to, _ := serviceOf(u.key, u.newest)
		services.WithLabelValues(to.service.Namespace, to.service.Name).Add(streams)
		for _, one := range of {
			open[one] = true
			profiles.WithLabelValues(one.namespace, one.profile).Add(streams)
		}
	}
	updates := s.metrics.profileUpdates.keep(open)
	for one := range open {
		ch <- prometheus.MustNewConstMetric(profileUpdatesDesc, prometheus.CounterValue, float64(updates[one]), one.namespace, one.profile)
	}
	profiles.Collect(ch)
	services.Collect(ch)
	workloads.Collect(ch)
}
