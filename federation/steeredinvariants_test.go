package federation

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// steady is a table with one federated service of three clusters, whose Pods, cordons and
// losses change at random. What it publishes is held against the guarantees of preferences,
// by facts that are counted from the Pods. There is one watch, of clients without a zone.
type steady struct {
	*world
	twin   *world // another table with the same inputs
	tiers  [][]ClusterName
	p      *Preference
	pods   map[ClusterName][]pod
	links  map[ClusterName]Link
	watch  *Watch[*Set]
	enough time.Time // since when the first tier suffices; zero: it does not
}

type pod struct{ ready bool }

var steadyClusters = []ClusterName{Local, "east", "north"}

func newSteady(t *rapid.T) *steady {
	s := &steady{world: newWorld(Options{}), twin: newWorld(Options{}), pods: make(map[ClusterName][]pod), links: make(map[ClusterName]Link)}
	s.tiers = rapid.SampledFrom([][][]ClusterName{{{Local}, {"east", "north"}}, {{"east"}, {Local}, {"north"}}, {{Local, "east"}, {"north"}}}).Draw(t, "tiers")
	times := rapid.SampledFrom([]time.Duration{0, 2 * time.Second, 10 * time.Second})
	s.p = &Preference{ReturnAfter: times.Draw(t, "after"), ReturnOver: times.Draw(t, "over")}
	s.p.MinReady = rapid.SampledFrom([]MinReady{{}, {Count: 3}, {Percent: 50}, {Percent: 80}}).Draw(t, "min-ready")
	for _, tier := range s.tiers {
		var terms Tier
		for _, c := range tier {
			if c == Local {
				terms = append(terms, Term{Kind: LocalCluster})
			} else {
				terms = append(terms, Term{Kind: Named, Cluster: c})
			}
		}
		s.p.Tiers = append(s.p.Tiers, terms)
	}
	d := &Definition{Federated: true, Preference: s.p}
	for _, c := range steadyClusters {
		d.Members = append(d.Members, Member{c, webID})
		s.pods[c] = make([]pod, 5)
		s.setLink(c, Link{State: Ready})
		s.write(c)
	}
	s.table.Define(webID, d)
	s.twin.table.Define(webID, d)
	s.watch = s.table.Watch(Key{Service: webID, Port: 80})
	s.twin.watches["w"] = &watched{w: s.twin.table.Watch(Key{Service: webID, Port: 80})}
	return s
}

func (s *steady) setLink(c ClusterName, l Link) {
	for _, w := range []*world{s.world, s.twin} {
		l.Source = w.cluster(c)
		w.table.SetLink(c, l)
	}
	s.links[c] = l
}

// write makes a cluster's Pods what pods has.
func (s *steady) write(c ClusterName) {
	var eps [2][]Endpoint
	for i, p := range s.pods[c] {
		e := Endpoint{Kind: Pod, Addr: netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, byte(slices.Index(steadyClusters, c)), byte(i)}), 0)}
		if p.ready {
			eps[0] = append(eps[0], e)
		} else {
			eps[1] = append(eps[1], e)
		}
	}
	for _, w := range []*world{s.world, s.twin} {
		w.cluster(c).set(webID, "a", eps[0]...)
		w.cluster(c).setUnready(webID, "a", eps[1]...)
		w.table.Changed(c, webID, time.Time{})
	}
}

// suffices reports whether the first n tiers do.
func (s *steady) suffices(n int) bool {
	ready, known := 0, 0
	for _, tier := range s.tiers[:n] {
		for _, c := range tier {
			if s.standing(c) != InService {
				continue
			}
			known += len(s.pods[c])
			ready += s.ready(c)
		}
	}
	if p := s.p.MinReady.Percent; p > 0 {
		return ready > 0 && ready*100 >= p*known
	}
	return ready >= max(1, s.p.MinReady.Count)
}

func (s *steady) standing(c ClusterName) Standing { return max(s.links[c].Cordon, s.links[c].Lost) }

func (s *steady) ready(c ClusterName) (n int) {
	for _, p := range s.pods[c] {
		if p.ready {
			n++
		}
	}
	return n
}

// check checks what is published now.
func (s *steady) check(t *rapid.T) {
	set, _ := s.watch.Get()
	sent := make(map[ClusterName]int)
	for _, e := range set.Endpoints {
		sent[e.Cluster]++
	}
	t.Logf("at %v: local %d, east %d, north %d", s.now.Sub(s.start), sent[Local], sent["east"], sent["north"])
	if other, _ := s.twin.watches["w"].w.Get(); !equalLists(set.Endpoints, other.Endpoints) {
		t.Fatalf("two tables publish %v and %v", text(set.Endpoints), text(other.Endpoints))
	}
	served := false
	for _, c := range steadyClusters {
		served = served || s.standing(c) != Withdrawn && s.ready(c) > 0
	}
	if served && len(set.Endpoints) == 0 {
		t.Fatal("nothing is sent, and something is ready")
	}
	switch suffices := s.suffices(1); {
	case !suffices:
		s.enough = time.Time{}
	case s.enough.IsZero():
		s.enough = s.now
	}
	needed := 1
	for needed < len(s.tiers) && !s.suffices(needed) {
		needed++
	}
	s.checkNeeded(t, sent, needed)
	if !s.enough.IsZero() && !s.now.Before(s.enough.Add(s.p.ReturnAfter+s.p.ReturnOver)) {
		for _, c := range steadyClusters {
			if sent[c] > 0 && (!slices.Contains(s.tiers[0], c) || s.standing(c) != InService) {
				t.Fatalf("%q is in use, although the first tier has sufficed since %v", c, s.enough.Sub(s.start))
			}
		}
	}
}

