package audit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"isthmus/clusterstore/cluster"
	"isthmus/clusterstore/internal/metricstest"
	"isthmus/federation"
	"isthmus/internal/adminapi"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is services and clusters that an Auditor sees.
type world struct {
	t *testing.T

	mu       sync.Mutex // guards services and clusters; tests write them by change
	services []federation.WatchedService
	clusters map[federation.ClusterName]*fakeCluster
	reported []Finding
	logs     *observer.ObservedLogs
	registry *prometheus.Registry
	*Auditor
}

// fakeCluster answers looks.
type fakeCluster struct {
	state cluster.State
	look  func(id federation.ServiceID) ([]cluster.Looked, error)
	hangs bool // until the context ends

	mu       sync.Mutex
	sent     []time.Time
	looked   []look
	relisted []string
}

type look struct {
	id federation.ServiceID
	at time.Time
}

func (c *fakeCluster) Look(ctx context.Context, id federation.ServiceID, admit func(context.Context) error) ([]cluster.Looked, error) {
	if err := admit(ctx); err != nil {
		return nil, err
	}
	c.mu.Lock()
	c.sent = append(c.sent, time.Now())
	c.mu.Unlock()
	if c.hangs {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	c.mu.Lock()
	c.looked = append(c.looked, look{id, time.Now()})
	c.mu.Unlock()
	if c.look == nil {
		return []cluster.Looked{{Resource: "services", Compared: 1}}, nil
	}
	return c.look(id)
}

func (c *fakeCluster) Relist(resource string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.relisted = append(c.relisted, resource)
}

// counts returns how often each service was looked at, and clears that.
func (c *fakeCluster) counts() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := make(map[string]int)
	for _, l := range c.looked {
		n[l.id.Name]++
	}
	c.looked = nil
	return n
}

func service(name string, clusters ...federation.ClusterName) federation.WatchedService {
	s := federation.WatchedService{Service: federation.ServiceID{Namespace: "ns", Name: name}}
	for _, c := range clusters {
		s.Members = append(s.Members, federation.Member{Cluster: c, Service: s.Service})
	}
	return s
}

