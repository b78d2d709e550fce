package follow

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/watch"
)

// driftWorld is a resource that is listed again once in an interval, more or less.
func driftWorld(t *testing.T, s *scripted, interval time.Duration, f func(t *testing.T, g *Group, known texts, found func() []string)) {
	var seen notes
	o := Options{NoWatchList: true, Relist: interval, Budget: newBudget(1 << 20), Drift: func(d Drift) {
		seen.add(fmt.Sprint(d.Resource, " ", d.Object, " ", d.Problem))
	}}
	s.run(t, o, func(t *testing.T, g *Group, known texts) {
		f(t, g, known, func() []string { return slices.Sorted(slices.Values(seen.take())) })
	})
}

// awaitCheck lets time pass until a check has begun to list, which takes 20 s. Until then bookmarks of a version
// show that the watch is alive.
func (s *scripted) awaitCheck(version string) {
	s.mu.Lock()
	s.pause = 20 * time.Second
	s.mu.Unlock()
	for before := s.count(); s.count() == before; time.Sleep(10 * time.Second) {
		s.newest().bookmark(version, false)
	}
}

// TestDrift: what differs from a list, and has not been touched by the watch once that has come as far as the list, is
// corrected and reported; nothing else is, and no watch ends.
func TestDrift(t *testing.T) {
	s := &scripted{version: "10", items: []item{labelled("a", "1"), labelled("b", "1"), labelled("c", "1"), labelled("d", "1")}}
	driftWorld(t, s, 2*time.Minute, func(t *testing.T, g *Group, known texts, found func() []string) {
		s.become("20", labelled("a", "2"), labelled("b", "1"), labelled("d", "2"), labelled("e", "1"), labelled("f", "1"))
		s.awaitCheck("10")
		w := s.newest()
		w.event(watch.Modified, "14", labelled("d", "3")) // the list brings another version, later
		w.event(watch.Added, "15", labelled("f", "2"))
		w.event(watch.Deleted, "16", labelled("f", ""))
		time.Sleep(30 * time.Second) // the list is read
		if got := found(); len(got) > 0 || known["ns/a"] != "1" {
			t.Errorf("before the watch has come as far as the list: %q, %v", got, known)
		}
		w.bookmark("20", false)
		want := []string{"secrets ns/a another version of it was kept", "secrets ns/c it was kept, and is gone", "secrets ns/e it was missing"}
		if got := found(); !slices.Equal(got, want) {
			t.Errorf("found %q", got)
		}
		if want := (texts{"ns/a": "2", "ns/b": "1", "ns/d": "3", "ns/e": "1"}); !maps.Equal(known, want) {
			t.Errorf("kept %v", known)
		}
		if h := g.Health(); h.Resources[0].Drifted != 3 || h.Resources[0].Objects != 4 || h.Err != nil || s.newest() != w {
			t.Errorf("%+v", h)
		}
		s.become("20", labelled("a", "2"), labelled("b", "1"), labelled("d", "3"), labelled("e", "1"))
		s.awaitCheck("20")
		time.Sleep(30 * time.Second)
		s.newest().bookmark("30", false)
		if got := found(); len(got) > 0 {
			t.Errorf("where nothing has drifted: %q", got)
		}
	})
}

// TestDriftAbandoned: a check that the watch does not come as far as, whose versions can't be compared, or during which the
// watch ends and the objects are listed anew corrects nothing.
func TestDriftAbandoned(t *testing.T) {
	for name, c := range map[string]struct {
		version  string
		interval time.Duration
		then     func(s *scripted, w *scriptedEvents)
	}{
		"the watch stays behind": {"20", 4 * time.Minute, func(s *scripted, w *scriptedEvents) {
			time.Sleep(time.Minute)
			w.bookmark("19", false)
			time.Sleep(2 * time.Minute)
			w.bookmark("20", false)
		}},
		"odd versions": {"x20", 4 * time.Minute, func(s *scripted, w *scriptedEvents) { w.bookmark("x20", false) }},
		"a new list": {"20", 2 * time.Minute, func(s *scripted, w *scriptedEvents) {
			time.Sleep(watchSilence + 10*time.Second) // it is listed anew, which finds "2", before the watch ends at its time
			s.newest().bookmark("20", false)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			s := &scripted{version: "10", items: []item{labelled("a", "1")}}
			driftWorld(t, s, 2*time.Minute, func(t *testing.T, g *Group, known texts, found func() []string) {
				w := s.newest()
				s.become(c.version, labelled("a", "2"))
				for range 60 { // bookmarks keep the watch until the check begins
					time.Sleep(10 * time.Second)
					if s.count() > 1 {
						break
					}
					w.bookmark("10", false)
				}
				c.then(s, w)
				if got := found(); len(got) > 0 || g.Health().Resources[0].Drifted != 0 {
					t.Errorf("corrected: %q", got)
				}
			})
		})
	}
}

// TestDriftIsBounded: what one check can't hold is left to the next one, after a minute; and it takes no room of the
// cluster's events.
func TestDriftIsBounded(t *testing.T) {
	s := &scripted{version: "10"}
	b := newBudget(8 << 20)
	drifted := 0
	o := Options{NoWatchList: true, Relist: 2 * time.Minute, Budget: b, Drift: func(Drift) { drifted++ }}
	s.run(t, o, func(t *testing.T, g *Group, known texts) {
		var many []item
		for i := range 300 {
			many = append(many, labelled(fmt.Sprint("n", i), strings.Repeat("x", 10<<10)))
		}
		s.become("20", many...)
		s.awaitCheck("10")
		w := s.newest()
		time.Sleep(25 * time.Second)
		if used := b.Usage().Used; used > 1<<10 {
			t.Errorf("%d bytes are charged", used)
		}
		w.bookmark("20", false)
		synctest.Wait()
		if drifted < 50 || drifted > 110 {
			t.Errorf("%d objects are corrected at first", drifted)
		}
		began := time.Now()
		for drifted < len(many) && time.Since(began) < 4*(checkAgain+30*time.Second) {
			time.Sleep(5 * time.Second)
			s.newest().bookmark("21", false)
			synctest.Wait()
		}
		if drifted != len(many) || len(known) != len(many) {
			t.Errorf("%d objects are corrected", drifted)
		}
	})
}

func (s *scripted) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lists
}
