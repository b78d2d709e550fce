package grpcapi

import (
	"slices"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"isthmus/federation"
)

// scraped is a prometheus.Collector that computes its series on each scrape. The series describe
// open streams and views, and disappear with them.
type scraped func(chan<- prometheus.Metric)

// Describe implements prometheus.Collector. Because Describe sends no descriptors, Prometheus
// checks the series on each scrape instead of at registration.
func (scraped) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (c scraped) Collect(ch chan<- prometheus.Metric) { c(ch) }

func gauges(name, help string, labels ...string) *prometheus.GaugeVec {
	return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels)
}

var evictedDesc = prometheus.NewDesc("isthmus_views_evicted_total",
	"Number of warm views that were evicted.", []string{"grpc_method"}, nil)

type collector struct{ server *Server }

func (c collector) streams(ch chan<- prometheus.Metric) {
	calls := gauges("isthmus_calls",
		"Number of open calls across all methods, including calls whose request has not arrived yet.")
	calls.WithLabelValues().Set(float64(c.server.openCalls.inUse()))
	calls.Collect(ch)

	streams := gauges("isthmus_streams", "Number of open Get and GetProfile streams.")
	streams.WithLabelValues().Set(float64(c.server.Streams()))
	streams.Collect(ch)

	views := gauges("isthmus_views",
		"Number of endpoint sets and profiles that streams share, by state: open (in use) or warm (cached).",
		"grpc_method", "state")
	for method, of := range map[string]interface {
		count() (all, idle int, evicted uint64)
	}{"Get": c.server.getViews, "GetProfile": c.server.profileViews} {
		all, idle, evicted := of.count()
		views.WithLabelValues(method, "open").Set(float64(all - idle))
		views.WithLabelValues(method, "warm").Set(float64(idle))
		ch <- prometheus.MustNewConstMetric(evictedDesc, prometheus.CounterValue, float64(evicted), method)
	}
	views.Collect(ch)
}

func (c collector) endpoints(ch chan<- prometheus.Metric) {
	x := endpointsScrape{
		counts:    make(map[memberSeries]memberCount),
		sent:      make(map[federation.ClusterName]int),
		byCluster: make(map[federation.ClusterName]int),
	}
	for cluster := range c.server.table.Linked() {
		x.sent[cluster] = 0
	}
	views := c.openViews()
	for w := range c.server.table.EachWatched() {
		k := servicePort{w.Service, w.Port}
		if len(w.Members) == 0 {
			continue
		}
		for i := range views[k] {
			x.count(&views[k][i], w.Members)
		}
		delete(views, k)
	}
	for k, left := range views { // count services that are not defined for the local cluster
		local := []federation.WatchedMember{{
			Member: federation.Member{Service: k.service},
			Status: federation.MemberStatus{Link: federation.Ready},
		}}
		for i := range left {
			x.count(&left[i], local)
		}
	}
	sendMembers(ch, x.counts)

	sent := gauges("isthmus_endpoints_sent",
		"Number of endpoints in the latest endpoint set of each open Get stream, summed over all streams.", "cluster")
	for cluster, n := range x.sent {
		sent.WithLabelValues(cluster.String()).Set(float64(n))
	}
	sent.Collect(ch)
}

type servicePort struct {
	service federation.ServiceID
	port    uint16
}

func (c collector) openViews() map[servicePort][]getUse {
	views := make(map[servicePort][]getUse)
	for _, u := range c.server.getViews.uses() {
		k := servicePort{u.key.Service, u.key.Port}
		if u.streams > 0 {
			views[k] = append(views[k], u)
		}
	}
	return views
}

