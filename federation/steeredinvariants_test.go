package federation

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

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
