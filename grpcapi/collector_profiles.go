package grpcapi

import "isthmus/federation"

// profileSeries are the labels of the series about a ServiceProfile. The zero value
// is for the profiles of all workloads.
type profileSeries struct{ namespace, profile string }

func (c *collector) collectProfiles(to results) {
	profiles, services, workloads := make(map[profileSeries]int), make(map[federation.ServiceID]int), 0
	updates := &c.profiles
	updates.startScrape()
	updates.add(profileSeries{}, 0) // so that this series never ends
	for _, u := range c.server.profileViews.uses() {
		n := updates.increase(u.key, u.updates, 0) // of an idle view too, which may be used again
		if u.streams == 0 {
			continue
		}
		service, ok := serviceOf(u.key, u.newest)
		if !ok {
			workloads += u.streams
			updates.add(profileSeries{}, n)
			continue
		}
		services[service.service] += u.streams
		// A ServiceProfile in the client's namespace takes precedence over one in the
		// service's own namespace: the stream counts for both.
		namespaces := []string{service.service.Namespace}
		if u.key.Namespace != "" && u.key.Namespace != namespaces[0] {
			namespaces = append(namespaces, u.key.Namespace)
		}
		for _, namespace := range namespaces {
			s := profileSeries{namespace, service.host(c.server.opts.ClusterDomain)}
			profiles[s] += u.streams
			updates.add(s, n)
		}
	}
	updates.finish()
	for s, n := range profiles {
		to.gauge(c.profileSubscribers, n, s.namespace, s.profile)
		to.counter(c.profileUpdates, updates.total(s), s.namespace, s.profile)
	}
	for service, n := range services {
		to.gauge(c.serviceSubscribers, n, service.Namespace, service.Name)
	}
	to.gauge(c.workloadSubscribers, workloads)
	to.counter(c.workloadUpdates, updates.total(profileSeries{}))
}
