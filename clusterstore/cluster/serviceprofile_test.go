package cluster

import (
	"encoding/json"
	"math"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"isthmus/clusterstore/decode"
	"isthmus/federation"
)

// aProfile returns a ServiceProfile for the Service "name.namespace". spec is JSON.
func aProfile(service, spec string) *decode.ServiceProfile {
	o := &decode.ServiceProfile{}
	object := `{"metadata":{"namespace":"ns","name":"` + service + `.svc.cluster.local"},"spec":` + spec + `}`
	if err := json.Unmarshal([]byte(object), o); err != nil {
		panic(err)
	}
	return o
}

// routesOf renders the routes of a ServiceProfile with at most one route.
func routesOf(p *federation.ServiceProfile) string {
	var lines []string
	for _, r := range p.Routes {
		lines = append(lines, r.Name+": method:"+r.Condition.Text)
	}
	return strings.Join(lines, "\n")
}

// TestServiceProfilesLive checks that an equal ServiceProfile keeps its pointer and that each
// change is reported.
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
		if got != want || (ofService && ofAddress && len(topics) == 3) != reported || !reported && len(topics) > 0 ||
			len(w.marked()) > 0 {
			t.Errorf("%s: got %q, want %q; reported %v", what, got, want, topics)
		}
		if !reported && p != last {
			t.Errorf("%s: the pointer has changed", what)
		}
		last = p
		if h := w.Health(); h.RejectedProfiles != rejected || len(h.Unusable) < rejected {
			t.Errorf("%s: %d rejected: %q", what, h.RejectedProfiles, h.Unusable)
		}
		if n := len(logs.TakeAll()); n != logged {
			t.Errorf("%s: %d lines logged", what, n)
		}
	}
	put := func(spec string) func() { return func() { w.put(aProfile("web.ns", spec)) } }
	step("R-02 none", func() {}, "none", false, 0, 0)
	step("R-01 one", put(good), "r: method:GET", true, 0, 0)
	step("the same", put(good), "r: method:GET", false, 0, 0)
	step(
		"the same in other words",
		put(`{"routes":[{"name":"r","condition":{"method":"GET","all":null},"timeout":"0s"}],"opaquePorts":{"1":{}}}`),
		"r: method:GET",
		false,
		0,
		0,
	)
	step("another", put(`{}`), "", true, 0, 0)
	step(
		"an invalid timeout",
		put(`{"routes":[{"name":"r","condition":{"method":"GET"},"timeout":"x"}]}`),
		"r: method:GET",
		true,
		0,
		1,
	)
	const discarded = `{"retryBudget":{"ttl":"2m","retryRatio":0.2,"minRetriesPerSecond":1}}`
	step("a budget that proxies discard", put(discarded), "", true, 0, 1)
	problem, exists := w.ServiceProfileProblem("ns", name)
	if !exists || !strings.HasPrefix(problem, "retryBudget: proxies discard this retry budget") {
		t.Errorf("the problem is %q", problem)
	}
	step("a budget that they use",
		put(`{"retryBudget":{"ttl":"20s","retryRatio":0.2,"minRetriesPerSecond":1}}`), "", true, 0, 0)
	step("the first budget again", put(discarded), "", true, 0, 1)
	step("refused", put(`{"routes":[null]}`), "refused", true, 1, 1)
	step("refused again", put(`{"routes":[null]}`), "refused", false, 1, 0)
	step("refused for another reason", put(`{"routes":7}`), "refused", true, 1, 1)
	mine := aProfile("web.ns", good)
	mine.Namespace = "client"
	step("a ServiceProfile in a client's namespace", func() { w.put(mine) }, "refused", true, 1, 0)
	step("the client's ServiceProfile deleted", func() { w.del(mine) }, "refused", true, 1, 0)
	step("a ServiceProfile of another Service", func() { w.put(aProfile("web", good)) }, "refused", false, 1, 0)
	step("R-03 R-04 deleted", func() { w.del(aProfile("web.ns", good)) }, "none", true, 0, 0)
	step("created again", put(good), "r: method:GET", true, 0, 0)
	step("dropped by a new list", func() { w.store("serviceprofiles").Replace() }, "none", true, 0, 0)
	// A ServiceProfile may be read before its Service.
	w.del(aService("web", "http=80"))
	put(good)()
	w.put(aService("web", "http=80"))
	if p, _ := w.ServiceProfile("ns", name); p == nil {
		t.Error("a ServiceProfile that was cached before its Service does not apply")
	}
	if len(w.Health().Unusable) != 0 {
		t.Errorf("unusable: %q", w.Health().Unusable)
	}
}

