package grpcapi

import (
	"cmp"
	"iter"
	"slices"
	"strconv"

	dto "github.com/prometheus/client_model/go"

	"isthmus/federation"
)

// memberSeries are the labels of the series about one member of a service, as one kind
// of client sees it.
type memberSeries struct {
	member         federation.Member
	port           uint16
	hostname, node string
}

type memberCount struct {
	subscribers, pods int
	updates           uint64 // in all services that have the member
	exists            bool
}

// endpointsScrape is one scrape of the series about endpoints.
type endpointsScrape struct {
	counts    map[memberSeries]memberCount
	sent      map[federation.ClusterName]int
	byCluster map[federation.ClusterName]int // of one view's endpoints
}

func (c *collector) collectEndpoints(to results) {
	x := endpointsScrape{
		counts: make(map[memberSeries]memberCount),
		sent:   make(map[federation.ClusterName]int), byCluster: make(map[federation.ClusterName]int),
	}
	for cluster := range c.server.table.Linked() {
		x.sent[cluster] = 0
	}
	views := openViews(c.server.getViews.uses())
	for w := range c.server.table.EachWatched() {
		if len(w.Members) == 0 {
			continue
		}
		for u := range views.take(federation.Key{Service: w.Service, Port: w.Port}) {
			x.count(u, w.Members)
		}
	}
	for i := range views { // those that are left are not defined: counted for the local cluster
		if u := &views[i]; u.streams > 0 {
			x.count(u, []federation.WatchedMember{{Member: federation.Member{Service: u.key.Service}, Status: federation.MemberStatus{Link: federation.Ready}}})
		}
	}
	c.sendMembers(to, x.counts)
	for cluster, n := range x.sent {
		to.gauge(c.endpointsSent, n, cluster.String())
	}
}

// getUses are the views of Get streams, sorted by service and port.
type getUses []viewUse[federation.Key, *federation.Set]

// openViews returns those of the views that have streams.
func openViews(all getUses) getUses {
	open := slices.DeleteFunc(all, func(u viewUse[federation.Key, *federation.Set]) bool { return u.streams == 0 })
	slices.SortFunc(open, func(a, b viewUse[federation.Key, *federation.Set]) int { return comparePorts(a.key, b.key) })
	return open
}

// take yields the views of that service and port, and leaves them without streams.
func (list getUses) take(k federation.Key) iter.Seq[*viewUse[federation.Key, *federation.Set]] {
	return func(yield func(*viewUse[federation.Key, *federation.Set]) bool) {
		i, _ := slices.BinarySearchFunc(list, k, func(u viewUse[federation.Key, *federation.Set], k federation.Key) int { return comparePorts(u.key, k) })
		for ; i < len(list) && comparePorts(list[i].key, k) == 0; i++ {
			if !yield(&list[i]) {
				return
			}
			list[i].streams = 0
		}
	}
}

func comparePorts(a, b federation.Key) int {
	return cmp.Or(cmp.Compare(a.Service.Namespace, b.Service.Namespace), cmp.Compare(a.Service.Name, b.Service.Name), cmp.Compare(a.Port, b.Port))
}

// count counts a view, whose members these are.
func (x *endpointsScrape) count(u *viewUse[federation.Key, *federation.Set], members []federation.WatchedMember) {
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

// sendMembers sends the series about members.
func (c *collector) sendMembers(to results, counts map[memberSeries]memberCount) {
	all := make(labelPairs)
	for s, m := range counts {
		labels := []*dto.LabelPair{
			all.pair("cluster", s.member.Cluster.String()), all.pair("hostname", s.hostname), all.pair("namespace", s.member.Service.Namespace),
			all.pair("nodename", s.node), all.pair("port", strconv.Itoa(int(s.port))), all.pair("service", s.member.Service.Name),
		}
		exists := 0.0
		if m.exists {
			exists = 1
		}
		to.ch <- &constSeries{c.subscribers, labels, float64(m.subscribers), writeGauge}
		to.ch <- &constSeries{c.updates, labels, float64(m.updates), writeCounter}
		to.ch <- &constSeries{c.pods, labels, float64(m.pods), writeGauge}
		to.ch <- &constSeries{c.exists, labels, exists, writeGauge}
	}
}

// seriesOf returns the series that a view counts for. A view without endpoints counts
// without its hostname and node, and one without endpoints on its node without that: clients can make up any number of them.
func seriesOf(m federation.Member, u *viewUse[federation.Key, *federation.Set]) memberSeries {
	if len(u.newest.Endpoints) == 0 {
		return memberSeries{member: m, port: u.key.Port}
	}
	node := u.key.Client.Node
	if node != "" && !slices.ContainsFunc(u.newest.Endpoints, func(e *federation.Endpoint) bool { return e.Node == node }) {
		node = ""
	}
	return memberSeries{m, u.key.Port, u.key.Client.Instance, node}
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
