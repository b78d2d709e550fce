package local

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"isthmus/clusterstore/cluster"
	"isthmus/federation"
	"isthmus/internal/spec"
)

// written formats tiers, with kinds in capitals and names in quotes.
func written(tiers []federation.Tier) string {
	var b strings.Builder
	for _, tier := range tiers {
		b.WriteString("[")
		for i, term := range tier {
			if i > 0 {
				b.WriteString(" ")
			}
			if term.Kind == federation.Named {
				fmt.Fprintf(&b, "%q", string(term.Cluster))
			} else {
				b.WriteString(map[federation.TermKind]string{federation.AnyCluster: "ANY",
					federation.ClientZone:   "ZONE",
					federation.LocalCluster: "LOCAL",
					federation.SameRegion:   "REGION",
					federation.Remote:       "REMOTE"}[term.Kind])
			}
		}
		b.WriteString("]")
	}
	return b.String()
}

// names returns n different names, joined by separator.
func names(n int, separator string) string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf("c%d", i)
	}
	return strings.Join(list, separator)
}

// TestParseTiers checks the tiers of a preference, and the error for an invalid preference.
//
// Behaviours: PR-08, PR-28.
func TestParseTiers(t *testing.T) {
	longest := strings.Repeat("x", 63)
	for _, c := range []struct{ value, want, problem string }{
		{"local, any", "[LOCAL][ANY]", ""},
		{"zone, local, region, any", "[ZONE][LOCAL][REGION][ANY]", ""},
		{"local, east+north", `[LOCAL]["east" "north"]`, ""},
		{"east, west", `["east"]["west"]`, ""},
		{"remote", "[REMOTE]", ""},
		{"zone+local,remote", "[ZONE LOCAL][REMOTE]", ""},
		{"\t local ,\n east + north ,any ", `[LOCAL]["east" "north"][ANY]`, ""},
		{"any", "", ""},
		{"  any ", "", ""},
		{"any+east", `[ANY "east"]`, ""},
		{"any, east", `[ANY]["east"]`, ""},
		{"cluster/east", `["east"]`, ""},
		{"cluster/zone, cluster/any, any", `["zone"]["any"][ANY]`, ""},
		{"cluster/LOCAL, cluster/Any", `["LOCAL"]["Any"]`, ""},
		{"cluster/region+region", `["region" REGION]`, ""},
		{"eu-1.prod_a, 9", `["eu-1.prod_a"]["9"]`, ""},
		{"cluster", `["cluster"]`, ""},
		{longest, `["` + longest + `"]`, ""},
		{names(16, ","), written(mustParse(t, names(16, ","))), ""},
		{names(64, "+"), written(mustParse(t, names(64, "+"))), ""},

		{"", "", "it is empty"},
		{" \n", "", "it is empty"},
		{",", "", "tier 1 is empty"},
		{"local,", "", "tier 2 is empty"},
		{"local,,any", "", "tier 2 is empty"},
		{"local, ,any", "", "tier 2 is empty"},
		{"+", "", "tier 1: a term is empty"},
		{"local, east+", "", "tier 2: a term is empty"},
		{"local, east++north", "", "tier 2: a term is empty"},
		{"local, local", "", "local occurs twice"},
		{"east+east", "", "east occurs twice"},
		{"any, east, any", "", "any occurs twice"},
		{"east, cluster/east", "", "east occurs twice"},
		{"cluster/zone, cluster/zone", "", "cluster/zone occurs twice"},
		{
			"east, LOCAL", "",
			"tier 2: LOCAL differs from the term local only in case: " +
				"write local or, for a linked cluster named LOCAL, " +
				"cluster/LOCAL",
		},
		{"cluster/", "", "tier 1: cluster/ is incomplete"},
		{"cluster/ east", "", `"cluster/ east" is not zone`},
		{"cluster/local", "", "local always means the cluster that Isthmus runs in: write local"},
		{"cluster/cluster/east", "", "is not zone"},
		{"east/north", "", `"east/north" is not zone, local, region, remote, any or the name of a cluster`},
		{"local; any", "", `"local; any" is not zone`},
		{"local any", "", `"local any" is not zone`},
		{"east-", "", "is not zone"},
		{"ö", "", "is not zone"},
		{"\xff", "", "is not zone"},
		{longest + "x", "", "at most 63"},
		{names(17, ","), "", "more than 16 tiers"},
		{names(65, "+"), "", "more than 64 terms"},
		{names(40, "+") + ",d" + names(40, "+d"), "", "more than 64 terms"},
	} {
		tiers, err := parseTiers(c.value)
		switch {
		case c.problem == "" && err != nil:
			t.Errorf("%q: %v", c.value, err)
		case c.problem != "" && (err == nil || !strings.Contains(err.Error(), c.problem)):
			t.Errorf("%q: error %v, want %q", c.value, err, c.problem)
		case written(tiers) != c.want:
			t.Errorf("%q: %s, want %s", c.value, written(tiers), c.want)
		}
	}
}

