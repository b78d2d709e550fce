package plan

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
)

// TestImportOfHostileTraffic checks invalid traffic fields of the deciding export. Invalid fields
// must not make the API reject the derived Service, cause repeated writes, or make the Service
// large.
func TestImportOfHostileTraffic(t *testing.T) {
	for _, tc := range []struct{ is, want Traffic }{
		{
			Traffic{
				SessionAffinity:       "Bogus\x1b",
				AffinitySeconds:       7,
				InternalTrafficPolicy: "x",
				TrafficDistribution:   strings.Repeat("x", 1<<20),
			},
			Traffic{SessionAffinity: "None"},
		},
		{Traffic{SessionAffinity: "None", AffinitySeconds: 7}, Traffic{SessionAffinity: "None"}},
		{Traffic{SessionAffinity: "ClientIP"}, Traffic{SessionAffinity: "ClientIP", AffinitySeconds: 10800}},
		{
			Traffic{SessionAffinity: "ClientIP", AffinitySeconds: -1},
			Traffic{SessionAffinity: "ClientIP", AffinitySeconds: 10800},
		},
		{
			Traffic{SessionAffinity: "ClientIP", AffinitySeconds: 86401},
			Traffic{SessionAffinity: "ClientIP", AffinitySeconds: 10800},
		},
		{
			Traffic{
				SessionAffinity:       "ClientIP",
				AffinitySeconds:       86400,
				InternalTrafficPolicy: "Local",
				TrafficDistribution:   "PreferClose",
			},
			Traffic{"ClientIP", 86400, "Local", "PreferClose"},
		},
	} {
		older, newer := export("web", "import", "http=80"), export("web", "import", "http=80,admin=90")
		older.Service.Traffic, newer.Exported.Created = tc.is, start.Add(time.Second)
		s := newSim(cluster("", newer), cluster("west", older))
		s.settle(t)
		s.want(t, "web-clusterset", "http=80,admin=90 of local,west")
		derived := s.Services[ID{"shop", "web-clusterset"}].Traffic
		if o := s.imported(t, "web"); o.Traffic != tc.want || derived.SessionAffinity != tc.want.SessionAffinity ||
			derived.AffinitySeconds != tc.want.AffinitySeconds {
			t.Errorf(
				"%.100s: the import has %.100s, its Service %.100s",
				fmt.Sprint(tc.is),
				fmt.Sprint(o.Traffic),
				fmt.Sprint(derived),
			)
		}
		got := s.condition("web", "Ready")
		if strings.Contains(got, "trafficDistribution is invalid") != (tc.is != tc.want) {
			t.Error(got)
		}
		if got := s.condition("web", "Conflict"); len(got) > 1000 || strings.Contains(got, "\x1b") {
			t.Errorf("%.1000q", got)
		}
	}
}

// TestExportedRefused checks that exportedLabels that the API would reject are left out and
// reported.
func TestExportedRefused(t *testing.T) {
	e := export("web", "import", "http=80")
	e.Exported.Labels, e.Exported.Annotations = map[string]string{
		"tier": "gold",
		"team": "not/valid/",
	}, map[string]string{"not valid": "x"}
	s := newSim(cluster("", e))
	s.settle(t)
	if o := s.imported(t, "web"); o.Labels["tier"] != "gold" || o.Labels["team"] != "" ||
		o.Annotations["not valid"] != "" {
		t.Errorf("import %+v", o)
	}
	const want = `label "team": API servers would reject it; annotation "not valid": API servers would reject it`
	if got := s.condition("web", "Ready"); got != "Ready the ServiceImport is written: "+want {
		t.Error(got)
	}
	if got := s.last.Verdicts[0].Detail; got != want {
		t.Error(got)
	}
}

