package grpcapi

import (
	"strconv"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"isthmus/federation"
)

// census counts, when scraped, what is open: so that series come and go with the
// streams that they are about, and streams pay nothing for them.
type census struct {
	server *Server

	subscribers, updates, pods, exists     *prometheus.Desc // of a member of a service
	profileSubscribers, profileUpdates     *prometheus.Desc
	serviceSubscribers                     *prometheus.Desc
	workloadSubscribers, workloadUpdates   *prometheus.Desc
	streams, views, evicted, endpointsSent *prometheus.Desc

	mu        sync.Mutex // held for a scrape
	endpoints tally[memberSeries, memberSource]
	profiles  tally[profileSeries, federation.ProfileKey]
}

func newCensus(s *Server) *census {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, labels, nil)
	}
	member := []string{"cluster", "namespace", "service", "port", "hostname", "nodename"}
	profile := []string{"namespace", "profile"}
	return &census{
		server:              s,
		subscribers:         desc("endpoints_subscribers", "Get streams that a Service's endpoints go to.", member...),
		updates:             desc("endpoints_updates", "How often a Service's endpoints have changed while there were Get streams.", member...),
		pods:                desc("endpoints_pods", "Endpoints of a Service that a Get stream is sent; the most, if that depends on the client's zone.", member...),
		exists:              desc("endpoints_exists", "1 if a Service that Get streams are about exists in its cluster.", member...),
		profileSubscribers:  desc("profile_subscribers", "GetProfile streams that a ServiceProfile counts for, if there is one.", profile...),
		profileUpdates:      desc("profile_updates", "How often the profile that such streams see has changed.", profile...),
		serviceSubscribers:  desc("service_subscribers", "GetProfile streams of a Service.", "namespace", "name"),
		workloadSubscribers: desc("workload_subscribers", "GetProfile streams of an endpoint, or of an address that nobody is known to have."),
		workloadUpdates:     desc("workload_updates", "How often the profiles that such streams see have changed."),
		streams:             desc("isthmus_streams", "Open Get and GetProfile streams."),
		views: desc("isthmus_views", "What streams share: open while a stream uses it, warm while it is kept for the next one.",
			"grpc_method", "state"),
		evicted:       desc("isthmus_views_evicted_total", "Warm views that were given up to make room.", "grpc_method"),
		endpointsSent: desc("isthmus_endpoints_sent", "Endpoints that open Get streams are to have by now, each once for every stream.", "cluster"),
	}
}

// Describe implements prometheus.Collector.
func (c *census) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		c.subscribers, c.updates, c.pods, c.exists, c.profileSubscribers, c.profileUpdates, c.serviceSubscribers,
		c.workloadSubscribers, c.workloadUpdates, c.streams, c.views, c.evicted, c.endpointsSent,
	} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c *census) Collect(ch chan<- prometheus.Metric) {
	c.mu.Lock()
	defer c.mu.Unlock()
	to := results{ch}
	to.gauge(c.streams, c.server.Streams())
	for method, views := range map[string]interface {
		count() (all, idle int)
		evictions() uint64
	}{"Get": c.server.sets, "GetProfile": c.server.profiles} {
		all, idle := views.count()
		to.gauge(c.views, all-idle, method, "open")
		to.gauge(c.views, idle, method, "warm")
		to.counter(c.evicted, views.evictions(), method)
	}
	c.collectEndpoints(to)
	c.collectProfiles(to)
}

// results takes series.
type results struct{ ch chan<- prometheus.Metric }

func (r results) gauge(d *prometheus.Desc, n int, labels ...string) {
	r.ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(n), labels...)
}

func (r results) counter(d *prometheus.Desc, n uint64, labels ...string) {
	r.ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), labels...)
}

// memberSeries are the labels of what is told about one cluster's part of a
// service, as one kind of client sees it.
type memberSeries struct {
	member         federation.Member
	port           uint16
	hostname, node string
}

// memberSource is what a series' updates come from: the same member may be in
// several services. All zones of one of those see the same updates.
type memberSource struct {
	series  memberSeries
	service federation.ServiceID
}

type memberCount struct {
	subscribers, pods int
	exists            bool
}

func (c *census) collectEndpoints(to results) {
	watched := make(map[federation.Key]federation.WatchedPort)
	for _, w := range c.server.table.Watched() {
		watched[federation.Key{Service: w.Service, Port: w.Port}] = w
	}
	sent := make(map[federation.ClusterName]int)
	for cluster := range c.server.table.Linked() {
		sent[cluster] = 0
	}
	counts, updates := make(map[memberSeries]*memberCount), c.endpoints.begin()
	for _, u := range c.server.sets.list() {
		if u.streams == 0 {
			continue
		}
		byCluster := countByCluster(u.newest.Endpoints)
		for cluster, n := range byCluster {
			sent[cluster] += n * u.streams
		}
		parts := watched[federation.Key{Service: u.key.Service, Port: u.key.Port}].Members
		if len(parts) == 0 { // not defined: as in the cluster that would define it
			parts = []federation.WatchedMember{{Member: federation.Member{Service: u.key.Service}, Status: federation.MemberStatus{Link: federation.Ready}}}
		}
		for _, p := range parts {
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
			m.pods = max(m.pods, shareOf(p, parts, byCluster))
			m.exists = p.Status.Serving()
			updates.add(s, updates.rise(memberSource{s, u.key.Service}, p.Updates, p.Updates))
		}
	}
	totals := updates.end()
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

// seriesOf is where a view counts. One that shows nothing may be of a hostname or
// a node that somebody made up: it makes no series of its own.
func seriesOf(m federation.Member, u use[federation.Key, *federation.Set]) memberSeries {
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

// shareOf is how many of the endpoints are the member's. Where a cluster has
// several members of one service, that is what the member has on offer.
func shareOf(p federation.WatchedMember, all []federation.WatchedMember, byCluster map[federation.ClusterName]int) int {
	for _, other := range all {
		if other.Member.Cluster == p.Member.Cluster && other.Member != p.Member {
			return p.Offered
		}
	}
	return byCluster[p.Member.Cluster]
}