// checkNeeded checks that everything of the tiers that are needed is sent.
func (s *steady) checkNeeded(t *rapid.T, sent map[ClusterName]int, needed int) {
	any := 0
	for _, tier := range s.tiers[:needed] {
		for _, c := range tier {
			if s.standing(c) != InService {
				continue
			}
			any += s.ready(c)
			if sent[c] != s.ready(c) {
				t.Fatalf("%d of %d of %q are sent, although the first %d tiers are needed", sent[c], s.ready(c), c, needed)
			}
		}
	}
	for _, c := range steadyClusters {
		if any == 0 && s.standing(c) == LastResort && sent[c] != s.ready(c) {
			t.Fatalf("%d of %d of %q are sent, although there is nothing but last resort", sent[c], s.ready(c), c)
		}
	}
}

// TestSteeredInvariants checks after each step: what is needed is there at once, what is not
// needed has gone when its time is over, nothing that is ready is never served, and tables
// with the same inputs and times publish the same. Cordons are at once here.
func TestSteeredInvariants(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newSteady(t)
		cluster := rapid.SampledFrom(steadyClusters)
		t.Repeat(map[string]func(*rapid.T){
			"pod": func(t *rapid.T) {
				c := cluster.Draw(t, "cluster")
				i := rapid.IntRange(0, len(s.pods[c])-1).Draw(t, "pod")
				s.pods[c][i].ready = !s.pods[c][i].ready
				s.write(c)
			},
			"all pods": func(t *rapid.T) {
				c, ready := cluster.Draw(t, "cluster"), rapid.Bool().Draw(t, "ready")
				for i := range s.pods[c] {
					s.pods[c][i].ready = ready
				}
				s.write(c)
			},
			"link": func(t *rapid.T) {
				standing := rapid.SampledFrom([]Standing{InService, InService, LastResort, Withdrawn})
				s.setLink(cluster.Draw(t, "cluster"), Link{State: Ready, Cordon: standing.Draw(t, "cordon"), Lost: standing.Draw(t, "lost")})
			},
			"tick": func(t *rapid.T) {
				d := rapid.SampledFrom([]time.Duration{time.Second, 3 * time.Second, 30 * time.Second}).Draw(t, "time")
				start := s.now
				if err := s.tick(d, func() { s.follow(t); s.check(t) }); err != nil {
					t.Fatal(err)
				}
				if s.now != start.Add(d) {
					t.Fatalf("%v have passed", s.now.Sub(start))
				}
				s.follow(t)
				before, _ := s.watch.Get()
				s.table.watched[webID].rebuild()
				if now, _ := s.watch.Get(); now != before {
					t.Fatalf("Tick was not due, and yet there is something to publish: %v, not %v", text(now.Endpoints), text(before.Endpoints))
				}
			},
			"": s.check,
		})
		s.watch.Close()
		s.twin.watches["w"].w.Close()
		s.checkReleased(t)
	})
}

// follow lets the other table's time pass too.
func (s *steady) follow(t *rapid.T) {
	if err := s.twin.tick(s.now.Sub(s.twin.now), func() {}); err != nil {
		t.Fatal(err)
	}
}

// TestCordonOverNeverEmpties: while cordons come and go in parts, and tiers with them, clients
// have something, and nothing changes between two times at which Tick is due.
func TestCordonOverNeverEmpties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newSteady(t)
		for _, c := range steadyClusters {
			for i := range s.pods[c] {
				s.pods[c][i].ready = true
			}
			s.write(c)
		}
		step := func() {
			set, _ := s.watch.Get()
			if len(set.Endpoints) == 0 {
				t.Fatalf("nothing is sent at %v", s.now.Sub(s.start))
			}
			fresh := s.table.Watch(Key{webID, 80, Client{Zone: fmt.Sprint(s.now)}}) // decided by what is there
			defer fresh.Close()
			now, _ := fresh.Get()
			for _, e := range now.Endpoints {
				if !slices.ContainsFunc(set.Endpoints, func(o *Endpoint) bool { return o.Addr == e.Addr }) {
					t.Fatalf("%v is needed, and not sent at %v", e.Addr, s.now.Sub(s.start))
				}
			}
		}
		for range rapid.IntRange(1, 6).Draw(t, "changes") {
			over := rapid.SampledFrom([]time.Duration{0, 5 * time.Second, 20 * time.Second}).Draw(t, "over")
			cordon := rapid.SampledFrom([]Standing{InService, LastResort}).Draw(t, "cordon")
			s.setLink(rapid.SampledFrom(steadyClusters).Draw(t, "cluster"), Link{State: Ready, Cordon: cordon, CordonOver: over})
			step()
			if err := s.tick(rapid.SampledFrom([]time.Duration{time.Second, 7 * time.Second, time.Minute}).Draw(t, "time"), step); err != nil {
				t.Fatal(err)
			}
			step()
		}
	})
}