// TestTextsOfOthers checks that conditions of the local cluster's ServiceExports quote texts from
// other clusters.
func TestTextsOfOthers(t *testing.T) {
	west := export("web", "import", "http=80,admin=90")
	west.Exported.Created = start.Add(time.Second)
	west.Exported.Annotations = map[string]string{"a": "\x1b[31mb (local, used)"}
	west.Service.Ports[0].AppProtocol, west.Service.Ports[1].Protocol = "h2c (local, used)", "\x1b"
	s := newSim(cluster("", export("web", "import", "http=80,admin=90/UDP")), cluster("west", west))
	s.settle(t)
	if got, want := s.condition("web", "Conflict"),
		`AnnotationsConflict,PortConflict exportedAnnotations: none (local, used), "a=\x1b[31mb (local, used)" `+
			`(west); `+
			`port http: 80 (local, used), 80 "h2c (local, used)" (west); port admin: 90/UDP (local, used), `+
			`90/"\x1b" (west)`; got != want {
		t.Errorf("got\n%q, want\n%q", got, want)
	}
	long := map[string]string{"x": strings.Repeat("y", 1<<20)}
	other := map[string]string{"x": strings.Repeat("y", 1<<20) + "z"}
	if a, b := shownMap(long, nil), shownMap(other, nil); a == b || len(a) > 200 {
		t.Errorf("%.300s", a)
	}
}

func TestImportKeepsItsType(t *testing.T) {
	headless := export("web", "import", "http=80")
	headless.Service.ClusterIPs, headless.Exported.Created = []string{"None"}, start.Add(-time.Hour)
	s := newSim(cluster("", export("web", "import", "http=80")), cluster("west"))
	s.settle(t)
	s.Now = s.Now.Add(time.Minute)
	s.of("west").Exports = []Export{headless}
	s.settle(t)
	if o := s.imported(t, "web"); o.Type != "ClusterSetIP" || len(o.IPs) == 0 {
		t.Errorf("import %+v", o)
	}
	if got := s.condition("web", "Conflict"); got != "TypeConflict type: ClusterSetIP (local, used), Headless (west)" {
		t.Error(got)
	}
	s.of("").Exports = nil
	s.settleSoon(t)
	if o := s.imported(t, "web"); o.Type != "Headless" || len(o.IPs) > 0 || len(o.Ports) > 0 || len(s.Services) > 0 {
		t.Errorf("import %+v, Services %v", o, s.Services)
	}
}

// TestImportKeepsItsPorts checks that a settled port stays while an export has the port, even if an
// older export appears.
func TestImportKeepsItsPorts(t *testing.T) {
	claims := export("web", "import", "http=666")
	claims.Exported.Created = start.Add(-time.Hour)
	s := newSim(cluster("", export("web", "import", "http=80")), cluster("west"))
	s.settle(t)
	s.Now = s.Now.Add(time.Minute)
	s.of("west").Exports = []Export{claims}
	s.settle(t)
	s.want(t, "web-clusterset", "http=80 of local,west")
}

// marked returns a ServiceImport that has only the mark.
func marked(name string) *ServiceImport {
	id := ID{"shop", name}
	return &ServiceImport{
		ID:          id,
		Labels:      map[string]string{markLabel: "linkerd"},
		Annotations: map[string]string{markAnnotation: "ServiceImport " + id.String()},
	}
}

