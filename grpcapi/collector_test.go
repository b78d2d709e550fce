package grpcapi

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"isthmus/federation"
	"isthmus/grpcapi/internal/wiretest"
)

// scrape returns the series whose names begin with one of the prefixes. Each line has the name, the
// label values and the value. The value of a histogram is its count.
func scrape(t *testing.T, r *prometheus.Registry, prefixes ...string) (lines []string) {
	t.Helper()
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if !slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(f.GetName(), p) }) {
			continue
		}
		for _, m := range f.GetMetric() {
			line := f.GetName()
			for _, l := range m.GetLabel() {
				if l.GetValue() != "" {
					line += " " + l.GetName() + "=" + l.GetValue()
				}
			}
			value := m.GetGauge().GetValue() + m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
			lines = append(lines, fmt.Sprint(line, " ", value))
		}
	}
	return lines
}

// noOverflow is a series that exists while GetProfile streams of web are open.
const noOverflow = "profile_updates_queue_overflow fqn=web.shop.svc.cluster.local port=80 0"

// countedWorld is a world with a registry for its metrics.
type countedWorld struct {
	*world
	registry *prometheus.Registry
}

func newCounted(t *testing.T) countedWorld {
	r := prometheus.NewPedanticRegistry()
	return countedWorld{newWorld(t, Options{Pace: -1, Registerer: r}), r}
}

func (w countedWorld) expect(t *testing.T, prefix string, want ...string) {
	t.Helper()
	synctest.Wait()
	if got := scrape(t, w.registry, prefix); !slices.Equal(got, want) {
		t.Errorf("scraped\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}

// TestEndpointsMetrics checks that streams count for each member of their service, with its cluster
// and name, until they end. Streams of several zones share a series. Streams without endpoints
// create no series with their hostname.
func TestEndpointsMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newCounted(t)
		w.define(true, federation.Local, "east", "nowhere")
		local := pods("10.0.0.1:80", "10.0.0.2:80")
		local[0].Hostname = "web-0"
		w.offer("", local...)
		w.offer("east", pods("10.1.0.1:80")...)
		w.nodes.move("n1", "a")
		calls := []*caller{
			w.get(webAddr, ""),
			w.get(webAddr, "n1"),
			w.get("web-0."+webAddr, ""),
			w.get("made-up."+webAddr, ""),
		}
		of := func(cluster, host string, subscribers, pods, updates int) (lines []string) {
			if host != "" {
				host = " hostname=" + host
			}
			labels := " cluster=" + cluster + host + " namespace=shop port=80 service=web "
			return []string{
				fmt.Sprint("endpoints_exists", labels, 1),
				fmt.Sprint("endpoints_pods", labels, pods),
				fmt.Sprint("endpoints_subscribers", labels, subscribers),
				fmt.Sprint("endpoints_updates", labels, updates),
			}
		}
		expect := func(series ...[]string) {
			t.Helper()
			want := slices.Concat(series...)
			slices.Sort(want)
			synctest.Wait()
			got := scrape(t, w.registry, "endpoints_")
			slices.Sort(got)
			if !slices.Equal(got, want) {
				t.Errorf("scraped\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
			}
		}
		expect(
			of("local", "", 3, 2, 0),
			of("local", "web-0", 1, 1, 0),
			of("east", "", 3, 1, 0),
			of("east", "web-0", 1, 0, 0),
		)
		calls[3].hangUp()
		w.offer("east", pods("10.1.0.1:80", "10.1.0.2:80")...)
		expect(
			of("local", "", 2, 2, 0),
			of("local", "web-0", 1, 1, 0),
			of("east", "", 2, 2, 1),
			of("east", "web-0", 1, 0, 1),
		)
		w.expect(t,
			"isthmus_endpoints_sent",
			"isthmus_endpoints_sent cluster=east 4",
			"isthmus_endpoints_sent cluster=local 5",
			"isthmus_endpoints_sent cluster=north 0",
		)
		calls[2].hangUp()
		calls[1].hangUp()
		expect(of("local", "", 1, 2, 0), of("east", "", 1, 2, 1))
		w.expect(t,
			"isthmus_views",
			"isthmus_views grpc_method=Get state=open 1",
			"isthmus_views grpc_method=Get state=warm 2",
			"isthmus_views grpc_method=GetProfile state=open 0",
			"isthmus_views grpc_method=GetProfile state=warm 0",
			"isthmus_views_evicted_total grpc_method=Get 0",
			"isthmus_views_evicted_total grpc_method=GetProfile 0",
		)
		w.table.Define(web, nil)
		w.expect(t, "endpoints_exists", "endpoints_exists cluster=local namespace=shop port=80 service=web 0")
		calls[0].hangUp()
		expect()
	})
}

// TestUpdatesOfTwoServices checks that each service of a member counts its updates, and that a
// count stays after the streams have ended.
func TestUpdatesOfTwoServices(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newCounted(t)
		w.table.Define(
			federation.ServiceID{Namespace: "shop", Name: "all"},
			&federation.Definition{Federated: true, Members: []federation.Member{{Service: web}}},
		)
		w.define(true, federation.Local)
		w.offer("", pods("10.0.0.1:80")...)
		one, all := w.get(webAddr, ""), w.get("all.shop.svc.cluster.local:80", "")
		const series = "endpoints_updates cluster=local namespace=shop port=80 service=web "
		w.expect(t, "endpoints_updates", series+"0")
		w.offer("", pods("10.0.0.2:80")...)
		w.expect(t, "endpoints_updates", series+"2")
		one.hangUp()
		time.Sleep(time.Minute) // longer than an idle view is cached
		w.expect(t, "endpoints_updates", series+"2")
		w.offer("", pods("10.0.0.3:80")...)
		w.expect(t, "endpoints_updates", series+"3")
		all.hangUp()
	})
}

