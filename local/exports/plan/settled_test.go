package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// exportOf returns an export web whose ServiceExport was created that many seconds after the start.
func exportOf(ports string, seconds int) Export {
	e := export("web", "import", ports)
	e.Exported.Created = start.Add(time.Duration(seconds) * time.Second)
	return e
}

// exportHeadless is like exportOf, for a headless Service.
func exportHeadless(seconds int) Export {
	e := exportOf("http=80", seconds)
	e.Service.ClusterIPs = []string{"None"}
	return e
}

// settledSim returns a world with a settled ServiceImport web. Each cluster's export is younger
// than that of the previous cluster.
func settledSim(t testing.TB, clusters ...Cluster) *sim {
	s := newSim(clusters...)
	s.settle(t)
	s.Now = s.Now.Add(settleTime)
	s.settle(t)
	return s
}

// TestServiceReplaced checks that an export decides again once its Service is back, after any time.
// If the Service was missing only briefly, nothing is written.
func TestServiceReplaced(t *testing.T) {
	for name, c := range map[string]struct {
		younger        Export
		other          []Cluster
		during, before string
		after          string // empty if unchanged
	}{
		"type":   {exportHeadless(1), nil, "none", "http=80 of local,west", ""},
		"number": {exportOf("http=81", 1), nil, "http=81 of west", "http=80 of local,west", ""},
		"number, and a port more": {
			exportOf("http=81,admin=90", 1), nil,
			"admin=90,http=81 of west", "http=80,admin=90 of local,west", "admin=90,http=80 of local,west",
		},
		"name": {exportOf("web=80", 1), nil, "web=80 of west", "http=80 of local,west", ""},
		"a port of a third export": {
			exportOf("admin=90", 1), []Cluster{cluster("east", exportOf("admin=91", 2))},
			"admin=90 of west,east", "http=80,admin=90 of local,west,east", "admin=90,http=80 of local,west,east",
		},
	} {
		for _, restarts := range []bool{false, true} {
			t.Run(fmt.Sprint(name, " ", restarts), func(t *testing.T) {
				all := append([]Cluster{cluster("", exportOf("http=80", 0)), cluster("west", c.younger)}, c.other...)
				s := settledSim(t, all...)
				s.want(t, "web-clusterset", c.before)
				ips := s.imported(t, "web").IPs
				s.replace(t, "", 2*time.Second, func() {
					if got := s.condition("web", "Valid"); !strings.HasPrefix(got, "NoService") {
						t.Errorf("while the Service is missing: %s", got)
					}
				})
				if o := s.imported(t, "web"); !slices.Equal(o.IPs, ips) {
					t.Errorf("IPs %q, want %q", o.IPs, ips)
				}
				s.want(t, "web-clusterset", c.before)
				for range 2 {
					s.replace(t, "", time.Hour, func() {
						s.want(t, "web-clusterset", c.during)
						if restarts {
							s.memory = Memory{}
							s.settle(t)
						}
					})
					s.want(t, "web-clusterset", cmp.Or(c.after, c.before))
					if o := s.imported(t, "web"); o.Type != "ClusterSetIP" || len(o.IPs) == 0 {
						t.Errorf("import %+v", o)
					}
				}
			})
		}
	}
}