// TestServiceExportsGone checks a cluster that stops serving ServiceExports, or whose
// ServiceExports cannot be read. The cluster's members of ServiceImports stay until UnlinkedAfter
// has passed. The cluster's mirrors are removed at once.
func TestServiceExportsGone(t *testing.T) {
	for name, tc := range map[string]struct {
		seen, emptied, soon      bool
		state, inSeconds, inTime string
	}{
		"unread":       {false, false, false, "kept", "http=80 of local,west", "http=80 of local,west"},
		"gone":         {true, false, false, "held", "http=80 of local", "http=80 of local"},
		"no such kind": {true, true, true, "held", "http=80 of local,west", "http=80 of local"},
		"one by one":   {true, false, true, "held", "http=80 of local,west", "http=80 of local"},
	} {
		s := newSim(cluster("", export("web", "import", "http=80")), cluster(
			"west", export("web", "mirror import", "http=80"),
		))
		s.settle(t)
		west, empty := s.of("west"), ID{"shop", "empty"}
		west.Exports, west.ServiceExportsSynced, west.Emptied = nil, tc.seen, tc.emptied
		s.Imports[empty] = marked(empty.Name)
		s.settle(t)
		s.want(t, "web-west", "none")
		s.want(t, "web-clusterset", "http=80 of local,west")
		if got := s.states(); got != "local/web import: written; west/web import: "+tc.state {
			t.Errorf("%s: %s", name, got)
		}
		if there := s.Imports[empty] != nil; there == tc.seen {
			t.Errorf("%s: the ServiceImport without members exists: %v", name, there)
		}
		s.Now = s.Now.Add(kindTime - 1)
		west.Emptied = tc.soon
		s.settle(t)
		s.want(t, "web-clusterset", "http=80 of local,west")
		s.Now = s.Now.Add(1)
		s.settle(t)
		s.want(t, "web-clusterset", tc.inSeconds)
		s.Now = s.Now.Add(s.UnlinkedAfter)
		s.settle(t)
		s.want(t, "web-clusterset", tc.inTime)
	}
}

// TestClusterNameOfLink checks that a link with the local cluster's name does not join
// ServiceImports. The status of a ServiceImport could not distinguish the two clusters.
func TestClusterNameOfLink(t *testing.T) {
	for _, ips := range []string{"None", "10.0.0.1"} {
		e := export("web", "mirror import", "http=80")
		e.Service.ClusterIPs = []string{ips}
		s := newSim(cluster("", e), cluster("west", e))
		s.ClusterName = "west"
		for range 2 { // two leaders
			s.settle(t)
			if got := s.states(); got != "local/web import: written; west/web import: name refused; west/web "+
				"mirror: written" {
				t.Errorf("%s: %s", ips, got)
			}
			s.memory = Memory{}
		}
		if o := s.imported(t, "web"); !slices.Equal(o.Clusters, []string{"west"}) {
			t.Errorf("import %+v", o)
		}
		s.of("").Exports = nil
		if s.settleSoon(t); len(s.Imports) > 0 {
			t.Errorf("remaining ServiceImports: %v", s.Imports)
		}
	}
}

// TestClusterNameChanged checks that the former name of the local cluster does not count as an
// unlinked cluster.
func TestClusterNameChanged(t *testing.T) {
	s := newSim(cluster("", export("web", "import", "http=80")), cluster("west", export("web", "import", "http=80")))
	s.settle(t)
	s.ClusterName = "east"
	if w := s.settle(t); !slices.Equal(w, []string{"import shop/web"}) ||
		!slices.Equal(s.imported(t, "web").Clusters, []string{"east", "west"}) {
		t.Errorf("writes %q, %s, import %+v", w, s.states(), s.imported(t, "web"))
	}
	s.Clusters = s.Clusters[:1]
	if w := s.settle(t); len(w) > 0 || s.states() != "local/web import: written; west/web import: held" {
		t.Errorf("after west was unlinked: writes %q, %s", w, s.states())
	}
}

// TestLabelOfDerived checks that the label of derived Services alone does not turn another written
// Service into a derived Service.
func TestLabelOfDerived(t *testing.T) {
	s := newSim(cluster("west", export("web", "mirror", "http=80")))
	s.settle(t)
	s.Services[ID{"shop", "web-west"}].Labels[importLabel] = "web"
	s.settle(t)
	if o := s.Services[ID{
		"shop", "web-west",
	}]; o.Labels[importLabel] != "" || s.states() != "west/web mirror: written" {
		t.Errorf("labels %v, %s", o.Labels, s.states())
	}
	s.Services[ID{"shop", "web-west"}].Labels[importLabel] = "web"
	s.of("west").Exports = nil
	s.settle(t)
	s.want(t, "web-west", "none")
}

