package tierspec

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"
)

// tiers reads what users write, with cluster/NAME for clusters.
func tiers(text string) (list [][]string) {
	for tier := range strings.SplitSeq(text, ", ") {
		list = append(list, strings.Split(tier, "+"))
	}
	return list
}

// endpoints are those of a cluster by its number, each a zone; a dash before it: not ready. Each is in a part of its own.
func endpoints(cluster int, zones string) (l Slice) {
	for i, zone := range strings.Fields(zones) {
		e := Endpoint{Addr: netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, byte(cluster), byte(i)}), 80), Part: i % Parts}
		ready := strings.TrimPrefix(zone, "-")
		if e.Zone = ready; zone == ready {
			l.Ready = append(l.Ready, e)
		} else {
			l.Unready = append(l.Unready, e)
		}
	}
	return l
}

// three is a service of the own cluster and of two linked ones, of which the first is in the gateway's region: each has an
// endpoint in zone a and one in zone b, of which the last one's is not ready.
func three(prefer string) *Service {
	s := &Service{Federated: true, Members: []Member{
		{Cluster: Cluster{"", true}, Slices: []Slice{endpoints(0, "a b")}},
		{Cluster: Cluster{"c1", true}, Slices: []Slice{endpoints(1, "a b")}},
		{Cluster: Cluster{"c2", false}, Slices: []Slice{endpoints(2, "a -b")}},
	}}
	if prefer != "" {
		s.Tiers = tiers(prefer)
	}
	return s
}

// text is each address as its cluster's number and its own.
func text(list []Endpoint) string {
	var words []string
	for _, e := range list {
		ip := e.Addr.Addr().As4()
		words = append(words, fmt.Sprintf("%d%d", ip[2], ip[3]))
	}
	return strings.Join(words, " ")
}

// TestTiers: what clients get whom nothing was sent before.
func TestTiers(t *testing.T) {
	cordon := func(m int, s Standing) func(*Service) { return func(x *Service) { x.Members[m].Standings = All(s) } }
	all := func(changes ...func(*Service)) func(*Service) {
		return func(s *Service) {
			for _, c := range changes {
				c(s)
			}
		}
	}
	minReady := func(count, percent int) func(*Service) {
		return func(s *Service) { s.Count, s.Percent = count, percent }
	}
	in := func(zone string) func(*Service) { return func(s *Service) { s.Zone = zone } }
	behind := func(m, ready, unready int) func(*Service) {
		return func(s *Service) { s.Members[m].Slices[0].Behind = &Behind{ready, unready} }
	}
	same := func(s *Service) { s.Members[1].Slices[0].Ready[0].Addr = s.Members[0].Slices[0].Ready[0].Addr }
	for _, x := range []struct {
		name, prefer string
		change       func(*Service)
		want         string
	}{
		{"nothing is preferred", "", all(), "00 01 10 11 20"},
		{"the first tier suffices", "local, any", all(), "00 01"},
		{"it does not", "local, cluster/c2, any", minReady(3, 0), "00 01 20"},
		{"half of those known", "cluster/c2, any", minReady(0, 50), "20"},
		{"more than half", "cluster/c2, any", minReady(0, 51), "00 01 10 11 20"},
		{"nothing suffices", "local, cluster/c1", minReady(100, 0), "00 01 10 11"},
		{"what no tier names", "cluster/c1", all(), "10 11"},
		{"no such cluster", "cluster/nowhere, cluster/c1", all(), "10 11"},
		{"the own cluster has no name", "cluster/, remote", all(), "10 11 20"},
		{"zone", "zone, any", in("a"), "00 10 20"},
		{"a zone that is not known", "zone, remote", all(), "10 11 20"},
		{"region", "region", all(), "00 01 10 11"},
		{"joined terms", "cluster/c1+cluster/c2, any", all(), "10 11 20"},
		{"withdrawn", "", cordon(1, Withdrawn), "00 01 20"},
		{"withdrawn from its tier", "cluster/c1, local", cordon(1, Withdrawn), "00 01"},
		{"withdrawn is not known either", "region, any", all(minReady(0, 100), cordon(2, Withdrawn)), "00 01 10 11"},
		{"last resort", "", cordon(1, LastResort), "00 01 20"},
		{"last resort alone", "", all(cordon(0, LastResort), cordon(1, LastResort), cordon(2, Withdrawn)), "00 01 10 11"},
		{"last resort that no tier names", "cluster/c1", all(cordon(1, Withdrawn), cordon(2, LastResort)), ""},
		{"an address of two members", "remote, local", same, "11 20"},
		{"an address of two members, the first of last resort", "", all(cordon(0, LastResort), same), "00 11 20"},
		{"an address of two members, the first withdrawn", "", all(cordon(0, Withdrawn), same), "00 11 20"},
		{"zone hints", "", all(in("a"), func(s *Service) {
			s.Members[0].Slices[0].Ready[0].Hints, s.Members[0].Slices[0].Ready[1].Hints = []string{"a"}, []string{"b"}
		}), "00 10 11 20"},
		{"zone hints do not count", "local, any", all(in("a"), minReady(2, 0), func(s *Service) {
			s.Members[0].Slices[0].Ready[0].Hints, s.Members[0].Slices[0].Ready[1].Hints = []string{"a"}, []string{"b"}
		}), "00"},
		{"zone hints where zone is a term", "zone, any", all(in("a"), minReady(4, 0), func(s *Service) {
			s.Members[0].Slices[0].Ready[0].Hints, s.Members[0].Slices[0].Ready[1].Hints = []string{"a"}, []string{"b"}
		}), "00 01 10 11 20"},
		{"traffic stays on the node", "local, any", func(s *Service) { s.NodeLocal, s.Node = true, "n" }, "10 11 20"},
		{"an instance", "local, any", func(s *Service) { s.Instance, s.Members[1].Slices[0].Ready[1].Hostname = "h", "h" }, "11"},
		{"one member", "local, cluster/nowhere", func(s *Service) { s.Federated, s.Members = false, s.Members[1:2] }, "10 11"},
		{"one member, zone", "zone, local", func(s *Service) { s.Federated, s.Members, s.Zone = false, s.Members[1:2], "b" }, "11"},
		{"one member of last resort", "", func(s *Service) {
			s.Federated, s.Members = false, s.Members[1:2]
			cordon(0, LastResort)(s)
		}, "10 11"},
		{"gateways", "cluster/c1, any", all(minReady(3, 0), behind(1, 3, 0)), "10 11"},
		{"gateways with too little behind", "cluster/c1, any", all(minReady(3, 0), behind(1, 2, 9)), "00 01 10 11 20"},
		{"no gateways", "cluster/c1, any", all(behind(1, 9, 0), func(s *Service) { s.Members[1].Slices[0].Ready = nil }), "00 01 20"},
		{"gateways and an instance", "", all(behind(1, 9, 0), func(s *Service) { s.Instance = "h" }), ""},
	} {
		t.Run(x.name, func(t *testing.T) {
			s := three(x.prefer)
			x.change(s)
			if got := text(Sent([]Instant{{time.Time{}, s.State()}}, time.Time{})); got != x.want {
				t.Errorf("got %q, want %q", got, x.want)
			}
		})
	}
}

