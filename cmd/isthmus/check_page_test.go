package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"isthmus/clusterstore/budget"
	"isthmus/clusterstore/check"
	"isthmus/clusterstore/cluster"
	"isthmus/federation"
	"isthmus/local/externalworkload"
)

// askChecks requests the page once.
func askChecks(t *testing.T, h http.Handler, ctx context.Context) (code int, page checkPage) {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(ctx, "GET", "/debug/check", nil))
	if w.Code == http.StatusOK {
		if err := json.Unmarshal(w.Body.Bytes(), &page); err != nil {
			t.Error(err)
		}
	}
	return w.Code, page
}

// TestChecker: API servers are asked once for all who ask meanwhile and within ten seconds, but
// what the gateway knows is new each time. A request that goes away spoils nothing.
func TestChecker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked, pages atomic.Int64
		c := &checker{slot: make(chan struct{}, 1), ask: func(ctx context.Context) []check.Result {
			asked.Add(1)
			select {
			case <-time.After(3 * time.Second):
			case <-ctx.Done():
			}
			return []check.Result{{Check: check.API, Text: fmt.Sprint(asked.Load())}}
		}, page: func(r []check.Result) checkPage {
			return checkPage{Replica: fmt.Sprint(pages.Add(1)), Results: r}
		}}
		h := c.handler()
		gone, goes := context.WithTimeout(t.Context(), time.Second)
		defer goes()
		if code, _ := askChecks(t, h, gone); code != http.StatusServiceUnavailable || asked.Load() != 1 {
			t.Errorf("%d for a request that went away, asked %d times", code, asked.Load())
		}
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				if code, page := askChecks(t, h, t.Context()); code != 200 || page.Results[0].Text != "2" {
					t.Errorf("%d, %+v", code, page)
				}
			})
		}
		all.Wait()
		if asked.Load() != 2 || pages.Load() != 4 {
			t.Errorf("asked %d times, %d pages", asked.Load(), pages.Load())
		}
		time.Sleep(checkKept)
		if _, page := askChecks(t, h, t.Context()); page.Results[0].Text != "3" || !page.At.Equal(time.Now()) {
			t.Errorf("%+v", page)
		}
	})
}

// found returns the results that are not OK, one in a line.
func found(r *check.Report) (bad []string) {
	for _, x := range r.Results() {
		if x.Level != check.OK {
			bad = append(bad, fmt.Sprintf("%s %s %s: %s", x.Level, x.Check, x.Object, x.Text))
			if x.Hint == "" {
				bad = append(bad, "no hint")
			}
		}
	}
	return bad
}

func TestLinkResult(t *testing.T) {
	for _, c := range []struct {
		status cluster.Status
		want   string
	}{
		{cluster.Status{State: cluster.Ready, Standing: "in-service"}, "ok it is ready"},
		{cluster.Status{State: cluster.Ready, Standing: "withdrawn", StandingReason: "cordoned"}, "warning it is ready and withdrawn: cordoned"},
		{cluster.Status{State: cluster.Pending, Standing: "in-service"}, "warning it is pending"},
		{cluster.Status{State: cluster.Stale, Standing: "in-service", Reason: "refused"}, "failure it is stale: refused"},
		{cluster.Status{State: cluster.Stale, Standing: "in-service", Reason: "pods: over budget: too much"}, "failure it is stale: pods: over budget: too much"},
		{cluster.Status{State: cluster.Ready, Standing: "in-service", Memory: budget.Usage{Used: 900, Limit: 1000}},
			"warning it is ready, and takes 90 % of the memory that a linked cluster may take"},
		{cluster.Status{State: cluster.Unreachable, Standing: "last-resort", Reason: "refused"}, "failure it is unreachable: refused"},
	} {
		x := linkResult("east", c.status)
		if about := strings.Contains(x.Text, "over budget") || c.status.Memory.Near(); about != strings.Contains(x.Hint, "--cluster-memory") {
			t.Errorf("%s: to do: %s", x.Text, x.Hint)
		}
		if got := string(x.Level) + " " + x.Text; got != c.want || (x.Hint == "") != (x.Level == check.OK) {
			t.Errorf("%s (%s), want %s", got, x.Hint, c.want)
		}
	}
}

// TestMemberHint: what to do depends on why the member does not serve.
func TestMemberHint(t *testing.T) {
	for link, want := range map[federation.LinkState]string{
		federation.Ready: "create the Service there", federation.Unlinked: "correct the cluster's name", federation.Pending: "see why the cluster can't be read",
	} {
		if hint := memberHint(federation.Unserved{Status: federation.MemberStatus{Link: link}}); !strings.HasPrefix(hint, want) {
			t.Errorf("%v: %s, want %s…", link, hint, want)
		}
	}
}