// TestDerivedGoneWhileUnknown checks that a deleted derived Service is created again from the
// ServiceImport while the exports are unknown.
func TestDerivedGoneWhileUnknown(t *testing.T) {
	s := newSim(cluster("west", export("web", "import", "http=80")))
	s.settle(t)
	s.of("west").Synced, s.of("west").Exports = false, nil
	for what, undo := range map[string]func(id ID){
		"deleted":     func(id ID) { delete(s.Services, id) },
		"taken apart": func(id ID) { o := *s.Services[id]; o.Ports, s.Services[id] = nil, &o },
	} {
		undo(ID{"shop", "web-clusterset"})
		s.settle(t)
		s.want(t, "web-clusterset", "http=80 of west")
		o, derived := s.imported(t, "web"), s.Services[ID{"shop", "web-clusterset"}]
		if len(o.Ports) != 1 || !slices.Equal(o.IPs, derived.ClusterIPs) || derived.Ports[0].Target != "80" {
			t.Errorf("%s: import %+v, derived Service %+v", what, o, derived)
		}
	}
}

// TestRemovedSlowly checks that a slow removal neither restarts nor adds removed members again.
func TestRemovedSlowly(t *testing.T) {
	for refused, tc := range map[string]struct {
		own  []Export
		left string // of the derived Service
	}{
		"delete import shop/web": {nil, "none"},
		"import shop/web":        {[]Export{export("web", "import", "http=80")}, "http=80 of local"},
	} {
		t.Run(refused, func(t *testing.T) {
			s := newSim(cluster("", tc.own...), cluster("west", export("web", "import", "http=80")))
			s.settle(t)
			s.of("west").Exports = nil
			s.refuse = func(write string) bool { return write == refused }
			s.settleSoon(t)
			s.want(t, "web-clusterset", tc.left)
			for range 100 {
				s.Now = s.Now.Add(time.Second)
				if w := s.settle(t); len(w) > 0 {
					t.Fatalf("writes %q", w)
				}
			}
			s.refuse = nil
			if s.settle(t); len(s.writes) != 1 || s.writes[0] != refused {
				t.Errorf("writes %q after writes succeed", s.writes)
			}
		})
	}
	t.Run("a few in each pass", func(t *testing.T) {
		var all []Export
		for i := range 200 {
			all = append(all, export(fmt.Sprint("web-", i), "import", "http=80"))
		}
		s := newSim(cluster(""), cluster("west", all...))
		s.settle(t)
		s.of("west").Exports = all[80:]
		s.settle(t)
		s.Now = s.Now.Add(kindTime)
		passes, n := 0, 0
		s.refuse = func(string) bool { n++; return n > 4 }
		for s.pass() {
			passes, n = passes+1, 0
		}
		if passes != 40 || len(s.Imports) != 120 || len(s.Services) != 120 {
			t.Errorf(
				"after %d passes there are %d ServiceImports and %d Services", passes, len(s.Imports), len(s.Services),
			)
		}
	})
}

// TestLeaderChanges checks that a new leader continues the removals of the previous leader and
// creates nothing again. A ServiceImport without its Service keeps its IPs and is not ready.
func TestLeaderChanges(t *testing.T) {
	for name, begin := range map[string]func(s *sim){
		"the import is deleted":  func(s *sim) { clear(s.Imports) },
		"its Service is deleted": func(s *sim) { delete(s.Services, ID{"shop", "web-clusterset"}) },
	} {
		s := newSim(cluster(""), cluster("west", export("web", "import", "http=80")))
		s.settle(t)
		s.of("west").Exports, s.memory = nil, Memory{}
		begin(s)
		w := s.settle(t)
		if i := s.Imports[ID{"shop", "web"}]; i != nil {
			if !slices.Equal(w, []string{"import shop/web"}) || i.Conditions[0].Status != "False" || len(i.IPs) == 0 {
				t.Errorf("%s: writes %q: %+v", name, w, i)
			}
		} else if len(w) > 0 {
			t.Errorf("%s: writes %q", name, w)
		}
		s.Now = s.Now.Add(kindTime)
		if s.settle(t); len(s.Services)+len(s.Imports) > 0 {
			t.Errorf("%s: remaining Services %v, ServiceImports %v", name, s.Services, s.Imports)
		}
	}
}