// TestFamilies: a Pod counts once, and clients get one of its addresses.
func TestFamilies(t *testing.T) {
	for _, x := range []struct {
		ipv6  bool
		count int
		want  int
	}{{false, 1, 1}, {false, 2, 2}, {true, 1, 1}, {true, 2, 2}} {
		s := three("local, cluster/c2")
		s.IPv6, s.Count = x.ipv6, x.count
		s.Members[0].Slices[0] = Slice{Ready: []Endpoint{
			{Addr: netip.MustParseAddrPort("10.0.0.1:80"), Pod: "p"}, {Addr: netip.MustParseAddrPort("[fd00::1]:80"), Pod: "p"}}}
		list := Sent([]Instant{{time.Time{}, s.State()}}, time.Time{})
		if six := slices.ContainsFunc(list, func(e Endpoint) bool { return e.Addr.Addr().Is6() }); len(list) != x.want || six != x.ipv6 {
			t.Errorf("%+v: %v", x, list)
		}
	}
}

// TestReturn: what clients get in the course of time, in seconds.
func TestReturn(t *testing.T) {
	start := time.Unix(0, 0)
	at := func(second float64) time.Time { return start.Add(time.Duration(second * float64(time.Second))) }
	with := func(local string, prefer string) *State {
		s := three(prefer)
		s.Members[0].Slices[0] = endpoints(0, local)
		s.Members[1].Slices[0] = endpoints(1, "a a a a a a a a a a")
		s.Members = s.Members[:2]
		s.ReturnAfter, s.ReturnOver = 10*time.Second, 10*time.Second
		return s.State()
	}
	const prefer = "local, any"
	none, one, former, other := with("-a", prefer), with("a", prefer), with("a", "local+cluster/c1"), three("local, cluster/c2")
	other.Members[0].Slices[0], other.ReturnAfter = endpoints(0, "a"), time.Minute
	other.Members = []Member{other.Members[0], other.Members[2]}
	spilled := []Instant{{at(0), none}, {at(5), one}}
	for _, x := range []struct {
		name     string
		instants []Instant
		now      float64
		want     int
	}{
		{"at once", []Instant{{at(0), one}, {at(1), none}}, 1, 10},
		{"not needed any more", spilled, 5, 11},
		{"return-after is not over", spilled, 14.9, 11},
		{"the first part leaves", spilled, 16, 10},
		{"the last but one", spilled, 24.9, 2},
		{"all have left", spilled, 25, 1},
		{"all are back", append(slices.Clone(spilled), Instant{at(20), none}), 20, 10},
		{"a break", append(slices.Clone(spilled), Instant{at(14), none}, Instant{at(15), one}), 24.9, 11},
		{"another preference", []Instant{{at(0), former}, {at(1), one}}, 10.9, 11},
		{"another preference, later", []Instant{{at(0), former}, {at(1), one}}, 21, 1},
		{"former members", []Instant{{at(0), former}, {at(1), other.State()}}, 1, 1},
	} {
		if got := Sent(x.instants, at(x.now)); len(got) != x.want {
			t.Errorf("%s: %d endpoints, want %d", x.name, len(got), x.want)
		}
	}
}