func mustParse(t *testing.T, value string) []federation.Tier {
	t.Helper()
	tiers, err := parseTiers(value)
	if err != nil || len(tiers) == 0 {
		t.Fatalf("%q: %v, %v", value, tiers, err)
	}
	return tiers
}

func TestParseMinReady(t *testing.T) {
	for value, want := range map[string]federation.MinReady{
		"1": {Count: 1}, "3": {Count: 3}, " 100000 ": {Count: 100_000},
		"1%": {Percent: 1}, "50%": {Percent: 50}, " 100 % ": {Percent: 100},
		"":                     {},
		"0":                    {},
		"-1":                   {},
		"+1":                   {},
		"1.5":                  {},
		"x":                    {},
		"100001":               {},
		"0x10":                 {},
		"1 0":                  {},
		"99999999999999999999": {},
		"%":                    {}, "0%": {}, "101%": {}, "-5%": {}, "50%%": {}, "%50": {},
	} {
		got, err := parseMinReady(value)
		if got != want || (err != nil) != (want == federation.MinReady{}) {
			t.Errorf("%q: %+v, %v; want %+v", value, got, err, want)
		}
		if err != nil &&
			!strings.Contains(
				err.Error(),
				"write the number of endpoints that must be ready, from 1 to 100000, or a percentage from 1% to 100%",
			) {
			t.Errorf("%q: %v", value, err)
		}
	}
}

func TestParseReturn(t *testing.T) {
	const unreadable = -1
	for value, want := range map[string]time.Duration{
		"0s":      0,
		"0":       0,
		"10s":     10 * time.Second,
		" 1m30s ": 90 * time.Second,
		"10m":     10 * time.Minute,
		"0.5s":    time.Second / 2,
		"":        unreadable,
		"10":      unreadable,
		"-1s":     unreadable,
		"10m1ns":  unreadable,
		"1h":      unreadable,
		"x":       unreadable,
		"5 s":     unreadable,
		"1d":      unreadable,
	} {
		got, err := parseReturn(value, 10*time.Minute, "10m")
		if err != nil {
			got = unreadable
		}
		if got != want {
			t.Errorf("%q: %v, %v; want %v", value, got, err, want)
		}
		if err != nil && !strings.Contains(err.Error(), "write a duration from 0s to 10m, such as 30s") {
			t.Errorf("%q: %v", value, err)
		}
	}
	if d, err := parseReturn("1h", time.Hour, "1h"); err != nil || d != time.Hour {
		t.Errorf("%v, %v", d, err)
	}
	if _, err := parseReturn("61m", time.Hour, "1h"); err == nil || !strings.Contains(err.Error(), "from 0s to 1h,") {
		t.Errorf("%v", err)
	}
}