// TestIPsStay checks that a ServiceImport keeps its IPs until another object has the name of its
// Service. The derived Service is created with the IPs of the ServiceImport.
func TestIPsStay(t *testing.T) {
	derived := ID{"shop", "web-clusterset"}
	s := newSim(cluster(""), cluster("west", export("web", "import", "http=80")))
	s.settle(t)
	ips := s.Services[derived].ClusterIPs
	for _, memory := range []Memory{s.memory, {}} { // the same leader, and a new one
		s.memory = memory
		delete(s.Services, derived)
		s.settle(t)
		if got := s.Services[derived].ClusterIPs; !slices.Equal(got, ips) ||
			!slices.Equal(s.imported(t, "web").IPs, ips) {
			t.Errorf("the Service has %q, the ServiceImport %q, want %q", got, s.imported(t, "web").IPs, ips)
		}
	}

	s.Services[derived] = &Service{ID: derived, UID: "user", Type: "ClusterIP", ClusterIPs: []string{"10.96.0.99"}}
	s.settle(t)
	if i := s.imported(t, "web"); len(i.IPs) > 0 || i.Conditions[0].Status != "False" {
		t.Errorf("another user owns the Service, but the ServiceImport is %+v", i)
	}
	delete(s.Services, derived)
	s.settle(t)
	if got := s.Services[derived].ClusterIPs; !slices.Equal(got, s.imported(t, "web").IPs) {
		t.Errorf("the Service has %q, the ServiceImport is %+v", got, s.imported(t, "web"))
	}
}

// TestIPsTakenOff checks that a derived Service that has lost its IPs is created again with the
// same IPs.
func TestIPsTakenOff(t *testing.T) {
	derived := ID{"shop", "web-clusterset"}
	for name, change := range map[string]func(o *Service){
		"headless":     func(o *Service) { o.ClusterIPs = []string{"None"} },
		"ExternalName": func(o *Service) { o.Type, o.ClusterIPs = "ExternalName", nil },
	} {
		s := newSim(cluster(""), cluster("west", export("web", "import", "http=80")))
		s.settle(t)
		ips, changed := s.Services[derived].ClusterIPs, *s.Services[derived]
		change(&changed)
		s.Services[derived] = &changed
		s.settle(t)
		i := s.imported(t, "web")
		if got := s.Services[derived]; got.Type != "ClusterIP" || !slices.Equal(got.ClusterIPs, ips) ||
			!slices.Equal(i.IPs, ips) {
			t.Errorf("%s: the Service has %q, the ServiceImport %q, want %q", name, got.ClusterIPs, i.IPs, ips)
		}
		if i.Conditions[0].Status != "True" {
			t.Errorf("%s: %+v", name, i.Conditions)
		}
	}
}

// TestUnusableIPs checks that a Service is not created with invalid IPs that somebody has written
// into the ServiceImport.
func TestUnusableIPs(t *testing.T) {
	derived := ID{"shop", "web-clusterset"}
	s := newSim(cluster(""), cluster("west", export("web", "import", "http=80")))
	s.settle(t)
	for _, ips := range [][]string{{"None"}, {"", "10.0.0.1%eth0"}, {"10.96.0.300", "fd00::1"}} {
		changed := *s.imported(t, "web")
		changed.IPs = ips
		s.Imports[changed.ID] = &changed
		delete(s.Services, derived)
		s.settle(t)
		got := s.Services[derived]
		if got.Headless() || slices.Contains(got.ClusterIPs, ips[0]) ||
			!slices.Equal(s.imported(t, "web").IPs, got.ClusterIPs) {
			t.Errorf("%q: the Service has %q, the ServiceImport %q", ips, got.ClusterIPs, s.imported(t, "web").IPs)
		}
	}
}

