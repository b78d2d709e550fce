package serviceprofile

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"isthmus/clusterstore/crd"
	"isthmus/federation"
)

// aProfile makes a ServiceProfile for a Service "name.namespace", with that spec as
// JSON.
func aProfile(service, spec string) *crd.ServiceProfile {
	data, err := json.Marshal(service + ".svc.cluster.local")
	if err != nil {
		panic(err)
	}
	o := &crd.ServiceProfile{}
	if err := json.Unmarshal([]byte(`{"metadata":{"namespace":"ns","name":`+string(data)+`},"spec":`+spec+`}`), o); err != nil {
		panic(err)
	}
	return o
}

// renderMatch renders a condition as text.
func renderMatch(m federation.Match) string {
	var parts []string
	for _, s := range m.Sub {
		parts = append(parts, renderMatch(s))
	}
	sub := "(" + strings.Join(parts, " ") + ")"
	switch m.Kind {
	case federation.MatchAll:
		return "all" + sub
	case federation.MatchAny:
		return "any" + sub
	case federation.MatchNot:
		return "not" + sub
	case federation.MatchMethod:
		return "method:" + m.Text
	case federation.MatchPath:
		return "path:" + m.Text
	}
	return fmt.Sprintf("%d-%d", m.Min, m.Max)
}

// renderProfile renders a ServiceProfile as text, a line for each part.
func renderProfile(f *Translated) string {
	if f.Profile == nil {
		return "refused: " + f.Problem
	}
	var lines []string
	for _, r := range f.Profile.Routes {
		line := fmt.Sprintf("%s: %s", r.Name, renderMatch(r.Condition))
		if r.Retryable {
			line += " retryable"
		}
		if r.Timeout != 0 {
			line += " " + r.Timeout.String()
		}
		for _, c := range r.Classes {
			line += fmt.Sprintf(" [%s %v]", renderMatch(c.Condition), c.Failure)
		}
		lines = append(lines, line)
	}
	if b := f.Profile.Budget; b != nil {
		lines = append(lines, fmt.Sprintf("budget %v %d %v", b.Ratio, b.MinPerSecond, b.TTL))
	}
	for _, o := range f.Profile.Overrides {
		lines = append(lines, fmt.Sprintf("%s %d", o.Authority, o.Weight))
	}
	if f.Problem != "" {
		lines = append(lines, "but "+f.Problem)
	}
	return strings.Join(lines, "\n")
}