func (c collector) profiles(ch chan<- prometheus.Metric) {
	profiles := gauges("profile_subscribers",
		"Number of GetProfile streams that use this ServiceProfile, or would use it if it existed.",
		"namespace", "profile")
	services := gauges("service_subscribers", "Number of GetProfile streams for the Service.", "namespace", "name")
	workloads := gauges("workload_subscribers",
		"Number of GetProfile streams for addresses that belong to an endpoint or to no known object.")
	workloads.WithLabelValues()
	open := make(map[profileSeries]bool)
	for _, u := range c.server.profileViews.uses() {
		if u.streams == 0 {
			continue
		}
		streams := float64(u.streams)
		of, ok := profileSeriesOf(u.key, u.newest, c.server.opts.ClusterDomain)
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
	updates := c.server.metrics.profileUpdates.keep(open)
	for one := range open {
		ch <- prometheus.MustNewConstMetric(profileUpdatesDesc, prometheus.CounterValue,
			float64(updates[one]), one.namespace, one.profile)
	}
	profiles.Collect(ch)
	services.Collect(ch)
	workloads.Collect(ch)
}

// openGets yields the authority of each view that has open Get streams and at least one endpoint.
// Views of undeclared ports are skipped.
func (c collector) openGets(yield func([]string) bool) {
	for _, u := range c.server.getViews.uses() {
		if u.streams == 0 || len(u.newest.Endpoints) == 0 || u.newest.Undeclared {
			continue
		}
		name := target{u.key.Service, u.key.Client.Instance, u.key.Port}
		if !yield([]string{name.authority(c.server.opts.ClusterDomain)}) {
			return
		}
	}
}

func (c collector) openProfiles(yield func([]string) bool) {
	for _, u := range c.server.profileViews.uses() {
		to, ok := serviceOf(u.key, u.newest)
		if !ok || u.streams == 0 || u.newest.Reason != federation.Resolved {
			continue
		}
		if !yield([]string{to.host(c.server.opts.ClusterDomain), strconv.Itoa(int(to.port))}) {
			return
		}
	}
}

// memberLabels contains the label names of the series that describe a member of a service.
var memberLabels = []string{"cluster", "namespace", "service", "port", "hostname", "nodename"}

var (
	subscribersDesc = prometheus.NewDesc("endpoints_subscribers",
		"Number of Get streams that receive the Service's endpoints.", memberLabels, nil)
	updatesDesc = prometheus.NewDesc("endpoints_updates",
		"Number of changes to the Service's endpoints while at least one Get stream was open for the Service.",
		memberLabels, nil)
	podsDesc = prometheus.NewDesc("endpoints_pods",
		"Number of the Service's endpoints that each Get stream receives. "+
			"If the number depends on the client's zone or node, the largest number is reported.", memberLabels, nil)
	existsDesc = prometheus.NewDesc("endpoints_exists",
		"1 if the Service exists in its cluster, and 0 if it does not exist.", memberLabels, nil)
)

type memberSeries struct {
	member         federation.Member
	port           uint16
	hostname, node string
}

type memberCount struct {
	subscribers, pods int
	updates           uint64 // summed over all services with the member
	exists            bool
}

// sendMembers sends the series that describe members. To save memory, series share their label
// pairs, which prometheus.NewConstMetric would allocate separately.
func sendMembers(ch chan<- prometheus.Metric, counts map[memberSeries]memberCount) {
	pairs := make(map[[2]string]*dto.LabelPair) // each label pair once
	pair := func(name, value string) *dto.LabelPair {
		p := pairs[[2]string{name, value}]
		if p == nil {
			p = &dto.LabelPair{Name: &name, Value: &value}
			pairs[[2]string{name, value}] = p
		}
		return p
	}
	for s, m := range counts {
		labels := []*dto.LabelPair{
			pair("cluster", s.member.Cluster.String()),
			pair("hostname", s.hostname),
			pair("namespace", s.member.Service.Namespace),
			pair("nodename", s.node),
			pair("port", strconv.Itoa(int(s.port))),
			pair("service", s.member.Service.Name),
		}
		exists := 0.0
		if m.exists {
			exists = 1
		}
		ch <- &constSeries{subscribersDesc, labels, float64(m.subscribers), false}
		ch <- &constSeries{updatesDesc, labels, float64(m.updates), true}
		ch <- &constSeries{podsDesc, labels, float64(m.pods), false}
		ch <- &constSeries{existsDesc, labels, exists, false}
	}
}

type constSeries struct {
	desc    *prometheus.Desc
	labels  []*dto.LabelPair // sorted by name; must not be modified
	value   float64
	counter bool // whether the series is a counter rather than a gauge
}

// Desc implements prometheus.Metric.
func (s *constSeries) Desc() *prometheus.Desc { return s.desc }

// Write implements prometheus.Metric.
func (s *constSeries) Write(to *dto.Metric) error {
	to.Label = s.labels
	if s.counter {
		to.Counter = &dto.Counter{Value: &s.value}
	} else {
		to.Gauge = &dto.Gauge{Value: &s.value}
	}
	return nil
}

type endpointsScrape struct {
	counts    map[memberSeries]memberCount
	sent      map[federation.ClusterName]int
	byCluster map[federation.ClusterName]int // endpoints of the current view
}

type getUse = viewUse[federation.Key, *federation.Set]

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
		m.exists = p.Status.Serving()
		m.updates = p.Total
		x.counts[s] = m
	}
}

// A view is counted in one series per member of its service. seriesOf returns the labels of the
// series for the given member. Clients can invent any number of hostnames and nodes. To limit the
// number of series, seriesOf leaves some labels empty:
//
//   - If a view has no endpoints, the labels hostname and nodename are empty.
//   - If none of a view's endpoints are on the node in the view's key, the label nodename is empty.
//   - If node hints determine the endpoints of a view, the label nodename is empty. With thousands
//     of nodes, one series per node would use too much memory.
//
// Views of undeclared ports are counted under port 0.
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

// shareOf returns how many of a view's endpoints belong to member p. If another member is in the
// same cluster, shareOf cannot tell the members' endpoints apart, and returns the number of
// endpoints that p offers.
func shareOf(
	p *federation.WatchedMember,
	all []federation.WatchedMember,
	byCluster map[federation.ClusterName]int,
) int {
	for i := range all {
		other := &all[i]
		if other.Member.Cluster == p.Member.Cluster && other.Member != p.Member {
			return p.Offered
		}
	}
	return byCluster[p.Member.Cluster]
}

type profileSeries struct{ namespace, profile string }

// profileSeriesOf returns the series in which streams with the given key are counted. A stream is
// counted once for each namespace in which its ServiceProfile may be defined: the namespace of the
// client, and the namespace of the service. A ServiceProfile in the client's namespace takes
// precedence. If the key identifies an endpoint, ok is false.
func profileSeriesOf(k federation.ProfileKey, p *federation.Profile, domain string) (list []profileSeries, ok bool) {
	to, ok := serviceOf(k, p)
	if !ok {
		return nil, false
	}
	host := to.host(domain)
	list = append(list, profileSeries{to.service.Namespace, host})
	if k.Namespace != "" && k.Namespace != to.service.Namespace {
		list = append(list, profileSeries{k.Namespace, host})
	}
	return list, true
}

var profileUpdatesDesc = prometheus.NewDesc("profile_updates",
	"Number of changes to the ServiceProfile while at least one GetProfile stream used it.",
	[]string{"namespace", "profile"}, nil)