// TestReadyUntilTried checks that the condition Ready does not change until a new leader has tried
// a write. Ready changes at once if the type of the ServiceImport changes. A headless ServiceImport
// is ready even if another object has the name of its Service.
func TestReadyUntilTried(t *testing.T) {
	derived := ID{"shop", "web-clusterset"}
	untried := func(string, ID) Attempt { return Attempt{} }
	s := newSim(cluster("", export("web", "import", "http=80")))
	s.settle(t)
	changed := *s.Services[derived]
	changed.ClusterIPs = []string{"10.96.0.99"}
	s.Services[derived] = &changed
	s.Attempt = untried
	p, _ := Make(s.World, Memory{})
	if r := p.Imports[0].ready; r.Status != "True" {
		t.Errorf("other IPs: %+v", r)
	}
	s.Attempt = func(kind string, id ID) Attempt {
		return Attempt{Made: true, Problem: map[string]string{"ServiceImport": "refused"}[kind]}
	}
	p, _ = Make(s.World, Memory{})
	if r := p.Imports[0].ready; r.Status != "False" || r.Message != "refused" {
		t.Errorf("other IPs, refused: %+v", r)
	}

	local := export("web", "import", "http=80")
	local.Service.ClusterIPs = []string{"None"}
	s = newSim(cluster("", local), cluster("clusterset", export("web", "mirror", "http=80")))
	s.settle(t)
	s.Attempt = func(kind string, _ ID) Attempt {
		return Attempt{Made: true, Problem: map[string]string{"Service": "refused"}[kind]}
	}
	changed = *s.Services[derived]
	changed.Ports = nil
	s.Services[derived] = &changed
	s.last, _ = Make(s.World, Memory{})
	if got, want := s.condition("web", "Ready"), "Ready the ServiceImport is written"; got != want {
		t.Errorf("headless: %q, want %q", got, want)
	}

	s = newSim(cluster("", local))
	s.settle(t)
	local.Service.ClusterIPs = []string{"10.0.0.1"}
	s.Attempt = untried
	p, _ = Make(s.World, s.memory)
	if r := p.Imports[0].ready; p.Imports[0].kind != clusterSetIP || r.Status != "False" {
		t.Errorf("type %s: %+v", p.Imports[0].kind, r)
	}
}

// TestImportsGone checks that derived Services are deleted after a while if the cluster no longer
// serves ServiceImports. Derived Services stay while it is unknown whether the cluster serves
// ServiceImports.
func TestImportsGone(t *testing.T) {
	for name, tc := range map[string]struct {
		imports map[ID]*ServiceImport
		later   string
	}{
		"unread":       {nil, "http=80 of west"},
		"no such kind": {make(map[ID]*ServiceImport), "none"},
		"as it was": {
			map[ID]*ServiceImport{{"shop", "web"}: marked("web"), {"shop", "other"}: marked("other")},
			"none",
		},
	} {
		s := newSim(cluster(""), cluster("west", export("web", "import", "http=80")))
		s.settle(t)
		s.Imports, s.MCSVersion = tc.imports, ""
		s.settle(t)
		s.want(t, "web-clusterset", "http=80 of west")
		if got := s.states(); got != "west/web import: no serviceimports" {
			t.Errorf("%s: %s", name, got)
		}
		s.Now = s.Now.Add(s.UnlinkedAfter)
		s.settle(t)
		s.want(t, "web-clusterset", tc.later)
		if s.writesImports() {
			t.Errorf("%s: writes %q", name, s.writes)
		}
		s.Imports, s.MCSVersion = make(map[ID]*ServiceImport), "v1beta1"
		s.settle(t)
		s.want(t, "web-clusterset", "http=80 of west")
	}
}