// TestPreference checks that each annotation of a Service overrides one field of the default.
// Invalid annotations count as unset.
//
// Behaviours: PR-28, PR-30, PR-31.
func TestPreference(t *testing.T) {
	gateway := &federation.Preference{
		Tiers:    []federation.Tier{{{Kind: federation.LocalCluster}}, {{Kind: federation.AnyCluster}}},
		MinReady: federation.MinReady{Count: 2}, ReturnAfter: time.Minute, ReturnOver: time.Second,
	}
	east := []federation.Tier{{{Kind: federation.Named, Cluster: "east"}}}
	with := func(change func(*federation.Preference)) federation.Preference {
		p := *gateway
		change(&p)
		return p
	}
	for name, tt := range map[string]struct {
		annotations map[string]string
		want        federation.Preference
		problems    []string // beginnings
	}{
		"none":   {nil, *gateway, nil},
		"others": {map[string]string{"isthmus.io/else": "x", remoteDiscovery: ""}, *gateway, nil},
		"prefer": {
			map[string]string{"isthmus.io/prefer": "east"},
			with(func(p *federation.Preference) { p.Tiers = east }),
			nil,
		},
		"any": {
			map[string]string{"isthmus.io/prefer": "any"},
			with(func(p *federation.Preference) { p.Tiers = nil }),
			nil,
		},
		"min-ready": {
			map[string]string{"isthmus.io/min-ready": "50%"},
			with(func(p *federation.Preference) { p.MinReady = federation.MinReady{Percent: 50} }),
			nil,
		},
		"return-after": {
			map[string]string{"isthmus.io/return-after": "0s"},
			with(func(p *federation.Preference) { p.ReturnAfter = 0 }),
			nil,
		},
		"return-over": {
			map[string]string{"isthmus.io/return-over": "10m"},
			with(func(p *federation.Preference) { p.ReturnOver = 10 * time.Minute }),
			nil,
		},
		"all": {
			map[string]string{
				"isthmus.io/prefer":       "east",
				"isthmus.io/min-ready":    "7",
				"isthmus.io/return-after": "1h",
				"isthmus.io/return-over":  "0s",
			},
			federation.Preference{Tiers: east, MinReady: federation.MinReady{Count: 7}, ReturnAfter: time.Hour}, nil},
		"none can be read": {
			map[string]string{
				"isthmus.io/prefer":       "a,,b",
				"isthmus.io/min-ready":    "-",
				"isthmus.io/return-after": "2h",
				"isthmus.io/return-over":  "1h",
			},
			*gateway,
			[]string{
				"annotation isthmus.io/prefer: tier 2 is empty",
				`annotation isthmus.io/min-ready: it is "-"`,
				`annotation isthmus.io/return-after: it is "2h"`,
				`annotation isthmus.io/return-over: it is "1h"`,
			}},
		"one can be read": {
			map[string]string{"isthmus.io/prefer": "east", "isthmus.io/min-ready": "200%"},
			with(func(p *federation.Preference) { p.Tiers = east }),
			[]string{"annotation isthmus.io/min-ready: "}},
	} {
		p, problems := preference(&cluster.Service{Annotations: tt.annotations}, gateway)
		if !reflect.DeepEqual(*p, tt.want) {
			t.Errorf("%s: %+v, want %+v", name, *p, tt.want)
		}
		ok := len(problems) == len(tt.problems)
		for i := range min(len(problems), len(tt.problems)) {
			ok = ok && strings.HasPrefix(problems[i], tt.problems[i]) &&
				strings.HasSuffix(problems[i], "; the annotation is ignored")
		}
		if !ok {
			t.Errorf("%s: problems %q, want %q", name, problems, tt.problems)
		}
	}
	if gateway.ReturnOver != time.Second || len(gateway.Tiers) != 2 {
		t.Errorf("the default was changed: %+v", gateway)
	}
}

// TestPreferenceIsShared checks that Services without annotations share the default preference.
// Sharing costs each Service only a pointer.
//
// Behaviours: PR-18.
func TestPreferenceIsShared(t *testing.T) {
	gateway := DefaultPreference()
	for name, svc := range map[string]*cluster.Service{
		"plain":     {},
		"federated": {Annotations: map[string]string{remoteDiscovery: "web@east"}},
		"mirror":    {Labels: map[string]string{remoteDiscovery: "east", remoteService: "web"}},
		"of none":   {Labels: map[string]string{remoteDiscovery: "east"}},
	} {
		if d, _ := define(shopWeb, svc, &gateway); d.Preference != &gateway {
			t.Errorf("%s: %+v", name, d.Preference)
		}
		svc.Annotations = map[string]string{"isthmus.io/prefer": "zone", "isthmus.io/min-ready": "?"}
		d, problems := define(shopWeb, svc, &gateway)
		if d.Preference.String() != "zone" || len(problems) == 0 ||
			!strings.Contains(problems[len(problems)-1], "isthmus.io/min-ready") {
			t.Errorf("%s: %v, %q", name, d.Preference, problems)
		}
	}
	if gateway.Tiers != nil || gateway.ReturnAfter != 10*time.Second || gateway.ReturnOver != 0 ||
		gateway.MinReady.Count != 1 {
		t.Errorf("default %+v", gateway)
	}
}

func TestSetPreference(t *testing.T) {
	p := DefaultPreference()
	before := p
	for _, name := range []string{"prefer", "min-ready", "return-after", "return-over", "else"} {
		if err := SetPreference(&p, name, ",,"); err == nil || !reflect.DeepEqual(p, before) {
			t.Errorf("%s: %v, %+v", name, err, p)
		}
	}
}

// hostile returns values as large as annotations may be.
func hostile() map[string]string {
	const size = 256 << 10
	return map[string]string{
		"blanks":    strings.Repeat(" ", size),
		"commas":    strings.Repeat(",", size),
		"plus":      strings.Repeat("+", size),
		"one name":  strings.Repeat("x", size),
		"no name":   strings.Repeat("ö/", size/3),
		"names":     names(40_000, ","),
		"terms":     names(40_000, "+"),
		"last tier": strings.Repeat("a,", 15) + strings.Repeat("b+", size/2),
		"digits":    strings.Repeat("9", size),
		"durations": strings.Repeat("0s", size/2),
		"binary":    strings.Repeat("\xff", size),
	}
}