// aTranslatedProfile returns a ServiceProfile for the Service "name.namespace" as decoded from
// JSON. spec is JSON.
func aTranslatedProfile(service, spec string) *decode.ServiceProfile {
	data, err := json.Marshal(service + ".svc.cluster.local")
	if err != nil {
		panic(err)
	}
	o := &decode.ServiceProfile{}
	object := `{"metadata":{"namespace":"ns","name":` + string(data) + `},"spec":` + spec + `}`
	if err := json.Unmarshal([]byte(object), o); err != nil {
		panic(err)
	}
	return o
}

// TestRefused checks that each kind of invalid ServiceProfile is rejected. The reason names the
// invalid field.
//
// Behaviours: SP-03, SP-05, SP-06, V-01.
func TestRefused(t *testing.T) {
	route := func(condition string) string { return `{"routes":[{"name":"r","condition":` + condition + `}]}` }
	response := func(condition string) string {
		return `{"routes":[{"name":"r","condition":{"method":"GET"},"responseClasses":[{"condition":` + condition +
			`}]}]}`
	}
	override := func(weight string) string {
		return `{"dstOverrides":[{"authority":"a.ns:80","weight":` + weight + `}]}`
	}
	budget := func(rest string) string { return `{"retryBudget":{"minRetriesPerSecond":5,` + rest + `}}` }
	for _, x := range []struct{ spec, want string }{
		{route(`{}`), `routes[0] "r": condition: no field is set`},
		{route(`null`), `routes[0] "r": condition: null or missing`},
		{route(`{"all":[{"method":"GET"},null]}`), `routes[0] "r": condition: all[1]: null or missing`},
		{route(`{"not":{"any":[null]}}`), `routes[0] "r": condition: not: any[0]: null or missing`},
		{route(`{"all":[{"not":{}}]}`), `routes[0] "r": condition: all[0]: not: no field is set`},
		{route(`{"status":{"min":500}}`), `routes[0] "r": condition: no field is set`},
		{`{"routes":[{"name":"r","condition":{"method":"G"}},null]}`, "routes[1] is null"},
		{response(`{"method":"GET"}`), `routes[0] "r": responseClasses[0]: condition: no field is set`},
		{response(`{"all":[{"any":[{"status":{"min":1}}]}]}`),
			`routes[0] "r": responseClasses[0]: condition: all[0]: any[0]: status: code 1 is not from 100 to 599`},
		{response(`{"status":{"min":201,"max":200}}`),
			`routes[0] "r": responseClasses[0]: condition: status: range 201-200 is empty`},
		{response(`{"status":{"max":600}}`),
			`routes[0] "r": responseClasses[0]: condition: status: code 600 is not from 100 to 599`},
		{`{"routes":[{"name":"r","condition":{"method":"GET"},"responseClasses":[null]}]}`,
			`routes[0] "r": responseClasses[0] is null`},
		{budget(`"retryRatio":0.5`), `retryBudget: ttl: "" is not a duration`},
		{budget(`"ttl":"-1s"`), "retryBudget: ttl: -1s is negative"},
		{budget(`"retryRatio":-0.1,"ttl":"1s"`),
			"retryBudget: retryRatio is -0.10000000149011612: it must be a finite number, 0 or more"},
		{override(`1e999999999`), `dstOverrides[0]: weight: "1e999999999" is too long`},
		{override(`-1`), "dstOverrides[0]: weight: -1 is negative"},
		{override(`"heavy"`), `dstOverrides[0]: weight: "heavy" is not a quantity`},
		{`{"dstOverrides":[{"weight":1}]}`, "dstOverrides[0]: authority is missing"},
		{`{"dstOverrides":[null]}`, "dstOverrides[0]: null or missing"},
	} {
		if got := translateProfile(aTranslatedProfile("web.ns", x.spec)); got.Profile != nil || got.Problem != x.want {
			t.Errorf("%s: %+v, want %s", x.spec, got, x.want)
		}
	}
}