// TestCordoned: a cordon takes effect part by part, and is taken back from what it has come to.
func TestCordoned(t *testing.T) {
	start := time.Unix(0, 0)
	link := func(second int, cordon Standing, over time.Duration) Link {
		return Link{start.Add(time.Duration(second) * time.Second), true, cordon, over}
	}
	for _, x := range []struct {
		name             string
		links            []Link
		second, out, due int
	}{
		{"the first takes effect at once", []Link{link(0, Withdrawn, time.Minute)}, 0, 10, 0},
		{"nothing yet", []Link{link(0, InService, 0), link(1, Withdrawn, 10*time.Second)}, 1, 0, 10},
		{"three parts", []Link{link(0, InService, 0), link(1, Withdrawn, 10*time.Second)}, 4, 3, 7},
		{"all", []Link{link(0, InService, 0), link(1, Withdrawn, 10*time.Second)}, 11, 10, 0},
		{"taken back", []Link{link(0, InService, 0), link(1, Withdrawn, 10*time.Second), link(4, InService, 10*time.Second)}, 6, 1, 1},
		{"said again", []Link{link(0, InService, 0), link(1, Withdrawn, 10*time.Second), link(4, Withdrawn, 10*time.Second)}, 5, 4, 6},
		{"linked anew", []Link{link(0, InService, 0), {At: start}, link(1, Withdrawn, 10*time.Second)}, 1, 10, 0},
	} {
		list, next := Cordoned(x.links, start.Add(time.Duration(x.second)*time.Second))
		out := 0
		for _, s := range list {
			if s == Withdrawn {
				out++
			}
		}
		if out != x.out || len(next) != x.due {
			t.Errorf("%s: %d parts are out, and %d will change; want %d and %d", x.name, out, len(next), x.out, x.due)
		}
	}
}

// TestInvariants: what docs/preference.md promises of any history. What is needed is there at once. Nothing that is ready is
// never sent. What is not needed has gone once its time is over.
func TestInvariants(t *testing.T) {
	for seed := range uint64(2000) {
		r := rand.New(rand.NewPCG(seed, 0))
		var instants []Instant
		p := Preference{Tiers: tiers([]string{"local, any", "cluster/c1, local, cluster/c2", "zone, region, any", "local+cluster/c1, remote"}[r.IntN(4)]),
			Count: r.IntN(4), Percent: []int{0, 0, 50}[r.IntN(3)], ReturnAfter: time.Duration(r.IntN(3)) * time.Second, ReturnOver: time.Duration(r.IntN(3)) * time.Second}
		for i := range 1 + r.IntN(8) {
			s := three("")
			s.Preference, s.Zone = p, "a"
			for m := range s.Members {
				zones := ""
				for range r.IntN(5) {
					zones += []string{"a ", "b ", "-a "}[r.IntN(3)]
				}
				s.Members[m].Slices[0], s.Members[m].Standings = endpoints(m, zones), All(Standing(max(0, r.IntN(6)-3)))
				if r.IntN(4) == 0 { // a cordon is under way
					s.Members[m].Standings, s.Members[m].Spreading = Standings{LastResort, 2: LastResort}, true
				}
			}
			instants = append(instants, Instant{time.Unix(int64(i), 0), s.State()})
			last := instants[i].State
			sent := Sent(instants, instants[i].At)
			for _, e := range last.Ready {
				if tier := last.TierOf(e); tier < last.Needed() && !strings.Contains(text(sent), text([]Endpoint{e})) {
					t.Fatalf("seed %d: %v of tier %d is not sent, of which %d are needed: %s", seed, e.Addr, tier, last.Needed(), text(sent))
				}
			}
			if usable := slices.ContainsFunc(last.Ready, func(e Endpoint) bool { return last.TierOf(e) <= last.LastResort() }); usable && len(sent) == 0 {
				t.Fatalf("seed %d: nothing is sent", seed)
			}
			for _, e := range Sent(instants, instants[i].At.Add(p.ReturnAfter+p.ReturnOver)) {
				if tier := last.TierOf(e); tier >= last.Needed() {
					t.Fatalf("seed %d: %v of tier %d is still sent", seed, e.Addr, tier)
				}
			}
		}
	}
}