// TestHostilePreference checks that large annotations cause few allocations and short problems.
func TestHostilePreference(t *testing.T) {
	gateway := DefaultPreference()
	for name, value := range hostile() {
		svc := &cluster.Service{Annotations: make(map[string]string)}
		for _, f := range preferenceFields {
			svc.Annotations[preferenceDomain+f.name] = value
		}
		_, problems := preference(svc, &gateway)
		if len(problems) < 2 { // "0s0s…" is a duration
			t.Errorf("%s: %d problems", name, len(problems))
		}
		for _, p := range problems {
			if len(p) > 1000 {
				t.Errorf("%s: a problem has %d bytes", name, len(p))
			}
		}
		if n := testing.AllocsPerRun(1, func() { preference(svc, &gateway) }); n > 1000 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

// FuzzPreference compares parsed preferences with package spec. A parsed preference is within the
// bounds, and parsing its text form yields the same preference. Errors are short.
func FuzzPreference(f *testing.F) {
	for _, value := range []string{
		"local, any", "zone, local+east, cluster/zone, any", "any", " any ", "any+east",
		"cluster/east, east", "east,,", "a+a",
		"cluster/", "cluster/ANY", "cluster/local", "LOCAL", "east-", "a/b", "", names(17, ","), names(65, "+"),
		"50%", " 50 % ", "101%", "3", "0", "+1", "100001", "10s", " 1m ", "1h", "61m", "-1", "\xff, ö",
	} {
		f.Add(value)
	}
	f.Fuzz(func(t *testing.T, value string) {
		for _, field := range preferenceFields {
			p := DefaultPreference()
			err := SetPreference(&p, field.name, value)
			byDefault := DefaultPreference()
			want := specified(&byDefault).With(map[string]string{preferenceDomain + field.name: value})
			if got := specified(&p); !reflect.DeepEqual(got, want) {
				t.Fatalf("%s: %q is parsed as %+v, %v, want %+v", field.name, value, got, err, want)
			}
			if err != nil {
				if len(err.Error()) > 1000 {
					t.Fatalf("%s: the error has %d bytes", field.name, len(err.Error()))
				}
				continue
			}
			checkBounds(t, &p)
			shown := map[string]string{
				"prefer":       p.String(),
				"min-ready":    p.MinReady.String(),
				"return-after": p.ReturnAfter.String(),
				"return-over":  p.ReturnOver.String(),
			}[field.name]
			again := DefaultPreference()
			if err := field.set(&again, shown); err != nil || !reflect.DeepEqual(again, p) {
				t.Fatalf(
					"%s: %q is shown as %q, which is read as %+v, %v; not %+v",
					field.name,
					value,
					shown,
					again,
					err,
					p,
				)
			}
		}
	})
}

// specified converts a preference to the type of package spec.
func specified(p *federation.Preference) spec.Preference {
	reference := spec.Preference{
		Count:       p.MinReady.Count,
		Percent:     p.MinReady.Percent,
		ReturnAfter: p.ReturnAfter,
		ReturnOver:  p.ReturnOver,
	}
	for _, tier := range p.Tiers {
		var terms []string
		for _, term := range tier {
			if term.Kind == federation.Named {
				terms = append(terms, spec.Explicit+string(term.Cluster))
			} else {
				terms = append(terms, term.String())
			}
		}
		reference.Tiers = append(reference.Tiers, terms)
	}
	return reference
}

func checkBounds(t *testing.T, p *federation.Preference) {
	seen := make(map[federation.Term]bool)
	for _, tier := range p.Tiers {
		if len(tier) == 0 {
			t.Fatal("a tier is empty")
		}
		for _, term := range tier {
			if seen[term] || (term.Kind == federation.Named) != (term.Cluster != "") || term.Cluster == "local" {
				t.Fatalf("term %+v", term)
			}
			seen[term] = true
		}
	}
	if len(p.Tiers) > 16 || len(seen) > 64 {
		t.Fatalf("%d tiers, %d terms", len(p.Tiers), len(seen))
	}
	if m := p.MinReady; m.Percent < 0 || m.Percent > 100 || m.Percent == 0 && m.Count < 1 || p.ReturnAfter < 0 ||
		p.ReturnAfter > time.Hour ||
		p.ReturnOver < 0 ||
		p.ReturnOver > 10*time.Minute {
		t.Fatalf("%+v", p)
	}
}