// TestReplacedWhileLeaderChanges checks that the oldest export decides once its Service is back.
// The new leader need not have seen that the Service was missing.
func TestReplacedWhileLeaderChanges(t *testing.T) {
	for name, c := range map[string]struct{ oldest, during Export }{
		"port": {exportOf("http=80", 0), exportOf("http=82", 3)},
		"type": {exportOf("http=80", 0), exportHeadless(3)},
	} {
		for _, when := range []string{"before", "when", "before and when"} {
			t.Run(name+" "+when+" it is back", func(t *testing.T) {
				s := settledSim(t,
					cluster("", exportOf("=81", 1)),
					cluster("east", c.during),
					cluster("west", c.oldest),
					cluster("x-east", exportOf("http=81", 2)))
				before := sortedPorts(*s.imported(t, "web"))
				service := s.of("west").Exports[0].Service
				local := s.of("").Exports[0].Service
				s.of("west").Exports[0].Service = nil
				s.of("").Exports[0].Service = nil
				s.settleSoon(t)
				s.of("").Exports[0].Service = local
				s.settle(t)
				if got := s.imported(t, "web").Annotations[absentKey]; got != "west" {
					t.Errorf("while the Service is missing: %q", got)
				}
				if strings.Contains(when, "before") {
					s.memory = Memory{}
					s.settle(t)
				}
				if strings.Contains(when, "when") {
					s.memory = Memory{}
				}
				s.of("west").Exports[0].Service = service
				s.settle(t)
				o := s.imported(t, "web")
				if got := sortedPorts(*o); o.Type != clusterSetIP || !slices.Equal(got, before) {
					t.Errorf("got %s %v, before %v", o.Type, got, before)
				}
				if got, ok := o.Annotations[absentKey]; ok {
					t.Errorf("while the Service is missing: %q", got)
				}
			})
		}
	}
}

// TestReplacedWhileAnotherIsMissing checks two exports whose Services are replaced. While one
// Service is briefly missing, neither a new leader nor the leader after it decides anything about
// the other export.
func TestReplacedWhileAnotherIsMissing(t *testing.T) {
	s := settledSim(t,
		cluster("", exportOf("http=80", 0)),
		cluster("east", exportOf("http=81", 1)),
		cluster("west", exportOf("admin=90", 2)))
	s.replace(t, "", time.Hour, func() {
		s.memory = Memory{}
		s.replace(t, "west", 0, func() {})
	})
	s.want(t, "web-clusterset", "admin=90,http=80 of local,east,west")

	local, west := s.of("").Exports[0].Service, s.of("west").Exports[0].Service
	s.of("").Exports[0].Service = nil
	s.settleSoon(t)
	s.of("west").Exports[0].Service = nil
	for range 2 {
		s.memory = Memory{}
		s.settle(t)
		s.of("").Exports[0].Service = local
		s.settle(t)
	}
	s.of("west").Exports[0].Service = west
	s.settle(t)
	s.want(t, "web-clusterset", "admin=90,http=80 of local,east,west")
}

// TestMadeUpNameGivesWay checks a port with a made-up name from a young export. The port gives way
// to an older export whose Service is back.
func TestMadeUpNameGivesWay(t *testing.T) {
	s := settledSim(t,
		cluster("", exportOf("http=81", 0)),
		cluster("east", exportOf("web=80", 0)),
		cluster("west", exportOf("=80", 3)),
		cluster("x-east", exportOf("http=80", 1)))
	s.want(t, "web-clusterset", "http=81,web=80 of local,east,x-east,west")
	s.replace(t, "east", 10*time.Second, func() {
		s.want(t, "web-clusterset", "http=81,tcp-80=80 of local,x-east,west")
	})
	s.want(t, "web-clusterset", "http=81,web=80 of local,east,x-east,west")
}

// TestNameMadeUpForSome checks that the oldest export with a port decides whether the port's name
// was made up. An unnamed port of a younger export does not exclude other ports.
func TestNameMadeUpForSome(t *testing.T) {
	s := settledSim(t,
		cluster("", exportOf("tcp-80=80", 0)),
		cluster("east", exportOf("=81", 1)),
		cluster("west", exportOf("=80", 2)))
	s.want(t, "web-clusterset", "tcp-80=80,tcp-81=81 of local,east,west")
	s.replace(t, "east", time.Second, func() {})
	s.replace(t, "east", time.Hour, func() {})
	s.want(t, "web-clusterset", "tcp-80=80,tcp-81=81 of local,east,west")
}