func TestServiceChecks(t *testing.T) {
	web := federation.ServiceID{Namespace: "shop", Name: "web"}
	member := func(c federation.ClusterName) federation.Member {
		return federation.Member{Cluster: c, Service: web}
	}
	d := &federation.Definition{Federated: true, Members: []federation.Member{member("east"), member("north")}}
	all := map[federation.ServiceID]*federation.Definition{web: d}
	missing := federation.MemberStatus{Link: federation.Ready}
	ports := func(list ...cluster.ServicePort) *cluster.Service { return &cluster.Service{Ports: list} }
	for name, c := range map[string]struct {
		do   func(*serviceChecks)
		want []string
	}{
		"a member": {func(c *serviceChecks) {
			c.members([]federation.Unserved{{Service: web, Member: member("east"), Status: missing}}, all)
		},
			[]string{"warning members shop/web: shop/web of cluster east does not serve: no such Service in the cluster"}},
		"all members": {func(c *serviceChecks) {
			c.members([]federation.Unserved{{Service: web, Member: member("east"), Status: missing}, {Service: web, Member: member("north")}}, all)
		}, []string{"failure members shop/web: shop/web of cluster east does not serve: no such Service in the cluster", "failure members shop/web: shop/web of cluster north does not serve: cluster is unlinked"}},
		"ports": {func(c *serviceChecks) {
			c.ports(web, ports(cluster.ServicePort{Name: "http", Number: 80}, cluster.ServicePort{Number: 81}, cluster.ServicePort{Name: "admin", Number: 99}), d, func(m federation.Member) *cluster.Service {
				if m.Cluster == "north" {
					return nil
				}
				return ports(cluster.ServicePort{Name: "http", Number: 8080}, cluster.ServicePort{Name: "x", Number: 99})
			})
		}, []string{"warning ports shop/web: shop/web of cluster east has no port 80 (http is 8080 there), 81: clients of that port are sent to that port of its Pods"}},
		"a preference": {func(c *serviceChecks) {
			own := ports()
			named := func(c federation.ClusterName) federation.Tier {
				return federation.Tier{{Kind: federation.Named, Cluster: c}}
			}
			d := &federation.Definition{Preference: &federation.Preference{Tiers: []federation.Tier{named("east"), named("esat"), {{Kind: federation.AnyCluster}}}}}
			linked := map[federation.ClusterName]bool{"east": true}
			c.preferred(web, own, d, linked) // it is the gateway's
			own.Annotations = map[string]string{"isthmus.io/prefer": "east, esat, any"}
			c.preferred(web, own, d, linked)
		}, []string{"warning definitions shop/web: annotation isthmus.io/prefer: no cluster esat is linked"}},
		"addresses": {func(c *serviceChecks) {
			c.addresses([]federation.WatchedPort{{Service: web, Port: 80, Members: []federation.WatchedMember{{Member: member("east")}, {Member: member("north"), Yielded: 2}}}})
		}, []string{"warning addresses shop/web: port 80: another member too offers 2 addresses of shop/web of cluster north"}},
		"the Lease": {func(c *serviceChecks) {
			checkWriter(c.report, externalworkload.Status{Holder: "a", LeaseError: "forbidden"})
		}, []string{"warning slice-writer : the Lease of the replica that writes EndpointSlices can't be used: forbidden"}},
		"nobody's Lease":       {func(c *serviceChecks) { checkWriter(c.report, externalworkload.Status{}) }, []string{"warning slice-writer : no replica holds the Lease for writing EndpointSlices"}},
		"writing":              {func(c *serviceChecks) { checkWriter(c.report, externalworkload.Status{Holder: "a", Error: "conflict"}) }, []string{"warning slice-writer : EndpointSlices for ExternalWorkloads can't be written: conflict"}},
		"a Lease that is held": {func(c *serviceChecks) { checkWriter(c.report, externalworkload.Status{Holder: "a"}) }, nil},
	} {
		report := new(check.Report)
		c.do(&serviceChecks{report, make(map[string]bool)})
		if got := found(report); !slices.Equal(got, c.want) {
			t.Errorf("%s:\n  %s\nwant\n  %s", name, strings.Join(got, "\n  "), strings.Join(c.want, "\n  "))
		}
	}
}

// TestGatewaysResult: whatever keeps gateways from being used is reported, with a next step.
func TestGatewaysResult(t *testing.T) {
	through := func(states ...string) (list []cluster.GatewayStatus) {
		for i, state := range states {
			list = append(list, cluster.GatewayStatus{Address: fmt.Sprintf("192.0.2.%d:4143", i), State: state, Reason: "refused"})
		}
		return list
	}
	for _, c := range []struct {
		gateways   []cluster.GatewayStatus
		problem    string
		level      check.Level
		text, hint string // parts
	}{
		{through("alive", "not-probed-yet"), "", check.OK, "it is on network far, and has 2 gateway addresses", ""},
		{nil, "no Service there", check.Failure, "no gateway of it can be used; no Service there", "isthmus.io/gateway-addresses"},
		{through("alive", "dead"), "", check.Warning, "1 of 2 gateway addresses are dead; gateways that do not answer probes: 192.0.2.1:4143 (refused)", "mc-probe"},
		{through("dead"), "a name", check.Failure, "none of its gateways answers: it is served only where a service has no other endpoint; gateways that do not answer probes: 192.0.2.0:4143 (refused); a name", "mc-probe"},
		{through("outside-ranges", "dead"), "", check.Failure, "none of its gateways answers: it is served only where a service has no other endpoint; gateways that do not answer probes: 192.0.2.1:4143 (refused)", "mc-probe"},
		{through("outside-ranges"), "gateways outside", check.Failure, "no gateway of it can be used; gateways outside", "isthmus.io/address-ranges"},
		{through("not-probed"), "gateways that are not probed", check.Warning, "it is on network far, and has 1 gateway addresses; gateways that are not probed", "isthmus clusters"},
	} {
		s := cluster.Status{State: cluster.Ready, Network: "far", Gateways: c.gateways}
		if c.problem != "" {
			s.GatewayProblems = []string{c.problem}
		}
		x := gatewaysResult("east", s)
		if x.Level != c.level || x.Text != c.text || !strings.Contains(x.Hint, c.hint) || (x.Hint == "") != (c.level == check.OK) {
			t.Errorf("%+v, want %v %q %q", x, c.level, c.text, c.hint)
		}
	}
	s := cluster.Status{State: cluster.Ready, Standing: "last-resort", StandingReason: cluster.NoGatewayAnswers}
	if x := linkResult("east", s); x.Level != check.OK {
		t.Errorf("dead gateways are no cordon: %+v", x)
	}
}