// TestConflictStays checks that a conflict stays while an export is unknown, for example after a
// start.
func TestConflictStays(t *testing.T) {
	s := newSim(cluster("", export("web", "import", "http=80")), cluster("west", export("web", "import", "http=8080")))
	conflict := func(what, want string) {
		t.Helper()
		s.settle(t)
		own := s.of("").Exports[0].Exported
		own.Conditions, _ = s.last.Exports[0].Over(own.Conditions)
		if got := s.condition("web", "Conflict"); got != want {
			t.Errorf("%s: %s, want %s", what, got, want)
		}
	}
	const differ = "PortConflict port http: 80 (local, used), 8080 (west)"
	conflict("both known", differ)
	west := s.of("west")
	exports := west.Exports
	west.Exports, west.Synced, west.ServiceExportsSynced, s.memory = nil, false, false, Memory{}
	conflict("west is not known", differ)
	west.Exports, west.Synced, west.ServiceExportsSynced = exports, true, true
	conflict("west is known again", differ)
	exports[0].Service.Ports[0].Number = 80
	conflict("they are equal", "NoConflicts")
	west.Exports, west.Synced, west.ServiceExportsSynced, s.memory = nil, false, false, Memory{}
	conflict("equal, and west is not known", "NoConflicts")
}

// TestConditionsOfOneOnly checks two installations in one cluster. Only the installation that
// manages the ServiceImport writes conditions. Neither installation writes conditions if another
// implementation manages the ServiceImport.
func TestConditionsOfOneOnly(t *testing.T) {
	first, second := newSim(cluster(
		"", export("web", "import", "http=80"),
	)), newSim(cluster("", export("web", "import", "http=80")))
	first.settle(t)
	second.Controller, second.Imports, second.Services = "linkerd-2", first.Imports, first.Services
	second.settle(t)
	if len(first.last.Exports) != 1 || len(second.last.Exports) != 0 || second.states() != "local/web import: taken" {
		t.Errorf(
			"the first one's conditions: %v, the second one's: %v (%s)",
			first.last.Exports,
			second.last.Exports,
			second.states(),
		)
	}
	delete(second.Imports, ID{"shop", "web"})
	delete(second.Services, ID{"shop", "web-clusterset"})
	second.settle(t)
	if len(second.last.Exports) != 1 {
		t.Errorf("without the first installation's objects: %v", second.last.Exports)
	}
	id := ID{"shop", "web"}
	first.Imports[id] = &ServiceImport{ID: id}
	if first.settle(t); len(first.last.Exports) > 0 {
		t.Errorf("beside another implementation: %v", first.last.Exports)
	}
}

// TestOwnPreference checks that the local cluster's Service sets the preference of a derived
// Service while it is exported. The preference also stays while the exports of another cluster are
// unknown.
func TestOwnPreference(t *testing.T) {
	const prefer, retries = "isthmus.io/prefer", "retry.linkerd.io/limit"
	older, newer := export("web", "import", "http=80"), export("web", "import", "http=80")
	newer.Exported.Created = start.Add(time.Second)
	older.Service.Annotations = map[string]string{prefer: "remote,any", retries: "1"}
	newer.Service.Annotations = map[string]string{prefer: "local,any", retries: "2"}
	s := newSim(cluster("", newer), cluster("west", older))
	want := func(when, preference, retry string) {
		t.Helper()
		s.settle(t)
		o := s.Services[ID{"shop", "web-clusterset"}]
		if o == nil || o.Annotations[prefer] != preference || o.Annotations[retries] != retry {
			t.Errorf("%s: %+v", when, o)
		}
	}
	change := func(annotations map[string]string) {
		own := *newer.Service
		own.Annotations = annotations
		e := newer
		e.Service = &own
		s.of("").Exports = []Export{e}
	}
	want("at first", "local,any", "1")

	west := s.of("west")
	exports := west.Exports
	west.Exports, west.Synced, west.ServiceExportsSynced, s.memory = nil, false, false, Memory{}
	want("while west is not known", "local,any", "1")
	change(map[string]string{prefer: "zone,any", "isthmus.io/min-ready": "2", retries: "3"})
	want("changed while west is not known", "zone,any", "1")
	if writes := s.settle(t); len(writes) > 0 {
		t.Errorf("repeated writes: %q", writes)
	}
	west.Exports, west.Synced, west.ServiceExportsSynced = exports, true, true
	if writes := s.settle(t); len(writes) > 0 {
		t.Errorf("writes after west became known again: %q", writes)
	}
	change(nil)
	want("without a preference", "", "1")
	change(newer.Service.Annotations)
	want("with one again", "local,any", "1")

	s.of("").Exports[0].Service = nil
	want("while the Service is replaced", "local,any", "1")
	s.of("").Exports = nil
	s.settle(t)
	s.Now = s.Now.Add(time.Minute)
	want("exported no longer", "", "1")

	change(newer.Service.Annotations)
	s.settle(t)
	derived := *s.Services[ID{"shop", "web-clusterset"}]
	derived.Annotations = maps.Clone(derived.Annotations)
	derived.Annotations[prefer] = "east"
	s.Services[derived.ID] = &derived
	west.Exports, west.Synced, west.ServiceExportsSynced = nil, false, false
	want("set by hand", "east", "1")
}