// TestThirdReplaced checks that every export, not only the oldest, keeps its priority over younger
// exports.
func TestThirdReplaced(t *testing.T) {
	s := settledSim(t,
		cluster("", exportOf("http=80", 0)),
		cluster("west", exportOf("admin=90", 1)),
		cluster("east", exportOf("admin=91", 2)))
	s.want(t, "web-clusterset", "http=80,admin=90 of local,west,east")
	s.replace(t, "west", time.Hour, func() { s.want(t, "web-clusterset", "http=80,admin=91 of local,east") })
	s.want(t, "web-clusterset", "http=80,admin=90 of local,west,east")
}

// TestSettledValuesStay checks that a value stays when its export is deleted, while another export
// has the value. The value also stays under a new leader.
func TestSettledValuesStay(t *testing.T) {
	s := settledSim(t,
		cluster("", exportOf("http=80", 0)),
		cluster("west", exportOf("http=81", 1)),
		cluster("east", exportOf("http=80", 2)))
	s.of("").Exports = nil
	s.settleSoon(t)
	for range 2 {
		s.want(t, "web-clusterset", "http=80 of west,east")
		s.memory = Memory{}
		s.settle(t)
	}
	s.of("east").Exports = nil
	s.settleSoon(t)
	s.want(t, "web-clusterset", "http=81 of west")
}

// TestDecidingChanges checks that an export may change its own settled value.
func TestDecidingChanges(t *testing.T) {
	s := settledSim(t, cluster("", exportOf("http=80", 0)), cluster("west", exportOf("http=80,admin=90", 1)))
	s.of("").Exports[0].Service = exportOf("http=9000", 0).Service
	s.settle(t)
	s.want(t, "web-clusterset", "admin=90,http=9000 of local,west")
}

// TestMadeUpNamesSettle checks that a port with a made-up name settles and keeps its place.
func TestMadeUpNamesSettle(t *testing.T) {
	s := settledSim(t, cluster("", exportOf("=80", 0)), cluster("west", exportOf("admin=90", 1)))
	s.want(t, "web-clusterset", "tcp-80=80,admin=90 of local,west")
	claims := exportOf("http=80,more=70", -3600)
	s.Clusters = append(s.Clusters, newSim(cluster("east", claims)).Clusters[0])
	s.settle(t)
	s.want(t, "web-clusterset", "tcp-80=80,admin=90,more=70 of local,east,west")
	want := `port tcp-80: 80 (local, used), named "http" (east)`
	if got := s.condition("web", "Conflict"); !strings.Contains(got, want) {
		t.Error(got)
	}
}

// many returns n ports.
func many(prefix string, n int) string {
	var all []string
	for i := range n {
		all = append(all, fmt.Sprintf("%s-%d=%d", prefix, i, 1000+i))
	}
	return strings.Join(all, ",")
}

// TestDecidingPortsHaveRoom checks that ports of younger exports make room for those of the
// deciding export.
func TestDecidingPortsHaveRoom(t *testing.T) {
	for _, kind := range []string{"import", "federated"} {
		as := func(ports string, seconds int) Export {
			e := export("web", kind, ports)
			if e.Exported != nil {
				e.Exported.Created = start.Add(time.Duration(seconds) * time.Second)
			}
			return e
		}
		object := map[string]string{"import": "web-clusterset", "federated": "web-federated"}[kind]
		s := settledSim(t,
			cluster("", as("http=80", 0)),
			cluster("west", as(many("p", 120), 1)),
			cluster("east", as("late=2000", 2)))
		numbers := func() (all []uint16) {
			for _, p := range s.Services[ID{"shop", object}].Ports {
				all = append(all, p.Number)
			}
			return all
		}
		if got := numbers(); len(got) != maxPorts || got[0] != 80 || slices.Contains(got, 2000) {
			t.Errorf("%s: %d", kind, got)
		}
		s.of("").Exports[0] = as("http=80,https=443", 0)
		s.settle(t)
		if got := numbers(); len(got) != maxPorts || !slices.Contains(got, 443) || slices.Contains(got, 1098) {
			t.Errorf("%s, with port 443: %d", kind, got)
		}
		if w := s.settle(t); len(w) > 0 {
			t.Errorf("%s: repeated writes: %q", kind, w)
		}
	}
}

