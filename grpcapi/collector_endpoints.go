package grpcapi

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"isthmus/federation"
)

// endpointsScrape is one scrape of the series about endpoints.
type endpointsScrape struct {
	counts    map[memberSeries]memberCount
	sent      map[federation.ClusterName]int
	byCluster map[federation.ClusterName]int // of one view's endpoints
}

// getUse is the use of a view of Get streams.
type getUse = viewUse[federation.Key, *federation.Set]

func (s *Server) collectEndpoints(ch chan<- prometheus.Metric) {
	x := endpointsScrape{
		counts: make(map[memberSeries]memberCount),
		sent:   make(map[federation.ClusterName]int), byCluster: make(map[federation.ClusterName]int),
	}
	for cluster := range s.table.Linked() {
		x.sent[cluster] = 0
	}
	type servicePort struct {
		federation.ServiceID
		port uint16
	}
	views := make(map[servicePort][]getUse) // that have streams
	for _, u := range s.getViews.uses() {
		if k := (servicePort{u.key.Service, u.key.Port}); u.streams > 0 {
			views[k] = append(views[k], u)
		}
	}
	for w := range s.table.EachWatched() {
		k := servicePort{w.Service, w.Port}
		if len(w.Members) == 0 {
			continue
		}
		for i := range views[k] {
			x.count(&views[k][i], w.Members)
		}
		delete(views, k)
	}
	for k, left := range views { // which are not defined: counted for the local cluster
		for i := range left {
			x.count(&left[i], []federation.WatchedMember{{Member: federation.Member{Service: k.ServiceID}, Status: federation.MemberStatus{Link: federation.Ready}}})
		}
	}
	sendMembers(ch, x.counts)
	sent := gauges("isthmus_endpoints_sent", "Endpoints that open Get streams should have by now, counted once for every stream.", "cluster")
	for cluster, n := range x.sent {
		sent.WithLabelValues(cluster.String()).Set(float64(n))
	}
	sent.Collect(ch)
}

// count counts a view, whose members these are.
func (x *endpointsScrape) count(u *getUse, members []federation.WatchedMember) {
	clear(x.byCluster)
	for _, e := range u.newest.Endpoints {
		x.byCluster[e.Cluster]++
	}
	for cluster, n := range x.byCluster {
		x.sent[cluster] += n * u.streams
	}
	for i := range members {
		p := &members[i]
		if p.Status.Link == federation.Unlinked {
			continue
		}
		s := seriesOf(p.Member, u)
		m := x.counts[s]
		m.subscribers += u.streams
		m.pods = max(m.pods, shareOf(p, members, x.byCluster))
		m.exists, m.updates = p.Status.Serving(), p.Total
		x.counts[s] = m
	}
}

// seriesOf returns the series that a view counts for. A view without endpoints counts without its
// hostname and node. A view without endpoints on its node counts without the node, because clients
// can make up any number of hostnames and nodes. Views of node hints also count without node: a
// Service with a Pod on each of thousands of nodes would have as many series. Views of undeclared
// ports count for port 0.
func seriesOf(m federation.Member, u *getUse) memberSeries {
	port := u.key.Port
	if u.newest.Undeclared {
		port = 0
	}
	if len(u.newest.Endpoints) == 0 {
		return memberSeries{member: m, port: port}
	}
	node := u.key.Client.Node
	onNode := func(e *federation.Endpoint) bool { return e.Node == node }
	if !u.newest.ByNode || !slices.ContainsFunc(u.newest.Endpoints, onNode) {
		node = ""
	}
	return memberSeries{m, port, u.key.Client.Instance, node}
}

// shareOf returns how many of a view's endpoints are the member's. If its cluster has
// several members of the service, it returns how many the member offers.
func shareOf(p *federation.WatchedMember, all []federation.WatchedMember, byCluster map[federation.ClusterName]int) int {
	for i := range all {
		if other := &all[i]; other.Member.Cluster == p.Member.Cluster && other.Member != p.Member {
			return p.Offered
		}
	}
	return byCluster[p.Member.Cluster]
}