// TestServiceProfile: the translation of specs, valid and malformed.
func TestServiceProfile(t *testing.T) {
	route := func(condition string) string { return `{"routes":[{"name":"r","condition":` + condition + `}]}` }
	response := func(condition string) string {
		return `{"routes":[{"name":"r","condition":{"method":"GET"},"responseClasses":[{"isFailure":true,"condition":` + condition + `}]}]}`
	}
	override := func(weight string) string {
		return `{"dstOverrides":[{"authority":"a.ns:80","weight":` + weight + `}]}`
	}
	budget := func(rest string) string { return `{"retryBudget":{"minRetriesPerSecond":5,` + rest + `}}` }
	for _, x := range []struct{ name, spec, want string }{
		{"nothing", `{}`, ""},
		{"SP-01 all, not, method, path, any, status", `{"routes":[{"name":"GET /a","isRetryable":true,"timeout":"1s","condition":{"all":[{"method":"GET"},{"not":{"pathRegex":"/x"}}]},
			"responseClasses":[{"condition":{"any":[{"status":{"min":500,"max":599}},{"status":{"min":404,"max":404}}]},"isFailure":true}]},{"name":"b","condition":{"pathRegex":"/b"}}]}`,
			"GET /a: all(method:GET not(path:/x)) retryable 1s [any(500-599 404-404) true]\nb: path:/b"},
		{"SP-02 method and path", route(`{"pathRegex":"/a","method":"GET"}`), "r: all(method:GET path:/a)"},
		{"all fields, in order", route(`{"pathRegex":"/a","not":{"method":"PUT"},"method":"GET","any":[{"method":"A"}],"all":[{"method":"B"}]}`),
			"r: all(all(method:B) any(method:A) method:GET not(method:PUT) path:/a)"},
		{"SP-03 V-01 empty request condition", route(`{}`), `refused: routes[0] "r": condition: no field is set`},
		{"V-01 no request condition", route(`null`), `refused: routes[0] "r": condition: null or missing`},
		{"null among all", route(`{"all":[{"method":"GET"},null]}`), `refused: routes[0] "r": condition: all[1]: null or missing`},
		{"null among any", route(`{"not":{"any":[null]}}`), `refused: routes[0] "r": condition: not: any[0]: null or missing`},
		{"an empty one inside", route(`{"all":[{"not":{}}]}`), `refused: routes[0] "r": condition: all[0]: not: no field is set`},
		{"all of nothing", route(`{"all":[]}`), "r: all()"},
		{"null is not set", route(`{"all":null,"any":null,"not":null,"method":"GET"}`), "r: method:GET"},
		{"a null route", `{"routes":[{"name":"r","condition":{"method":"GET"}},null]}`, "refused: routes[1] is null"},
		{"a route without name", `{"routes":[{"condition":{"method":"GET"}}]}`, ": method:GET"},
		{"SP-04 status and not", response(`{"not":{"status":{"min":501,"max":501}},"status":{"min":500,"max":599}}`), "r: method:GET [all(500-599 not(501-501)) true]"},
		{"all of a response, in order", response(`{"not":{"status":{"max":100}},"status":{"min":500},"any":[{"status":{}}],"all":[{"status":{"min":100}}]}`),
			"r: method:GET [all(all(100-0) any(0-0) 500-0 not(0-100)) true]"},
		{"deep inside", response(`{"all":[{"any":[{"status":{"min":1}}]}]}`),
			`refused: routes[0] "r": responseClasses[0]: condition: all[0]: any[0]: status: code 1 is not from 100 to 599`},
		{"SP-05 empty response condition", response(`{}`), `refused: routes[0] "r": responseClasses[0]: condition: no field is set`},
		{"no response condition", response(`null`), `refused: routes[0] "r": responseClasses[0]: condition: null or missing`},
		{"a null class", `{"routes":[{"name":"r","condition":{"method":"GET"},"responseClasses":[null]}]}`, `refused: routes[0] "r": responseClasses[0] is null`},
		{"SP-06 V-01 the other way round", response(`{"status":{"min":201,"max":200}}`), `refused: routes[0] "r": responseClasses[0]: condition: status: range 201-200 is empty`},
		{"SP-07 min only", response(`{"status":{"min":500}}`), "r: method:GET [500-0 true]"},
		{"max only", response(`{"status":{"max":200}}`), "r: method:GET [0-200 true]"},
		{"V-01 too low", response(`{"status":{"min":99}}`), `refused: routes[0] "r": responseClasses[0]: condition: status: code 99 is not from 100 to 599`},
		{"V-01 too high", response(`{"status":{"max":600}}`), `refused: routes[0] "r": responseClasses[0]: condition: status: code 600 is not from 100 to 599`},
		{"V-01 wrong type", `{"routes":{}}`, "refused: spec: "},
		{"V-01 unknown field", `{"routes":[],"unknown":1}`, ""},
		{"SP-09 timeout", `{"routes":[{"name":"r","condition":{"method":"GET"},"timeout":"200ms"}]}`, "r: method:GET 200ms"},
		{"no timeout", `{"routes":[{"name":"r","condition":{"method":"GET"},"timeout":"0s"}]}`, "r: method:GET"},
		{"negative timeout", `{"routes":[{"name":"r","condition":{"method":"GET"},"timeout":"-1s"}]}`, "r: method:GET"},
		{"V-01 timeout that is none", `{"routes":[{"name":"r","condition":{"method":"GET"},"timeout":"soon"}]}`, "r: method:GET\nbut routes[0] \"r\": timeout: \"soon\" is not a duration"},
		{"budget", budget(`"retryRatio":0.5,"ttl":"10s"`), "budget 0.5 5 10s"},
		{"V-01 no ttl", budget(`"retryRatio":0.5`), `refused: retryBudget: ttl: "" is not a duration`},
		{"V-01 ttl that is none", budget(`"retryRatio":0.5,"ttl":"x"`), `refused: retryBudget: ttl: "x" is not a duration`},
		{"negative ttl", budget(`"ttl":"-1s"`), "refused: retryBudget: ttl: -1s is negative"},
		{"negative ratio", budget(`"retryRatio":-0.1,"ttl":"1s"`), "refused: retryBudget: retryRatio is -0.10000000149011612: it must be a finite number, 0 or more"},
		{"override", `{"dstOverrides":[{"authority":"a.ns:80","weight":1},{"authority":"b.ns","weight":"500m"}]}`, "a.ns:80 10000\nb.ns 5000"},
		{"no weight", `{"dstOverrides":[{"authority":"a.ns"}]}`, "a.ns 0"},
		{"weight rounded up", override(`"0.0001"`), "a.ns:80 10"},
		{"the most", override(`"429496"`), "a.ns:80 4294960000"},
		{"more than the most", override(`429497`), "a.ns:80 4294967295"},
		{"far more", override(`"9E"`), "a.ns:80 4294967295"},
		{"with exponent", override(`1e2`), "a.ns:80 1000000"},
		{"with a great exponent", override(`1e99`), "a.ns:80 4294967295"},
		{"with an exponent that takes for ever", override(`1e999999999`), `refused: dstOverrides[0]: weight: "1e999999999" is too long`},
		{"negative weight", override(`-1`), "refused: dstOverrides[0]: weight: -1 is negative"},
		{"a weight that is none", override(`"heavy"`), `refused: dstOverrides[0]: weight: "heavy" is not a quantity`},
		{"no authority", `{"dstOverrides":[{"weight":1}]}`, "refused: dstOverrides[0]: authority is missing"},
		{"null override", `{"dstOverrides":[null]}`, "refused: dstOverrides[0]: null or missing"},
		{"opaque ports are the Service's", `{"opaquePorts":{"80":{}}}`, ""},
		{"whatever they are here", `{"opaquePorts":"80"}`, ""},
	} {
		t.Run(x.name, func(t *testing.T) {
			f := Translate(aProfile("web.ns", x.spec))
			if got := renderProfile(f); got != x.want && !(strings.HasSuffix(x.want, "spec: ") && strings.HasPrefix(got, x.want)) {
				t.Errorf("got\n%s\nwant\n%s", got, x.want)
			}
			if p := f.Profile; p != nil && (p.Namespace != "ns" || p.Name != "web.ns.svc.cluster.local") {
				t.Errorf("of %s/%s", p.Namespace, p.Name)
			}
		})
	}
}

