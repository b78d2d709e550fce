package main

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"isthmus/federation"
)

// federationMetrics collects the members and endpoints of services when scraped. A
// cluster that is not linked has an empty label: annotations may name any number.
type federationMetrics struct {
	table     *federation.Table
	byService bool

	members, unavailable, offered, yielded, refused *prometheus.Desc
	serviceMember, serviceOffered                   *prometheus.Desc // with byService only
}

func newFederationMetrics(t *federation.Table, byService bool) *federationMetrics {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, labels, nil)
	}
	return &federationMetrics{
		table: t, byService: byService,
		members: desc("isthmus_members",
			"Members of federated and mirrored services, by cluster; empty: it is not linked.", "cluster"),
		unavailable: desc("isthmus_member_unavailable",
			"Members of those that contribute nothing; /debug/clusters shows the reason.", "cluster"),
		offered: desc("isthmus_endpoints_offered",
			"Endpoints that clusters offer of the service ports that proxies watch.", "cluster"),
		yielded: desc("isthmus_address_conflicts",
			"Offered addresses that are sent from another member of the service.", "cluster"),
		refused: desc("isthmus_endpoints_refused",
			"Offered endpoints that are not taken from a linked cluster, by reason: outside its address ranges, or at an address of the local cluster. "+
				"/debug/clusters has examples.", "cluster", "reason"),
		serviceMember: desc("isthmus_service_member",
			"1 for a member of a federated or mirrored service that serves, 0 for one that does not.", "namespace", "service", "cluster", "member"),
		serviceOffered: desc("isthmus_service_endpoints_offered",
			"Endpoints that a cluster offers of a service port that proxies watch.", "namespace", "service", "port", "cluster", "member"),
	}
}

// Describe implements prometheus.Collector. It describes nothing: that is checked when metrics are read.
func (m *federationMetrics) Describe(chan<- *prometheus.Desc) {}

func (m *federationMetrics) Collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	linked := m.table.Linked()
	m.collectMembers(linked, gauge)
	m.collectWatched(linked, gauge)
}

// gaugeFunc exports one series.
type gaugeFunc func(d *prometheus.Desc, v float64, labels ...string)

// collectMembers collects the members of all services, watched or not.
func (m *federationMetrics) collectMembers(linked map[federation.ClusterName]federation.LinkState, gauge gaugeFunc) {
	type key struct {
		service federation.ServiceID
		member  federation.Member
	}
	faulty := make(map[key]bool)
	for _, u := range m.table.Unserved() {
		faulty[key{u.Service, u.Member}] = true
	}
	members, unavailable := perCluster(linked), perCluster(linked)
	for id, d := range m.table.Definitions() {
		for _, member := range d.Members {
			if !d.Federated && member.Cluster == federation.Local {
				continue // a plain Service: it is its own only member
			}
			cluster := ""
			if linked[member.Cluster] != federation.Unlinked {
				cluster = member.Cluster.String()
			}
			members[cluster]++
			serving := 1
			if faulty[key{id, member}] {
				unavailable[cluster]++
				serving = 0
			}
			if m.byService {
				gauge(m.serviceMember, float64(serving), id.Namespace, id.Name, member.Cluster.String(), member.Service.String())
			}
		}
	}
	each(m.members, members, gauge)
	each(m.unavailable, unavailable, gauge)
}

// collectWatched collects the endpoints of the service ports that proxies watch.
func (m *federationMetrics) collectWatched(linked map[federation.ClusterName]federation.LinkState, gauge gaugeFunc) {
	offered, yielded := perCluster(linked), perCluster(linked)
	outside, owned := perCluster(linked), perCluster(linked)
	for w := range m.table.EachWatched() {
		for _, p := range w.Members {
			if p.Status.Link == federation.Unlinked {
				continue
			}
			cluster := p.Member.Cluster.String()
			offered[cluster] += p.Offered
			yielded[cluster] += p.Yielded
			outside[cluster] += p.Refused.Outside
			owned[cluster] += p.Refused.Owned
			if m.byService {
				gauge(m.serviceOffered, float64(p.Offered), w.Service.Namespace, w.Service.Name, strconv.Itoa(int(w.Port)), cluster, p.Member.Service.String())
			}
		}
	}
	each(m.offered, offered, gauge)
	each(m.yielded, yielded, gauge)
	delete(outside, federation.Local.String()) // nothing of it is refused
	delete(owned, federation.Local.String())
	each(m.refused, outside, gauge, "ranges")
	each(m.refused, owned, gauge, "local")
}

func each(d *prometheus.Desc, counts map[string]int, gauge gaugeFunc, labels ...string) {
	for cluster, n := range counts {
		gauge(d, float64(n), append([]string{cluster}, labels...)...)
	}
}

// perCluster returns a count of 0 for each cluster that is linked.
func perCluster(linked map[federation.ClusterName]federation.LinkState) map[string]int {
	counts := make(map[string]int, len(linked))
	for c := range linked {
		counts[c.String()] = 0
	}
	return counts
}
