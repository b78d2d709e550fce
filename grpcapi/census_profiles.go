package grpcapi

import "isthmus/federation"

// profileSeries are the labels of what is told about a ServiceProfile.
type profileSeries struct{ namespace, profile string }

// profileSource is what a profile's updates come from.
type profileSource struct {
	key       federation.ProfileKey
	namespace string
}

func (c *census) collectProfiles(to results) {
	profiles, services, workloads := make(map[profileSeries]int), make(map[federation.ServiceID]int), 0
	updates, workloadUpdates := c.profiles.begin(), c.workloads.begin()
	workloadUpdates.add(struct{}{}, federation.ProfileKey{}, 0, 0) // so that the series never goes
	for _, u := range c.server.profiles.list() {
		if u.streams == 0 {
			continue
		}
		service, ok := serviceOf(u.key, u.newest)
		if !ok {
			workloads += u.streams
			workloadUpdates.add(struct{}{}, u.key, u.updates, 0)
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
			updates.add(s, profileSource{u.key, namespace}, u.updates, 0)
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
	to.counter(c.workloadUpdates, workloadUpdates.end()[struct{}{}])
}