// TestAccepted checks that unset and irrelevant fields are ignored. An invalid timeout is ignored
// and reported.
func TestAccepted(t *testing.T) {
	get := federation.Match{Kind: federation.MatchMethod, Text: "GET"}
	all := federation.Match{Kind: federation.MatchAll}
	for spec, want := range map[string]federation.Route{
		`{"condition":{"method":"GET"},"timeout":"-1s"}`:                            {Condition: get},
		`{"condition":{"all":null,"any":null,"not":null,"method":"GET"},"other":1}`: {Condition: get},
		`{"condition":{"method":"GET","status":{"min":7}}}`:                         {Condition: get},
		`{"condition":{"all":[]}}`:                                                  {Condition: all},
		`{"condition":{"method":"GET"},"timeout":"soon"}`:                           {Condition: get},
	} {
		problem := ""
		if strings.Contains(spec, "soon") {
			problem = `routes[0] "": timeout: "soon" is not a duration`
		}
		got := translateProfile(aTranslatedProfile("web.ns", `{"routes":[`+spec+`],"opaquePorts":"80"}`))
		if got.Profile == nil || !reflect.DeepEqual(got.Profile.Routes, []federation.Route{want}) ||
			got.Problem != problem ||
			got.Profile.Name != "web.ns.svc.cluster.local" ||
			got.Profile.Namespace != "ns" {
			t.Errorf("%s: %+v, %+v", spec, got, got.Profile)
		}
	}
}

// TestOneStatus checks that a status range with one bound is sent with both bounds.
func TestOneStatus(t *testing.T) {
	status := func(from, to uint32) federation.Match {
		return federation.Match{Kind: federation.MatchStatus, Min: from, Max: to}
	}
	of := func(kind federation.MatchKind, sub ...federation.Match) federation.Match {
		return federation.Match{Kind: kind, Sub: sub}
	}
	const ignored = `routes[0] "r": responseClasses: a status has neither min nor max, so proxies ignore this status`
	for condition, want := range map[string]struct {
		match   federation.Match
		problem string
	}{
		`{"status":{"min":503}}`:           {status(503, 503), ""},
		`{"status":{"max":429}}`:           {status(429, 429), ""},
		`{"status":{"min":500,"max":599}}`: {status(500, 599), ""},
		`{"not":{"status":{"min":404}}}`:   {of(federation.MatchNot, status(404, 404)), ""},
		`{"all":[{"status":{"max":404}}]}`: {of(federation.MatchAll, status(404, 404)), ""},
		`{"any":[{"status":{"min":100}}]}`: {of(federation.MatchAny, status(100, 100)), ""},
		`{"status":{}}`:                    {status(0, 0), ignored},
		`{"any":[{"not":{"status":{}}}]}`:  {of(federation.MatchAny, of(federation.MatchNot, status(0, 0))), ignored},
	} {
		spec := `{"routes":[{"name":"r","condition":{"method":"GET"},` +
			`"responseClasses":[{"condition":` + condition + `}]}]}`
		got := translateProfile(aTranslatedProfile("web.ns", spec))
		if got.Profile == nil || got.Problem != want.problem ||
			!reflect.DeepEqual(got.Profile.Routes[0].Classes[0].Condition, want.match) {
			t.Errorf("%s: %+v, %+v", condition, got, got.Profile)
		}
	}
}