// audited runs an Auditor in a bubble.
func audited(t *testing.T, interval time.Duration, names []federation.ClusterName, test func(w *world)) {
	synctest.Test(t, func(t *testing.T) {
		core, logs := observer.New(zap.InfoLevel)
		w := &world{t: t, clusters: make(map[federation.ClusterName]*fakeCluster), logs: logs, registry: prometheus.NewRegistry()}
		for _, name := range names {
			w.clusters[name] = &fakeCluster{state: cluster.Ready}
		}
		a, err := New(Options{
			Interval: interval,
			Services: func() []federation.WatchedService {
				w.mu.Lock()
				defer w.mu.Unlock()
				return w.services
			},
			Cluster: func(name federation.ClusterName) (Cluster, cluster.State) {
				w.mu.Lock()
				defer w.mu.Unlock()
				if c := w.clusters[name]; c != nil {
					return c, c.state
				}
				return nil, ""
			},
			Clusters: func() (list []federation.ClusterName) {
				w.mu.Lock()
				defer w.mu.Unlock()
				for name := range w.clusters {
					list = append(list, name)
				}
				return list
			},
			Report:     func(f Finding) { w.reported = append(w.reported, f) },
			Log:        zap.New(core),
			Registerer: w.registry,
		})
		if err != nil {
			t.Fatal(err)
		}
		w.Auditor = a
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- a.Run(ctx) }()
		synctest.Wait()
		test(w)
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func (w *world) change(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f()
}

func (w *world) rest(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// TestOnce: every service is audited once in the interval, with all of its members, and the work
// is spread over the interval. Services may come and go.
func TestOnce(t *testing.T) {
	audited(t, time.Hour, []federation.ClusterName{"", "east"}, func(w *world) {
		w.change(func() {
			for i := range 600 {
				w.services = append(w.services, service(fmt.Sprint("s", i), "", "east"))
			}
		})
		w.rest(time.Hour + 30*time.Second)
		for name, c := range w.clusters {
			byTenth := make([]int, 11)
			for _, l := range c.looked {
				byTenth[l.at.Sub(w.round.first)*10/time.Hour]++
			}
			for _, n := range byTenth[:10] {
				if n < 30 || n > 100 {
					t.Errorf("%v: looks in each tenth of the interval: %v", name, byTenth)
				}
			}
			n := c.counts()
			if len(n) != 600 {
				t.Errorf("%v: %d services were looked at", name, len(n))
			}
		}
		w.rest(time.Hour - 30*time.Second)
		for range 3 { // whenever it begins, an interval has each once
			w.clusters["east"].counts()
			w.rest(time.Hour)
			n := w.clusters["east"].counts()
			if len(n) < 598 { // at the edges one may be counted for the interval before
				t.Errorf("%d services were looked at", len(n))
			}
			for name, times := range n {
				if times > 2 {
					t.Errorf("%s was looked at %d times", name, times)
				}
			}
			w.rest(7 * time.Minute)
		}
		w.change(func() { w.services = append(slices.Clone(w.services[:100]), service("new", "east")) })
		w.clusters["east"].counts()
		w.rest(time.Hour + 30*time.Second)
		if n := w.clusters["east"].counts(); n["new"] == 0 || n["s500"] != 0 || n["s50"] == 0 {
			t.Errorf("after services have come and gone: new %d, gone %d", n["new"], n["s500"])
		}
		s := w.Status()
		if s.Interval != "1h0m0s" || s.Services != 101 || s.Round.Of != 101 || s.Round.Done > 101 || s.Last.IsZero() || s.Differences != 0 || len(s.Late) != 0 || len(s.Results) != maxResults {
			t.Errorf("%+v", s)
		}
	})
}

// TestRate: a cluster gets one request a second at most, whatever there is to do. What can't be
// done within the interval is done later, each service in turn, and that is shown.
func TestRate(t *testing.T) {
	audited(t, time.Hour, []federation.ClusterName{"east", "north"}, func(w *world) {
		east := w.clusters["east"]
		w.change(func() {
			for i := range 10_000 {
				w.services = append(w.services, service(fmt.Sprint("s", i), "east"))
			}
			w.services = append(w.services, service("calm", "north"))
		})
		w.rest(4 * time.Hour)
		for i, at := range east.sent[1:] {
			if gap := at.Sub(east.sent[i]); gap < time.Second {
				t.Fatalf("%v between two requests", gap)
			}
		}
		if n := len(east.sent); n < 4*3600-60 {
			t.Errorf("%d requests: it does not go on as fast as it may", n)
		}
		if n := len(east.counts()); n != 10_000 {
			t.Errorf("%d services were looked at", n)
		}
		if n := w.clusters["north"].counts()["calm"]; n < 3 || n > 5 {
			t.Errorf("a service of another cluster was looked at %d times", n)
		}
		s := w.Status()
		if !slices.Equal(s.Late, []string{"east"}) || s.Waiting < 1000 {
			t.Errorf("late %q, %d waiting", s.Late, s.Waiting)
		}
		if n := w.logs.FilterMessageSnippet("more to compare").Len(); n != 1 {
			t.Errorf("logged %d times", n)
		}
		w.change(func() { w.services = w.services[:3] })
		w.rest(3 * time.Hour)
		if s := w.Status(); len(s.Late) != 0 || s.Waiting != 0 {
			t.Errorf("with 3 services: %+v", s)
		}
	})
}

// one has a difference of one object.
func one(object string, version uint64, kept any) cluster.Looked {
	return cluster.Looked{Resource: "endpointslices", Compared: 3, Differences: []cluster.Difference{
		{Object: object, Problem: cluster.Differs, ID: 1, Version: version, Kept: kept}}}
}

// TestSettle: a difference counts if it is there, unchanged on both sides, ten seconds later.
// Then it is logged, reported and healed, once.
func TestSettle(t *testing.T) {
	equal := cluster.Looked{Resource: "endpointslices", Compared: 3}
	for name, tt := range map[string]struct {
		looks   []cluster.Looked // the last one again and again
		want    int
		healed  bool
		outcome string
		errs    string
	}{
		"it lasts":                  {[]cluster.Looked{one("a", 1, "x"), one("a", 1, "x"), equal}, 1, true, "different", ""},
		"it goes by itself":         {[]cluster.Looked{one("a", 1, "x"), equal}, 0, false, "same", ""},
		"the API changes":           {[]cluster.Looked{one("a", 1, "x"), one("a", 2, "x"), equal}, 0, false, "same", ""},
		"the gateway lags":          {[]cluster.Looked{one("a", 3, "x"), one("a", 3, "y"), equal}, 0, false, "same", ""},
		"it changes, then lasts":    {[]cluster.Looked{one("a", 1, "x"), one("a", 2, "x"), one("a", 2, "x"), equal}, 1, true, "different", ""},
		"another object":            {[]cluster.Looked{one("a", 1, "x"), {Resource: "endpointslices", Differences: []cluster.Difference{{Object: "b", ID: 2}}}, equal}, 0, false, "same", ""},
		"it fails in between":       {[]cluster.Looked{one("a", 1, "x"), {Resource: "endpointslices", Err: errors.New("no")}, one("a", 1, "x"), equal}, 1, true, "different", ""},
		"it is not healed":          {[]cluster.Looked{one("a", 1, "x")}, 1, false, "different", "1 object still differs after a new list"},
		"it can't be looked at":     {[]cluster.Looked{{Resource: "endpointslices", Err: errors.New("no")}}, 0, false, "failed", "no"},
		"another one after healing": {[]cluster.Looked{one("a", 1, "x"), one("a", 1, "x"), one("a", 2, "x"), equal}, 1, true, "different", ""},
	} {
		t.Run(name, func(t *testing.T) {
			audited(t, time.Hour, []federation.ClusterName{"east"}, func(w *world) {
				c, n := w.clusters["east"], 0
				c.look = func(federation.ServiceID) ([]cluster.Looked, error) {
					n++
					return []cluster.Looked{tt.looks[min(n, len(tt.looks))-1]}, nil
				}
				w.change(func() { w.services = []federation.WatchedService{service("web", "east")} })
				w.rest(time.Hour) // at whose end the last ones are due
				w.change(func() { w.services = nil })
				w.rest(10 * time.Minute)
				for i, l := range c.looked[1:] {
					if gap := l.at.Sub(c.looked[i].at); gap < Settle {
						t.Errorf("a second look after %v", gap)
					}
				}
				s := w.Status()
				if int(s.Differences) != tt.want || len(w.reported) != tt.want || w.logs.FilterMessageSnippet("not what the API has").Len() != tt.want {
					t.Errorf("counted %d, reported %v", s.Differences, w.reported)
				}
				if tt.want > 0 && w.reported[0] != (Finding{"east", "ns/web", "endpointslices", "a", "differs"}) {
					t.Errorf("reported %+v", w.reported[0])
				}
				if (len(c.relisted) > 0) != (tt.want > 0) || len(c.relisted) > 2 || tt.healed && len(c.relisted) != 1 {
					t.Errorf("listed again: %v", c.relisted)
				}
				var shown []adminapi.AuditDifference
				errs := ""
				for _, r := range s.Results {
					shown = append(shown, r.Differences...)
					errs += r.Error
					if r.Service != "ns/web" || r.Cluster != "east" || r.Resource != "endpointslices" {
						t.Errorf("%+v", r)
					}
				}
				if len(shown) != tt.want || tt.want > 0 && shown[0] != (adminapi.AuditDifference{Object: "a", Problem: "differs", Healed: tt.healed}) || errs != tt.errs || len(s.Results) == 0 {
					t.Errorf("results %+v", s.Results)
				}
				for _, want := range []string{
					"isthmus_audits_total cluster=east outcome=" + tt.outcome + " 1",
					fmt.Sprint("isthmus_audit_differences_total cluster=east resource=endpointslices ", tt.want),
				} {
					if lines := metricstest.Lines(t, w.registry); !slices.Contains(lines, want) {
						t.Errorf("no %s in %v", want, lines)
					}
				}
			})
		})
	}
}

// TestCountedThenGone: an audit that has counted something does not end as one that was skipped or
// has failed, whatever becomes of the cluster.
func TestCountedThenGone(t *testing.T) {
	for name, goes := range map[string]func(w *world, c *fakeCluster){
		"stale": func(w *world, c *fakeCluster) { w.change(func() { c.state = cluster.Stale }) },
		"unlinked": func(_ *world, c *fakeCluster) {
			c.look = func(federation.ServiceID) ([]cluster.Looked, error) { return nil, errors.New("gone") }
		},
	} {
		t.Run(name, func(t *testing.T) {
			audited(t, time.Hour, []federation.ClusterName{"east"}, func(w *world) {
				c := w.clusters["east"]
				c.look = func(federation.ServiceID) ([]cluster.Looked, error) { return []cluster.Looked{one("a", 1, "x")}, nil }
				w.change(func() { w.services = []federation.WatchedService{service("web", "east")} })
				for w.Status().Differences == 0 {
					w.rest(time.Second)
				}
				goes(w, c)
				w.change(func() { w.services = nil })
				w.rest(time.Minute)
				lines := strings.Join(metricstest.Lines(t, w.registry), "\n")
				for _, want := range []string{"outcome=different 1", "outcome=skipped 0", "outcome=failed 0"} {
					if !strings.Contains(lines, "isthmus_audits_total cluster=east "+want) {
						t.Errorf("no %s in\n%s", want, lines)
					}
				}
			})
		})
	}
}

// TestChanging: what differs at every look and is never the same is given up.
func TestChanging(t *testing.T) {
	audited(t, time.Hour, []federation.ClusterName{"east"}, func(w *world) {
		c, n := w.clusters["east"], uint64(0)
		c.look = func(federation.ServiceID) ([]cluster.Looked, error) {
			n++
			return []cluster.Looked{one("a", n, "x")}, nil
		}
		w.change(func() { w.services = []federation.WatchedService{service("web", "east")} })
		w.rest(time.Hour) // at whose end the last ones are due
		w.change(func() { w.services = nil })
		w.rest(10 * time.Minute)
		s := w.Status()
		if s.Differences != 0 || n != maxLooks || len(c.relisted) != 0 || len(s.Results) != 1 || !strings.Contains(s.Results[0].Error, "changes all the time") {
			t.Errorf("%d looks: %+v", n, s)
		}
	})
}

// TestRelistPause: however many services differ, a resource is listed again once a minute.
func TestRelistPause(t *testing.T) {
	audited(t, 2*time.Minute, []federation.ClusterName{"east"}, func(w *world) {
		c := w.clusters["east"]
		c.look = func(federation.ServiceID) ([]cluster.Looked, error) { return []cluster.Looked{one("a", 1, "x")}, nil }
		w.change(func() {
			for i := range 50 {
				w.services = append(w.services, service(fmt.Sprint("s", i), "east"))
			}
		})
		w.rest(time.Hour)
		if n := len(c.relisted); n < 50 || n > 60 {
			t.Errorf("listed again %d times in an hour", n)
		}
		if s := w.Status(); len(s.Results) != maxResults {
			t.Errorf("%d results", len(s.Results))
		}
	})
}

// TestSkipped: a cluster that is not ready is skipped, which is a result, and holds up no other;
// nor does one that hangs.
func TestSkipped(t *testing.T) {
	audited(t, time.Hour, []federation.ClusterName{"", "pending", "unreachable", "rejected", "stale", "hanging"}, func(w *world) {
		var members []federation.ClusterName
		for name, c := range w.clusters {
			if name != "" && name != "hanging" {
				c.state = cluster.State(name)
			}
			members = append(members, name)
		}
		w.clusters["hanging"].hangs = true
		w.change(func() { w.services = []federation.WatchedService{service("web", append(members, "unknown")...)} })
		w.rest(2 * time.Hour)
		var got []string
		for _, r := range w.Status().Results {
			got = append(got, r.Cluster+": "+r.Error)
		}
		slices.Sort(got)
		want := "local: , local: , pending: the cluster is pending, pending: the cluster is pending, rejected: the cluster is rejected, rejected: the cluster is rejected, " +
			"stale: the cluster is stale, stale: the cluster is stale, unknown: there is no such cluster, unknown: there is no such cluster, " +
			"unreachable: the cluster is unreachable, unreachable: the cluster is unreachable"
		if text := strings.Join(got, ", "); text != want {
			t.Errorf("results %s", text)
		}
		if n := w.clusters["stale"].counts(); len(n) != 0 {
			t.Error("a cluster that is stale is looked at")
		}
		w.change(func() { delete(w.clusters, "pending") })
		w.rest(time.Hour)
		for _, series := range metricstest.Lines(t, w.registry) {
			if strings.Contains(series, "cluster=pending") {
				t.Errorf("%s of a cluster that has gone", series)
			}
		}
	})
}

// TestOff: without an interval nothing is requested.
func TestOff(t *testing.T) {
	audited(t, 0, []federation.ClusterName{"east"}, func(w *world) {
		w.change(func() { w.services = []federation.WatchedService{service("web", "east")} })
		w.rest(24 * time.Hour)
		if n := w.clusters["east"].counts(); len(n) != 0 {
			t.Errorf("looked at %v", n)
		}
		if s := w.Status(); s.Interval != "off" || s.Services != 1 || s.Results == nil || s.Late == nil {
			t.Errorf("%+v", s)
		}
	})
}

// TestResults: the newest are first, and those without differences make room for those with.
func TestResults(t *testing.T) {
	a := &Auditor{opts: Options{Services: func() []federation.WatchedService { return nil }}}
	for i := range 100 {
		r := &result{AuditResult: adminapi.AuditResult{Compared: i}}
		if i%10 == 0 {
			r.differences = []*adminapi.AuditDifference{{Object: fmt.Sprint(i)}}
		}
		a.add(r)
	}
	var got []int
	for _, r := range a.Status().Results {
		got = append(got, r.Compared)
	}
	if want := []int{99, 98, 97, 96, 95, 94, 93, 92, 91, 90, 89, 80, 70, 60, 50, 40, 30, 20, 10, 0}; !slices.Equal(got, want) {
		t.Errorf("%v", got)
	}
	if text := shown("a\x1b[2J\xff" + strings.Repeat("x", 1000)); len(text) > maxText+10 || strings.Contains(text, "\x1b") {
		t.Errorf("%q", text)
	}
}

// TestOptions: what can't be used is refused.
func TestOptions(t *testing.T) {
	good := Options{Services: func() []federation.WatchedService { return nil }, Cluster: func(federation.ClusterName) (Cluster, cluster.State) { return nil, "" }}
	if _, err := New(good); err != nil {
		t.Error(err)
	}
	for _, change := range []func(*Options){
		func(o *Options) { o.Services = nil }, func(o *Options) { o.Cluster = nil },
		func(o *Options) { o.Interval = time.Second }, func(o *Options) { o.Interval = MaxInterval + 1 },
	} {
		o := good
		change(&o)
		if _, err := New(o); err == nil {
			t.Errorf("%+v is accepted", o)
		}
	}
}