// TestUnknownMemberAndPorts checks that a member whose export is unknown keeps its ports. Earlier
// members may still change their ports.
func TestUnknownMemberAndPorts(t *testing.T) {
	as := func(ports string) Export { return export("web", "federated", ports) }
	for fate, lose := range map[string]func(s *sim, name string){
		"unlinked": func(s *sim, name string) {
			s.Clusters = slices.DeleteFunc(slices.Clone(s.Clusters), func(c Cluster) bool { return c.Name == name })
		},
		"refused": func(s *sim, name string) {
			*s.of(name) = Cluster{Name: name, Age: s.of(name).Age, LinkSettings: LinkSettings{Joins: Unreadable}}
		},
	} {
		for name, c := range map[string]struct {
			clusters         []Cluster
			lost, changes    string
			to, want, labels string
		}{
			"the local cluster": {
				[]Cluster{cluster("", as("http=80")), cluster("east", as("http=80,admin=90"))},
				"east", "", "http=9000", "http=9000,admin=90 of local,east", "b",
			},
			"another name, too": {
				[]Cluster{cluster("", as("http=80")), cluster("east", as("http=80"))},
				"east", "", "web=9000", "web=9000,http=80 of local,east", "b",
			},
			"the oldest link": {
				[]Cluster{cluster("east", as("http=80")), cluster("west", as("http=80"))},
				"west", "east", "http=9000", "http=9000 of east,west", "b",
			},
			"one after it": {
				[]Cluster{cluster("east", as("http=80")), cluster("west", as("http=80"))},
				"east", "west", "http=9000", "http=80 of east,west", "",
			},
			"one before it, and one after it": {
				[]Cluster{
					cluster("", as("http=80")),
					cluster("east", as("dns=53")),
					cluster("west", as("dns=54,x=70")),
				},
				"east", "", "http=81", "http=81,dns=53,x=70 of local,east,west", "b",
			},
		} {
			s := newSim(c.clusters...)
			s.settle(t)
			lose(s, c.lost)
			if writes := s.settle(t); len(writes) > 0 {
				t.Errorf("%s, %s: writes at once: %q", fate, name, writes)
			}
			e := as(c.to)
			e.Service.Labels["team"] = "b"
			s.of(c.changes).Exports = []Export{e}
			s.settle(t)
			s.want(t, "web-federated", c.want)
			if got := s.Services[ID{"shop", "web-federated"}].Labels["team"]; got != c.labels {
				t.Errorf("%s, %s: the label is %q, want %q", fate, name, got, c.labels)
			}
		}
	}
}