// TestDiscardedBudgets checks that a retry budget that proxies discard is sent and reported. It is
// reported even if another field is invalid too.
func TestDiscardedBudgets(t *testing.T) {
	const discards = "retryBudget: proxies discard this retry budget, and do not retry requests to the Service: "
	for fields, want := range map[string]string{
		`"minRetriesPerSecond":2147483647,"ttl":"10s"`: "",
		`"minRetriesPerSecond":2147483648,"ttl":"10s"`: discards +
			"minRetriesPerSecond 2147483648 is more than 2147483647",

		`"ttl":"1s","retryRatio":1000`:     "",
		`"ttl":"1m","retryRatio":0`:        "",
		`"ttl":"999ms","retryRatio":0.2`:   discards + "ttl 999ms is not from 1s to 1m0s",
		`"ttl":"0s","retryRatio":0.2`:      discards + "ttl 0s is not from 1s to 1m0s",
		`"ttl":"60001ms","retryRatio":0.2`: discards + "ttl 1m0.001s is not from 1s to 1m0s",
		`"ttl":"10s","retryRatio":1000.5`:  discards + "retryRatio 1000.5 is more than 1000",
		`"ttl":"5m","retryRatio":2000`: discards +
			"ttl 5m0s is not from 1s to 1m0s, and retryRatio 2000 is more than 1000",
	} {
		got := translateProfile(aTranslatedProfile("web.ns", `{"retryBudget":{`+fields+`}}`))
		if got.Profile == nil || got.Profile.Budget == nil || got.Problem != want {
			t.Errorf("%s: %+v, want %s", fields, got, want)
		}
	}
	got := translateProfile(aTranslatedProfile("web.ns", `{"retryBudget":{"minRetriesPerSecond":1,"ttl":"2m"},`+
		`"routes":[{"name":"r","condition":{"method":"GET"},"timeout":"soon"}]}`))
	want := discards + `ttl 2m0s is not from 1s to 1m0s; routes[0] "r": timeout: "soon" is not a duration`
	if got.Problem != want {
		t.Errorf("%s, want %s", got.Problem, want)
	}
}

// TestWeight checks that weights are quantities. They are sent in ten-thousandths and rounded up to
// a thousandth.
func TestWeight(t *testing.T) {
	for text, want := range map[string]uint32{"": 0, "1": 10_000, "500m": 5000, "0.0001": 10, "429496": 4_294_960_000,
		"429497": 4_294_967_295, "9E": 4_294_967_295, "1e2": 1_000_000, "1e99": 4_294_967_295} {
		if got, err := translateWeight(text); err != nil || got != want {
			t.Errorf("%q: %d, %v", text, got, err)
		}
	}
}

// TestServiceProfileBounds checks that a ServiceProfile that proxies could not decode is rejected.
// A ServiceProfile within the limits is accepted.
func TestServiceProfileBounds(t *testing.T) {
	nested := func(open string, depth int) *decode.ServiceProfile {
		condition := strings.Repeat(open, depth) + `{"method":"GET"}` + strings.Repeat("}", depth)
		return aTranslatedProfile("web.ns", `{"routes":[{"name":"r","condition":`+condition+`}]}`)
	}
	not := func(depth int) *decode.ServiceProfile { return nested(`{"not":`, depth) }
	both := func(depth int) *decode.ServiceProfile { return nested(`{"method":"GET","not":`, depth) }
	with := func(spec decode.ServiceProfileSpec) *decode.ServiceProfile {
		o := aTranslatedProfile("web.ns", "{}")
		o.Spec = spec
		return o
	}
	routes := func(condition *decode.Match, n int) *decode.ServiceProfile {
		route := &decode.RouteSpec{Condition: condition}
		return with(decode.ServiceProfileSpec{Routes: slices.Repeat([]*decode.RouteSpec{route}, n)})
	}
	get := &decode.Match{Method: "GET"}
	wide := func(n int) *decode.ServiceProfile {
		return routes(&decode.Match{All: slices.Repeat([]*decode.Match{get}, n)}, 1)
	}
	overrides := slices.Repeat([]*decode.WeightedDst{{Authority: "a"}}, 100_001)
	for _, x := range []struct {
		name    string
		profile *decode.ServiceProfile
		ok      bool
	}{
		{"nested", not(maxNested - 1), true},
		{"nested too deep", not(maxNested), false},
		{"nested, with several fields", both(maxNested/2 - 1), true},
		{"nested too deep, with several fields", both(maxNested / 2), false},
		{"nested far too deep", not(5000), false},
		{"many", wide(40_000), true},
		{"too many", wide(100_000), false},
		{"too many routes", routes(get, 50_001), false},
		{"too long", routes(&decode.Match{PathRegex: strings.Repeat("a", maxProfile)}, 1), false},
		{"too many overrides", with(decode.ServiceProfileSpec{DstOverrides: overrides}), false},
	} {
		f := translateProfile(x.profile)
		if (f.Profile != nil) != x.ok || len(f.Problem) > 1000 || x.ok != (f.Problem == "") {
			t.Errorf("%s: used %v: %.300s", x.name, f.Profile != nil, f.Problem)
		}
	}
	for _, o := range []*decode.ServiceProfile{
		{Spec: decode.ServiceProfileSpec{Routes: []*decode.RouteSpec{{Name: "\xff",
			Condition: &decode.Match{Method: "GET"}}}}},
		{Spec: decode.ServiceProfileSpec{Routes: []*decode.RouteSpec{{Condition: &decode.Match{PathRegex: "\xff"}}}}},
		{Spec: decode.ServiceProfileSpec{DstOverrides: []*decode.WeightedDst{{Authority: "\xff"}}}},
		{Spec: decode.ServiceProfileSpec{RetryBudget: &decode.RetryBudget{TTL: "1s", RetryRatio: float32(math.NaN())}}},
		{Spec: decode.ServiceProfileSpec{RetryBudget: &decode.RetryBudget{TTL: "1s",
			RetryRatio: float32(math.Inf(1))}}},
	} {
		if f := translateProfile(o); f.Profile != nil || !utf8.ValidString(f.Problem) {
			t.Errorf("%+v was accepted, or rejected with %q", o.Spec, f.Problem)
		}
	}
}