// TestProfileUpdatesAreForgotten checks that series without streams are dropped. The test also
// checks that the number of series between scrapes is limited.
func TestProfileUpdatesAreForgotten(t *testing.T) {
	var u profileUpdates
	here, gone := profileSeries{"shop", "web"}, profileSeries{"client", "web"}
	u.inc(here)
	u.inc(gone)
	if now := u.keep(map[profileSeries]bool{here: true}); len(now) != 1 || now[here] != 1 || len(u.by) != 1 {
		t.Errorf("got series %v of %v", now, u.by)
	}
	for i := range 2 * maxProfileUpdates {
		if u.inc(profileSeries{namespace: fmt.Sprint(i)}); len(u.by) > maxProfileUpdates {
			t.Fatal("the number of series is not limited")
		}
	}
}

// TestMadeUpNodes checks that nodes without endpoints share their series.
func TestMadeUpNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newCounted(t)
		w.define(true, federation.Local, "east")
		onNode := pod("10.0.0.1:80")
		onNode.Node = "n1"
		w.share(
			"",
			federation.Share{
				State:     federation.Present,
				NodeLocal: true,
				Slices:    []*federation.Slice{sliceOf("", onNode)},
			},
		)
		w.offer("east", pods("10.1.0.1:80")...)
		for _, node := range []string{"n1", "made-up-1", "made-up-2"} {
			defer w.get(webAddr, node).hangUp()
		}
		var want []string
		for _, cluster := range []string{"east", "local"} {
			want = append(want, "endpoints_subscribers cluster="+cluster+" namespace=shop port=80 service=web 2",
				"endpoints_subscribers cluster="+cluster+" namespace=shop nodename=n1 port=80 service=web 1")
		}
		w.expect(t, "endpoints_subscribers", want...)
	})
}

// TestProfileMetrics checks how streams are counted. A stream of a service counts for the
// ServiceProfiles that may apply. A stream of an endpoint counts as a workload's.
func TestProfileMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newCounted(t)
		key := webKey
		key.Namespace = "client"
		w.profiles.put(webKey, wiretest.WebProfile())
		w.profiles.put(key, wiretest.WebProfile())
		calls := []*caller{
			w.getProfile(webAddr, "shop"),
			w.getProfile(webAddr, "client"),
			w.getProfile("10.0.0.1:80", ""),
		}
		w.expect(t, "profile_", "profile_subscribers namespace=client profile=web.shop.svc.cluster.local 1",
			"profile_subscribers namespace=shop profile=web.shop.svc.cluster.local 2",
			"profile_updates namespace=client profile=web.shop.svc.cluster.local 0",
			"profile_updates namespace=shop profile=web.shop.svc.cluster.local 0", noOverflow)
		w.expect(t, "service_", "service_subscribers name=web namespace=shop 2")
		w.expect(t, "workload_", "workload_subscribers 1", "workload_updates 0")

		other := wiretest.WebProfile()
		other.Opaque = !other.Opaque
		w.profiles.put(key, other)
		for _, p := range []string{"10.9.9.9:80", "10.8.8.8:80"} {
			w.profiles.put(federation.ProfileKey{Addr: netip.MustParseAddrPort("10.0.0.1:80")}, endpointProfile(pod(p)))
			synctest.Wait()
		}
		w.expect(t, "profile_updates", "profile_updates namespace=client profile=web.shop.svc.cluster.local 1",
			"profile_updates namespace=shop profile=web.shop.svc.cluster.local 1", noOverflow)
		w.expect(t, "workload_", "workload_subscribers 1", "workload_updates 2")
		for _, c := range calls {
			c.hangUp()
		}
		w.expect(t, "profile_")
		w.expect(t, "service_")
		w.expect(t, "workload_", "workload_subscribers 0", "workload_updates 2")
	})
}