// TestListable compares listable with the API's validation.
func TestListable(t *testing.T) {
	for _, name := range []string{
		"", "a", "9", "-", "a-b", "-a", "a-", "a.b", "A", "a_b", "é", strings.Repeat("a", 63), strings.Repeat("a", 64),
	} {
		if want := len(validation.IsDNS1123Label(name)) == 0; listable(name) != want {
			t.Errorf("%q: %t", name, !want)
		}
	}
}

// TestUnlistedWithoutService checks that a ServiceImport reports a link that its status cannot
// name. The link is reported even if another object has the name of the Service.
func TestUnlistedWithoutService(t *testing.T) {
	west, other := export("web", "import", "http=80"), export("web", "import", "http=80,admin=81")
	s := newSim(cluster("west", west), cluster("eu.west", other))
	s.Clusters = append(s.Clusters, Cluster{Synced: true, ServiceExportsSynced: true})
	s.settle(t)
	derived := *s.Services[ID{"shop", "web-clusterset"}]
	derived.Labels, derived.Annotations = nil, nil // now owned by another user
	s.Services[derived.ID] = &derived
	s.settle(t)

	c := s.of("eu.west")
	s.memory, c.Exports, c.Synced, c.ServiceExportsSynced = Memory{}, nil, false, false
	s.settle(t)
	if got := s.imported(t, "web").Ports; len(got) != 2 {
		t.Errorf("ports %v", got)
	}
}

// TestUnlistedClusters checks links with names that status.clusters cannot contain. The status
// omits such links, and their members stay.
func TestUnlistedClusters(t *testing.T) {
	for _, ip := range []string{"10.0.0.1", "None"} {
		one, other := export("web", "import", "http=80"), export("web", "import", "http=80")
		one.Service.ClusterIPs, other.Service.ClusterIPs = []string{ip}, []string{ip}
		s := newSim(cluster("west", one), cluster("eu.west", other), cluster("EU", other))
		s.Clusters = append(s.Clusters, Cluster{Synced: true, ServiceExportsSynced: true})
		s.settle(t)
		if got := s.imported(t, "web").Clusters; !slices.Equal(got, []string{"west"}) {
			t.Errorf("clusters %q", got)
		}
		if ip != "None" {
			s.want(t, "web-clusterset", "http=80 of EU,eu.west,west")
		}
		for _, v := range s.last.Verdicts {
			if named := strings.Contains(v.Detail, "status.clusters"); v.State != Written ||
				named != (v.Cluster != "west") {
				t.Errorf("%s: %s %q", v.Cluster, v.State, v.Detail)
			}
		}

		// Another leader finds the members of the unlisted links, and keeps the members once the
		// links are deleted.
		s.memory = Memory{}
		s.Clusters = s.Clusters[3:]
		if writes := s.settle(t); len(writes) > 0 {
			t.Errorf("writes after all links were deleted: %q", writes)
		}
		if got := s.states(); !strings.Contains(got, "eu.west/web import: held") ||
			!strings.Contains(got, "EU/web import: held") {
			t.Error(got)
		}
		s.Now = s.Now.Add(s.UnlinkedAfter)
		s.settle(t)
		if len(s.Imports)+len(s.Services) > 0 {
			t.Errorf("remaining ServiceImports %v and Services %v", s.Imports, s.Services)
		}
	}
}
