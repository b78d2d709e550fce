package grpcapi

import (
	"maps"
	"sync"

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
func (u *profileUpdates) keep(streams map[profileSeries]int) map[profileSeries]uint64 {
	u.mu.Lock()
	defer u.mu.Unlock()
	maps.DeleteFunc(u.by, func(s profileSeries, _ uint64) bool { return streams[s] == 0 })
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

func (c *collector) collectProfiles(to results) {
	profiles, services, workloads := make(map[profileSeries]int), make(map[federation.ServiceID]int), 0
	for _, u := range c.server.profileViews.uses() {
		if u.streams == 0 {
			continue
		}
		of, ok := c.server.profileSeriesOf(u.key, u.newest)
		if !ok {
			workloads += u.streams
			continue
		}
		service, _ := serviceOf(u.key, u.newest)
		services[service.service] += u.streams
		for _, s := range of {
			profiles[s] += u.streams
		}
	}
	updates := c.server.metrics.profileUpdates.keep(profiles)
	for s, n := range profiles {
		to.gauge(c.profileSubscribers, n, s.namespace, s.profile)
		to.counter(c.profileUpdates, updates[s], s.namespace, s.profile)
	}
	for service, n := range services {
		to.gauge(c.serviceSubscribers, n, service.Namespace, service.Name)
	}
	to.gauge(c.workloadSubscribers, workloads)
}