// FuzzServiceProfile checks that the translation of any JSON can be sent to proxies, and is
// deterministic.
func FuzzServiceProfile(f *testing.F) {
	f.Add(
		`{"routes":[{"name":"r","condition":{"all":[{"method":"GET"},{"not":{"pathRegex":"/x"}}]},"timeout":"1s",` +
			`"responseClasses":[{"condition":{"any":[{"status":{"min":500}}]}}]}]}`,
	)
	f.Add(
		`{"retryBudget":{"retryRatio":0.5,"minRetriesPerSecond":3,"ttl":"1m"},` +
			`"dstOverrides":[{"authority":"a:1","weight":"500m"},{"authority":"b","weight":1e9}]}`,
	)
	f.Add(`{"routes":[null,{"condition":null}],"dstOverrides":[{"weight":-1}]}`)
	f.Add(
		`{"routes":[{"name":"\ud800","condition":` + strings.Repeat(
			`{"not":`,
			40,
		) + `{}` + strings.Repeat(
			"}",
			40,
		) + `}]}`,
	)
	f.Fuzz(func(t *testing.T, spec string) {
		if !json.Valid([]byte(spec)) {
			return
		}
		made := translateProfile(aTranslatedProfile("web.ns", spec))
		if !utf8.ValidString(made.Problem) || len(made.Problem) > 1000 || made.Profile == nil && made.Problem == "" {
			t.Fatalf("%+v", made)
		}
		if again := translateProfile(aTranslatedProfile("web.ns", spec)); !reflect.DeepEqual(made, again) ||
			!made.Equal(again) {
			t.Fatalf("%+v, and again %+v", made, again)
		}
		if made.Profile != nil {
			checkProfile(t, made.Profile)
		}
	})
}

func checkProfile(t *testing.T, p *federation.ServiceProfile) {
	size := 0
	text := func(s string) {
		if size += len(s) + 10; !utf8.ValidString(s) {
			t.Errorf("not printable: %q", s)
		}
	}
	var check func(m federation.Match, depth int)
	check = func(m federation.Match, depth int) {
		if depth > maxNested {
			t.Fatal("the condition is nested too deeply")
		}
		text(m.Text)
		leaf := m.Kind == federation.MatchMethod || m.Kind == federation.MatchPath || m.Kind == federation.MatchStatus
		if leaf && len(m.Sub) > 0 || m.Kind == federation.MatchNot && len(m.Sub) != 1 {
			t.Errorf("%+v", m)
		}
		for _, s := range m.Sub {
			check(s, depth+1)
		}
	}
	for _, r := range p.Routes {
		text(r.Name)
		check(r.Condition, 1)
		if r.Timeout < 0 {
			t.Errorf("timeout %v", r.Timeout)
		}
		for _, c := range r.Classes {
			check(c.Condition, 1)
		}
	}
	for _, o := range p.Overrides {
		if text(o.Authority); o.Authority == "" {
			t.Error("the authority is empty")
		}
	}
	if b := p.Budget; b != nil && (!(b.Ratio >= 0) || b.TTL < 0) {
		t.Errorf("budget %+v", b)
	}
	if size > 4<<20 {
		t.Errorf("%d bytes", size)
	}
}