// TestServiceProfileBounds: a ServiceProfile that proxies could not decode is refused,
// and one within the limits is not.
func TestServiceProfileBounds(t *testing.T) {
	nested := func(n int) string {
		return `{"routes":[{"name":"r","condition":` + strings.Repeat(`{"not":`, n) + `{"method":"GET"}` + strings.Repeat("}", n) + `}]}`
	}
	both := func(n int) string {
		return `{"routes":[{"name":"r","condition":` + strings.Repeat(`{"method":"GET","not":`, n) + `{"method":"GET"}` + strings.Repeat("}", n) + `}]}`
	}
	wide := func(n int) string {
		return `{"routes":[{"name":"r","condition":{"all":[` + strings.TrimSuffix(strings.Repeat(`{"method":"GET"},`, n), ",") + `]}}]}`
	}
	for _, x := range []struct {
		name, spec string
		ok         bool
	}{
		{"nested", nested(maxNested - 1), true},
		{"nested too deep", nested(maxNested), false},
		{"nested, with several fields", both(maxNested/2 - 1), true},
		{"nested too deep, with several fields", both(maxNested / 2), false},
		{"nested far too deep", nested(5000), false},
		{"many", wide(40_000), true},
		{"too many", wide(100_000), false},
		{"too many routes", `{"routes":[` + strings.Repeat(`{"condition":{"method":"GET"}},`, 50_000) + `{"condition":{"method":"GET"}}]}`, false},
		{"too long", `{"routes":[{"name":"r","condition":{"pathRegex":"` + strings.Repeat("a", maxProfile) + `"}}]}`, false},
		{"too many overrides", `{"dstOverrides":[` + strings.Repeat(`{"authority":"a"},`, 100_000) + `{"authority":"a"}]}`, false},
	} {
		f := Translate(aProfile("web.ns", x.spec))
		if (f.Profile != nil) != x.ok || len(f.Problem) > 1000 || x.ok != (f.Problem == "") {
			t.Errorf("%s: used %v: %.300s", x.name, f.Profile != nil, f.Problem)
		}
	}
	for _, o := range []*crd.ServiceProfile{
		{Spec: crd.ServiceProfileSpec{Routes: []*crd.RouteSpec{{Name: "\xff", Condition: &crd.Match{Method: "GET"}}}}},
		{Spec: crd.ServiceProfileSpec{Routes: []*crd.RouteSpec{{Condition: &crd.Match{PathRegex: "\xff"}}}}},
		{Spec: crd.ServiceProfileSpec{DstOverrides: []*crd.WeightedDst{{Authority: "\xff"}}}},
		{Spec: crd.ServiceProfileSpec{RetryBudget: &crd.RetryBudget{TTL: "1s", RetryRatio: float32(math.NaN())}}},
		{Spec: crd.ServiceProfileSpec{RetryBudget: &crd.RetryBudget{TTL: "1s", RetryRatio: float32(math.Inf(1))}}},
	} {
		if f := Translate(o); f.Profile != nil || !utf8.ValidString(f.Problem) {
			t.Errorf("%+v is used, or refused with %q", o.Spec, f.Problem)
		}
	}
}