// TestFirstFrameAndPropagation checks the metrics for the wait for first messages and for the delay
// of changes. Messages caused by a link or by the client's zone are not changes of a cluster.
func TestFirstFrameAndPropagation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newCounted(t)
		w.offer("", pods("10.0.0.1:80")...)
		w.link("north", federation.Pending)
		late, soon := w.get(webAddr, ""), w.get(webAddr, "n1")
		time.Sleep(time.Second)
		w.nodes.move("n1", "c") // moves while its stream waits, but the next change still counts as an update
		time.Sleep(2 * time.Second)
		change := func(c federation.ClusterName, addr string) {
			w.clusters[c].put(
				web,
				federation.Share{State: federation.Present, Slices: []*federation.Slice{sliceOf(c, pods(addr)...)}},
			)
			w.table.Changed(c, web, time.Now().Add(-time.Second))
			synctest.Wait()
		}
		change("east", "10.1.0.9:80")
		w.expect(t, "isthmus_first_frame", "isthmus_first_frame_seconds 2", "isthmus_first_frame_timeouts_total 2")
		w.link("north", federation.Ready)
		w.nodes.move("n2", "b")
		more, there := w.get(webAddr, ""), w.get(webAddr, "n2")
		w.expect(t, "isthmus_first_frame", "isthmus_first_frame_seconds 4", "isthmus_first_frame_timeouts_total 2")
		w.expect(t, "isthmus_propagation", "isthmus_propagation_seconds cluster=east 2",
			"isthmus_propagation_seconds cluster=local 0", "isthmus_propagation_seconds cluster=north 0")
		change("east", "10.1.0.1:80")
		w.nodes.move("n1", "b") // the change is the newest one in that zone too
		synctest.Wait()
		w.table.Unlink("north")
		w.expect(t,
			"isthmus_propagation",
			"isthmus_propagation_seconds cluster=east 6",
			"isthmus_propagation_seconds cluster=local 0",
		)
		change("", "10.0.0.2:80")
		w.expect(t,
			"isthmus_propagation",
			"isthmus_propagation_seconds cluster=east 6",
			"isthmus_propagation_seconds cluster=local 4",
		)
		for _, c := range []*caller{late, soon, more, there} {
			c.hangUp()
		}
	})
}

// TestSeriesGo checks that the series of streams are dropped with the streams.
func TestSeriesGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newCounted(t)
		size := func() int { synctest.Wait(); return len(scrape(t, w.registry, "")) }
		w.offer("", pods("10.0.0.1:80")...)
		w.get(webAddr, "").hangUp()
		before := size()
		var calls []*caller
		for i := range 400 {
			calls = append(calls,
				w.get(fmt.Sprintf("made-up-%d.shop.svc.cluster.local:80", i), ""),
				w.get(fmt.Sprintf("host-%d.%s", i, webAddr), fmt.Sprint("node-", i)),
				w.get(fmt.Sprintf("web.shop.svc.cluster.local:%d", i+1000), ""),
				w.getProfile(fmt.Sprintf("made-up-%d.shop.svc.cluster.local:80", i), fmt.Sprint("ns-", i)),
				w.getProfile(fmt.Sprintf("10.1.%d.%d:80", i/256, i%256), ""))
		}
		if n := size(); n < before+2000 {
			t.Errorf("only %d series with open streams, %d before", n, before)
		}
		for _, c := range calls {
			c.hangUp()
		}
		if n := size(); n != before {
			t.Errorf("%d series after all streams ended, %d before", n, before)
		}
	})
}
