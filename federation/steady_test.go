package federation

import (
	"net/netip"
	"slices"
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
	times := rapid.SampledFrom([]time.Duration{0, 2*time.Second + 1, 10 * time.Second})
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