// FuzzServiceProfile: whatever JSON a spec contains, the result can be sent to proxies,
// and is the same each time.
func FuzzServiceProfile(f *testing.F) {
	f.Add(`{"routes":[{"name":"r","condition":{"all":[{"method":"GET"},{"not":{"pathRegex":"/x"}}]},"timeout":"1s","responseClasses":[{"condition":{"any":[{"status":{"min":500}}]}}]}]}`)
	f.Add(`{"retryBudget":{"retryRatio":0.5,"minRetriesPerSecond":3,"ttl":"1m"},"dstOverrides":[{"authority":"a:1","weight":"500m"},{"authority":"b","weight":1e9}]}`)
	f.Add(`{"routes":[null,{"condition":null}],"dstOverrides":[{"weight":-1}]}`)
	f.Add(`{"routes":[{"name":"\ud800","condition":` + strings.Repeat(`{"not":`, 40) + `{}` + strings.Repeat("}", 40) + `}]}`)
	f.Fuzz(func(t *testing.T, spec string) {
		if !json.Valid([]byte(spec)) {
			return
		}
		made := Translate(aProfile("web.ns", spec))
		if !utf8.ValidString(made.Problem) || len(made.Problem) > 1000 || made.Profile == nil && made.Problem == "" {
			t.Fatalf("%+v", made)
		}
		if again := Translate(aProfile("web.ns", spec)); !reflect.DeepEqual(made, again) || !made.Equal(again) {
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
			t.Errorf("no text: %q", s)
		}
	}
	var check func(m federation.Match, depth int)
	check = func(m federation.Match, depth int) {
		if depth > maxNested {
			t.Fatal("nested too deep")
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
			t.Error("no authority")
		}
	}
	if b := p.Budget; b != nil && (!(b.Ratio >= 0) || b.TTL < 0) {
		t.Errorf("budget %+v", b)
	}
	if size > 4<<20 {
		t.Errorf("%d bytes", size)
	}
}