// TestSettledLaw checks that gaps in exports have no lasting effect, and that newcomers replace no
// settled value.
func TestSettledLaw(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		names := []string{"", "east", "west", "x-east"}
		drawn := func(uid string, from int) Export {
			choices := []string{"http=80", "http=81", "web=80", "http=80,admin=90", "admin=91,http=82", "=80", "=81"}
			ports := rapid.SampledFrom(choices).Draw(t, "ports")
			e := exportOf(ports, from+rapid.IntRange(0, 5).Draw(t, "created"))
			if rapid.IntRange(0, 3).Draw(t, "kind") == 0 {
				e.Service.ClusterIPs = []string{"None"}
			}
			e.Exported.UID = uid
			return e
		}
		var clusters []Cluster
		for _, name := range names {
			clusters = append(clusters, cluster(name, drawn("uid-"+name, 0)))
		}
		s := newSim(clusters...)
		s.settleIn(t)
		want := *s.Imports[ID{"shop", "web"}]
		s.Now = s.Now.Add(settleTime)
		s.settleIn(t)

		missing := make(map[string]*Service)
		back := func(name string) {
			if service := missing[name]; service != nil {
				s.of(name).Exports[0].Service = service
				delete(missing, name)
			}
		}
		for range rapid.IntRange(1, 8).Draw(t, "steps") {
			name := rapid.SampledFrom(names).Draw(t, "cluster")
			e := &s.of(name).Exports[0]
			leaderChanges := rapid.IntRange(0, 4).Draw(t, "leader changes") == 0
			if leaderChanges {
				s.memory = Memory{}
			}
			switch {
			case leaderChanges && rapid.Bool().Draw(t, "leader alone"):
			case missing[name] != nil:
				back(name)
			case len(missing) < len(names)-1: // otherwise, the ServiceImport would be deleted
				missing[name], e.Service = e.Service, nil
			}
			s.settleIn(t)
			s.Now = s.Now.Add(time.Duration(rapid.IntRange(0, 10).Draw(t, "seconds")) * time.Second)
			s.settleIn(t)
		}
		for _, name := range names {
			back(name)
		}
		s.settleIn(t)
		got := *s.Imports[ID{"shop", "web"}]
		if got.Type != want.Type || !slices.Equal(sortedPorts(got), sortedPorts(want)) {
			t.Fatalf("got %s %v, want %s %v", got.Type, sortedPorts(got), want.Type, sortedPorts(want))
		}

		newcomer := newSim(cluster("newcomer", drawn("newcomer", -10))).Clusters[0]
		s.Clusters = append(s.Clusters, newcomer)
		s.settleIn(t)
		got = *s.Imports[ID{"shop", "web"}]
		for _, p := range want.Ports {
			p.Name = ""
			isPort := func(q Port) bool {
				q.Name = ""
				return q == p
			}
			if !slices.ContainsFunc(got.Ports, isPort) || got.Type != want.Type {
				t.Fatalf("with a newcomer: got %s %v, want %s %v", got.Type, got.Ports, want.Type, want.Ports)
			}
		}
	})
}

// sortedPorts returns the ports of a ServiceImport, without names that may have been made up.
func sortedPorts(i ServiceImport) []Port {
	var all []Port
	for _, p := range i.Ports {
		all = append(all, p.unnamed())
	}
	slices.SortFunc(all, comparePorts)
	return all
}

// TestBlockedTwice checks that a port stays if its older rival has no place anyway, because another
// port has the rival's number. Nothing changes while the cluster of the port is then unknown.
func TestBlockedTwice(t *testing.T) {
	s := settledSim(t,
		cluster("", exportOf("http=80", 1)),
		cluster("west", exportOf("http=8080", 2)),
		cluster("x-east", exportOf("metrics=80", 0)))
	s.want(t, "web-clusterset", "metrics=80,http=8080 of local,x-east,west")
	w := s.of("west")
	w.Synced, w.ServiceExportsSynced, w.Exports = false, false, nil
	s.settle(t)
	s.want(t, "web-clusterset", "metrics=80,http=8080 of local,x-east,west")
}

// TestUnknownWhenLeaderChanges checks a port whose export is unknown when the leader changes. The
// new leader does not attribute the port to a younger export.
func TestUnknownWhenLeaderChanges(t *testing.T) {
	s := settledSim(t,
		cluster("", exportOf("http=80", 2)),
		cluster("west", exportOf("http=8080", 1)),
		cluster("x-east", exportOf("http=80,admin=9090", 0)))
	x := s.of("x-east")
	exports := x.Exports
	x.Synced, x.ServiceExportsSynced, x.Exports = false, false, nil
	s.memory = Memory{}
	s.settle(t)
	x.Synced, x.ServiceExportsSynced, x.Exports = true, true, exports
	s.settle(t)
	s.want(t, "web-clusterset", "http=80,admin=9090 of local,x-east,west")
}
