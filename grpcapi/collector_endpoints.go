package grpcapi

import (
	"strconv"

	"isthmus/federation"
)

// memberSeries are the labels of the series about one member of a service, as one kind
// of client sees it.
type memberSeries struct {
	member         federation.Member
	port           uint16
	hostname, node string
}

// memberOrigin identifies a source of a series' updates. A member may be in several
// services, each of which counts its updates. Views of the same service that differ
// in the zone only have the same updates.
type memberOrigin struct {
	series  memberSeries
	service federation.ServiceID
}

type memberCount struct {
	subscribers, pods int
	exists            bool
}

func (c *collector) collectEndpoints(to results) {
	watched := make(map[federation.Key]federation.WatchedPort)
	for _, w := range c.server.table.Watched() {
		watched[federation.Key{Service: w.Service, Port: w.Port}] = w
	}
	sent := make(map[federation.ClusterName]int)
	for cluster := range c.server.table.Linked() {
		sent[cluster] = 0
	}
	counts, updates := make(map[memberSeries]*memberCount), c.endpoints.startScrape()
	for _, u := range c.server.getViews.uses() {
		if u.streams == 0 {
			continue
		}
		byCluster := countByCluster(u.newest.Endpoints)
		for cluster, n := range byCluster {
			sent[cluster] += n * u.streams
		}
		members := watched[federation.Key{Service: u.key.Service, Port: u.key.Port}].Members
		if len(members) == 0 { // not defined: counted for the local cluster
			members = []federation.WatchedMember{{Member: federation.Member{Service: u.key.Service}, Status: federation.MemberStatus{Link: federation.Ready}}}
		}
		for _, p := range members {
			if p.Status.Link == federation.Unlinked {
				continue
			}
			s := seriesOf(p.Member, u)
			m := counts[s]
			if m == nil {
				m = &memberCount{}
				counts[s] = m
			}
			m.subscribers += u.streams
			m.pods = max(m.pods, shareOf(p, members, byCluster))
			m.exists = p.Status.Serving()
			updates.add(s, updates.increase(memberOrigin{s, u.key.Service}, p.Updates, p.Updates))
		}
	}
	totals := updates.finish()
	for s, m := range counts {
		labels := []string{s.member.Cluster.String(), s.member.Service.Namespace, s.member.Service.Name, strconv.Itoa(int(s.port)), s.hostname, s.node}
		exists := 0
		if m.exists {
			exists = 1
		}
		to.gauge(c.subscribers, m.subscribers, labels...)
		to.counter(c.updates, totals[s], labels...)
		to.gauge(c.pods, m.pods, labels...)
		to.gauge(c.exists, exists, labels...)
	}
	for cluster, n := range sent {
		to.gauge(c.endpointsSent, n, cluster.String())
	}
}

// seriesOf returns the series that a view counts for. A view without endpoints counts
// without its hostname and node: clients can make up any number of them.
func seriesOf(m federation.Member, u viewUse[federation.Key, *federation.Set]) memberSeries {
	if len(u.newest.Endpoints) == 0 {
		return memberSeries{member: m, port: u.key.Port}
	}
	return memberSeries{m, u.key.Port, u.key.Client.Instance, u.key.Client.Node}
}

func countByCluster(list []*federation.Endpoint) map[federation.ClusterName]int {
	counts := make(map[federation.ClusterName]int)
	for _, e := range list {
		counts[e.Cluster]++
	}
	return counts
}

// shareOf returns how many of a view's endpoints are the member's. If its cluster has
// several members of the service, it returns how many the member offers.
func shareOf(p federation.WatchedMember, all []federation.WatchedMember, byCluster map[federation.ClusterName]int) int {
	for _, other := range all {
		if other.Member.Cluster == p.Member.Cluster && other.Member != p.Member {
			return p.Offered
		}
	}
	return byCluster[p.Member.Cluster]
}
