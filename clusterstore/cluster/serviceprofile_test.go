package cluster

import (
	"encoding/json"
	"net/netip"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"isthmus/clusterstore/decode"
	"isthmus/federation"
)

// aProfile makes a ServiceProfile for a Service "name.namespace", with that spec as
// JSON.
func aProfile(service, spec string) *decode.ServiceProfile {
	o := &decode.ServiceProfile{}
	if err := json.Unmarshal([]byte(`{"metadata":{"namespace":"ns","name":"`+service+`.svc.cluster.local"},"spec":`+spec+`}`), o); err != nil {
		panic(err)
	}
	return o
}

// routesOf renders a ServiceProfile of one route, or none, as text.
func routesOf(p *federation.ServiceProfile) string {
	var lines []string
	for _, r := range p.Routes {
		lines = append(lines, r.Name+": method:"+r.Condition.Text)
	}
	return strings.Join(lines, "\n")
}

// TestServiceProfilesLive: an equal ServiceProfile keeps its pointer, and each change is
// reported.
func TestServiceProfilesLive(t *testing.T) {
	core, logs := observer.New(zap.WarnLevel)
	w := newWorld(t, func(c *Config) { withAddresses(c); c.Log = zap.New(core) })
	w.put(clusterIP(aService("web", "http=80"), "10.1.0.1", "fd00::1"), aService("db", "sql=5432"))
	w.marked()
	w.markedTopics()
	const name, good = "web.ns.svc.cluster.local", `{"routes":[{"name":"r","condition":{"method":"GET"}}]}`
	var last *federation.ServiceProfile
	step := func(what string, do func(), want string, reported bool, rejected, logged int) {
		t.Helper()
		do()
		got := "none"
		p, exists := w.ServiceProfile("ns", name)
		switch {
		case p != nil:
			got = routesOf(p)
		case exists:
			got = "refused"
		}
		topics := w.markedTopics()
		_, ofService := topics[Topic{Service: web80.Service}]
		_, ofAddress := topics[Topic{IP: netip.MustParseAddr("10.1.0.1")}]
		if got != want || (ofService && ofAddress && len(topics) == 3) != reported || !reported && len(topics) > 0 || len(w.marked()) > 0 {
			t.Errorf("%s: got %q, want %q; reported %v", what, got, want, topics)
		}
		if !reported && p != last {
			t.Errorf("%s: another pointer", what)
		}
		last = p
		if h := w.Health(); h.RejectedProfiles != rejected || len(h.Unusable) < rejected {
			t.Errorf("%s: %d refused: %q", what, h.RejectedProfiles, h.Unusable)
		}
		if n := len(logs.TakeAll()); n != logged {
			t.Errorf("%s: %d lines logged", what, n)
		}
	}
	put := func(spec string) func() { return func() { w.put(aProfile("web.ns", spec)) } }
	step("R-02 none", func() {}, "none", false, 0, 0)
	step("R-01 there is one", put(good), "r: method:GET", true, 0, 0)
	step("the same", put(good), "r: method:GET", false, 0, 0)
	step("the same in other words", put(`{"routes":[{"name":"r","condition":{"method":"GET","all":null},"timeout":"0s"}],"opaquePorts":{"1":{}}}`), "r: method:GET", false, 0, 0)
	step("another", put(`{}`), "", true, 0, 0)
	step("a part of it", put(`{"routes":[{"name":"r","condition":{"method":"GET"},"timeout":"x"}]}`), "r: method:GET", true, 0, 1)
	const discarded = `{"retryBudget":{"ttl":"2m","retryRatio":0.2,"minRetriesPerSecond":1}}`
	step("a budget that proxies discard", put(discarded), "", true, 0, 1)
	problem, exists := w.ServiceProfileProblem("ns", name)
	if !exists || !strings.HasPrefix(problem, "retryBudget: proxies discard it") {
		t.Errorf("the problem is %q", problem)
	}
	step("a budget that they use",
		put(`{"retryBudget":{"ttl":"20s","retryRatio":0.2,"minRetriesPerSecond":1}}`), "", true, 0, 0)
	step("the first budget again", put(discarded), "", true, 0, 1)
	step("refused", put(`{"routes":[null]}`), "refused", true, 1, 1)
	step("refused again", put(`{"routes":[null]}`), "refused", false, 1, 0)
	step("refused for something else", put(`{"routes":7}`), "refused", true, 1, 1)
	mine := aProfile("web.ns", good)
	mine.Namespace = "client"
	step("that of a client's namespace", func() { w.put(mine) }, "refused", true, 1, 0)
	step("which is gone", func() { w.del(mine) }, "refused", true, 1, 0)
	step("of another Service", func() { w.put(aProfile("web", good)) }, "refused", false, 1, 0)
	step("R-03 R-04 gone", func() { w.del(aProfile("web.ns", good)) }, "none", true, 0, 0)
	step("back", put(good), "r: method:GET", true, 0, 0)
	step("gone with a new list", func() { w.store("serviceprofiles").Replace() }, "none", true, 0, 0)
	if len(w.Health().Unusable) != 0 {
		t.Errorf("unusable: %q", w.Health().Unusable)
	}
}
