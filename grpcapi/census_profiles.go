package grpcapi

import "isthmus/federation"

// profileSeries are the labels of what is told about a ServiceProfile. The zero
// value stands for all workloads.
type profileSeries struct{ namespace, profile string }

func (c *census) collectProfiles(to results) {
	profiles, services, workloads := make(map[profileSeries]int), make(map[federation.ServiceID]int), 0
	updates := c.profiles.begin()
	updates.add(profileSeries{}, 0) // so that the series never goes
	for _, u := range c.server.profiles.list() {
		rise := updates.rise(u.key, u.updates, 0) // of a warm view too, which may be used again
		if u.streams == 0 {
			continue
		}
		service, ok := serviceOf(u.key, u.newest)
		if !ok {
			workloads += u.streams
			updates.add(profileSeries{}, rise)
			continue
		}
		services[service.service] += u.streams
		// A ServiceProfile in the client's namespace counts before that in the
		// service's own.
		namespaces := []string{service.service.Namespace}
		if u.key.Namespace != "" && u.key.Namespace != namespaces[0] {
			namespaces = append(namespaces, u.key.Namespace)
		}
		for _, namespace := range namespaces {
			s := profileSeries{namespace, service.host(c.server.opts.ClusterDomain)}
			profiles[s] += u.streams
			updates.add(s, rise)
		}
	}
	totals := updates.end()
	for s, n := range profiles {
		to.gauge(c.profileSubscribers, n, s.namespace, s.profile)
		to.counter(c.profileUpdates, totals[s], s.namespace, s.profile)
	}
	for service, n := range services {
		to.gauge(c.serviceSubscribers, n, service.Namespace, service.Name)
	}
	to.gauge(c.workloadSubscribers, workloads)
	to.counter(c.workloadUpdates, totals[profileSeries{}])
}
