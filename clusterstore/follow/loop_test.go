package follow

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// TestAfterWatch checks that a new watch resumes from the last version. If the old watch may have
// missed events, the objects are listed instead.
func TestAfterWatch(t *testing.T) {
	busy, broken, unreachable := apierrors.NewTooManyRequestsError("later"), apierrors.NewInternalError(errors.New(
		"connection reset by peer",
	)), errors.New("connection refused")
	forbidden := apierrors.NewForbidden(corev1.Resource("secrets"), "", nil)
	reset, lost := errors.New("read: connection reset by peer"), errors.New("http2: client connection lost")
	timedOut := &net.OpError{Op: "read", Err: syscall.ETIMEDOUT} // by keep-alive probes
	sends := func(err error) func(*scriptedEvents) {
		return func(w *scriptedEvents) { w.fail(err) }
	}
	later := func(err error) func(*scriptedEvents) {
		return func(w *scriptedEvents) { time.AfterFunc(emptyWatch, func() { w.fail(err) }) }
	}
	for name, c := range map[string]struct {
		start error                 // of the first watch
		watch func(*scriptedEvents) // of the first watch
		next  string
	}{
		"ended after an event": {
			watch: func(w *scriptedEvents) { w.event(watch.Modified, "2", labelled("a", "")); w.stop() },
			next:  "watch 2",
		},
		"ended after a while": {
			watch: func(w *scriptedEvents) { time.AfterFunc(emptyWatch, w.stop) },
			next:  "watch 1",
		},
		"ended at once":        {watch: (*scriptedEvents).stop, next: "list"},
		"ended by 410":         {watch: sends(gone()), next: "list"},
		"ended by 429":         {watch: sends(busy), next: "watch 1"},
		"ended by 500":         {watch: sends(broken), next: "list"},
		"not begun for 410":    {start: gone(), next: "list"},
		"not begun for 429":    {start: busy, next: "watch 1"},
		"not begun for 403":    {start: forbidden, next: "list"},
		"not begun for 500":    {start: broken, next: "version"},
		"without an answer":    {start: unreachable, next: "version"},
		"reset at once":        {watch: sends(reset), next: "version"},
		"reset after a while":  {watch: later(reset), next: "watch 1"},
		"lost after a while":   {watch: later(lost), next: "version"},
		"silent after a while": {watch: later(timedOut), next: "version"},
	} {
		t.Run(name, func(t *testing.T) {
			var log []string
			s := &scripted{}
			s.onList = func(o metav1.ListOptions) (metav1.ListMeta, []item, error) {
				what := "list"
				if o.Limit == 1 {
					what = "version"
				}
				log = append(log, what)
				return s.all()
			}
			s.onWatch = func(o metav1.ListOptions) error {
				log = append(log, "watch "+o.ResourceVersion)
				if !o.AllowWatchBookmarks || *o.TimeoutSeconds < 300 || *o.TimeoutSeconds > 600 {
					t.Errorf("%+v", o)
				}
				if len(log) == 2 {
					return c.start
				}
				return nil
			}
			s.onEvents = func(_ metav1.ListOptions, w *scriptedEvents, n int) {
				if n == 0 && c.watch != nil {
					c.watch(w)
				}
			}
			s.runNoting(t, Options{}, func(g *Group, _ texts, _ func() []string) {
				time.Sleep(5 * time.Second)
				synctest.Wait()
				want := []string{"list", "watch 1", c.next}
				if c.next == "list" || c.next == "version" {
					want = append(want, "watch 1")
				}
				if h := g.Health(); !slices.Equal(log, want) || h.Err != nil {
					t.Errorf("requests: %q, want %q; %v", log, want, h.Err)
				}
			})
		})
	}
}

// TestNewestVersion checks that a watch is resumed only if the server's version is comparable to
// the last one and not lower.
func TestNewestVersion(t *testing.T) {
	for newest, resumed := range map[string]bool{
		"100": true, "101": true, "1000": true,
		"99": false, "20": false, "": false, "0": false, "x101": false,
	} {
		t.Run(newest, func(t *testing.T) {
			s := &scripted{version: "100"}
			s.run(t, Options{}, func(t *testing.T, g *Group, _ texts) {
				time.Sleep(emptyWatch)
				s.become(newest)
				s.newest().fail(errors.New("http2: client connection lost"))
				time.Sleep(5 * time.Second)
				synctest.Wait()
				if lists := s.lists - 1; (lists == 1) != resumed { // one list reads the version
					t.Errorf("%d lists", lists)
				}
			})
		})
	}
}

// TestLostForLong checks that the time before a lost connection is noticed counts as part of the
// outage. A watch is then resumed only after a shorter pause.
func TestLostForLong(t *testing.T) {
	const pause = 50 * time.Second
	for ended, resumed := range map[error]bool{
		errors.New("connection reset by peer"):      true,
		errors.New("http2: client connection lost"): false,
	} {
		t.Run(ended.Error(), func(t *testing.T) {
			s := &scripted{version: "100"}
			lists := 0
			s.onList = func(o metav1.ListOptions) (metav1.ListMeta, []item, error) {
				if o.Limit != 1 {
					lists++
				}
				return s.all()
			}
			s.run(t, Options{}, func(t *testing.T, _ *Group, _ texts) {
				time.Sleep(steadyWatch)
				lists = 0
				s.fail(errRefused)
				s.newest().fail(ended)
				time.Sleep(pause)
				s.fail(nil)
				time.Sleep(5 * time.Second)
				synctest.Wait()
				if (lists == 0) != resumed {
					t.Errorf("%d lists", lists)
				}
			})
		})
	}
}

// TestBackoff checks that pauses grow during an outage and after short watches. A watch of 30 s
// resets them.
func TestBackoff(t *testing.T) {
	s := &scripted{version: "1"}
	s.run(t, Options{}, func(t *testing.T, _ *Group, _ texts) {
		// outage makes all requests fail for d and returns the pauses between them.
		outage := func(d time.Duration) (pauses []time.Duration) {
			s.fail(errors.New("connection refused"))
			s.newest().fail(errors.New("connection reset by peer"))
			time.Sleep(d)
			synctest.Wait()
			times := s.fail(nil)
			for i := range times[1:] {
				pauses = append(pauses, times[i+1].Sub(times[i]))
			}
			time.Sleep(5 * time.Second)
			return pauses
		}
		time.Sleep(steadyWatch)
		long := outage(10 * time.Minute)
		if long[0] > 300*time.Millisecond || slices.Min(long[4:]) < backoff.Cap || slices.Max(long) >= 4*time.Second {
			t.Errorf("pauses: %v", long)
		}
		time.Sleep(steadyWatch / 2)
		if pauses := outage(time.Minute); slices.Min(pauses) < backoff.Cap {
			t.Errorf("pauses after a short watch: %v", pauses)
		}
		time.Sleep(steadyWatch)
		if pauses := outage(time.Minute); pauses[0] > 300*time.Millisecond {
			t.Errorf("pauses after a long watch: %v", pauses)
		}
	})
}

// TestExpiredPage checks that a list restarts if the token for the next page has expired. The pages
// read before are dropped, and the health does not change.
func TestExpiredPage(t *testing.T) {
	var expired atomic.Bool
	var cached texts // set once the first list is complete
	s := &scripted{version: "1", items: []item{labelled("old", "")}}
	s.onList = func(o metav1.ListOptions) (metav1.ListMeta, []item, error) {
		switch {
		case o.Continue != "":
			expired.Store(true)
			s.become("3", labelled("kept", ""), labelled("new", ""))
			return metav1.ListMeta{}, nil, gone()
		case o.Limit == pageSize && s.newestVersion() == "2" && !expired.Load():
			page := slices.Repeat([]item{labelled("kept", ""), labelled("deleted", "")}, richPage)
			return metav1.ListMeta{ResourceVersion: "2", Continue: "next"}, page, nil
		}
		if _, ok := cached["ns/deleted"]; ok {
			t.Error("a part of the expired list was cached")
		}
		return s.all()
	}
	s.run(t, Options{}, func(t *testing.T, g *Group, known texts) {
		cached = known
		changed := g.HealthChanged()
		s.become("2")
		s.newest().fail(gone())
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if !expired.Load() || !known.has("kept") || !known.has("new") || len(known) != 2 {
			t.Errorf("expired: %v, cached: %v", expired.Load(), known)
		}
		select {
		case <-changed:
			t.Errorf("the health has changed: %+v", g.Health())
		default:
		}
		if from := s.newest().ResourceVersion; from != "3" {
			t.Errorf("a watch from version %s", from)
		}
	})
}

// TestOutdatedAtTimes checks that rejected versions are no failure, however many there are, if
// watches begin in between.
func TestOutdatedAtTimes(t *testing.T) {
	asked, refused := 0, 0
	s := &scripted{
		onWatch: func(o metav1.ListOptions) error {
			if asked++; asked%2 == 1 {
				return nil
			}
			refused++
			return gone()
		},
		onEvents: func(_ metav1.ListOptions, w *scriptedEvents, _ int) {
			time.AfterFunc(time.Minute, w.stop)
		},
	}
	s.runNoting(t, Options{}, func(g *Group, _ texts, _ func() []string) {
		<-g.Synced()
		changed := g.HealthChanged()
		time.Sleep(20 * time.Minute)
		synctest.Wait()
		select {
		case <-changed:
			t.Errorf("the health changed after %d rejected watches", refused)
		default:
		}
		if refused < 15 {
			t.Errorf("%d watches were rejected", refused)
		}
	})
}

// TestListAgain checks that a requested list compacts all objects again, during a watch and during
// a list. The watch continues afterwards.
func TestListAgain(t *testing.T) {
	for name, pause := range map[string]time.Duration{"while watched": 0, "while listed": time.Second} {
		t.Run(name, func(t *testing.T) {
			s := &scripted{version: "1", items: []item{labelled("a", "x")}, pause: pause}
			synctest.Test(t, func(t *testing.T) {
				known, now := texts{}, atomic.Bool{}
				k := secrets(s, known)
				k.Compact = func(o *corev1.Secret) (string, bool) { return fmt.Sprint(o.Labels["x"], now.Load()), true }
				r := New(k)
				g := NewGroup(Options{}, r)
				defer start(t, g, nil)()
				synctest.Wait()
				now.Store(true)
				r.ListAgain()
				time.Sleep(5 * time.Second)
				synctest.Wait()
				if known["ns/a"] != "xtrue" || s.lists != 2 || len(s.watches) != 2 {
					t.Errorf("%v after %d lists and %d watches", known, s.lists, len(s.watches))
				}
				s.newest().event(watch.Added, "3", labelled("b", "y"))
				if !known.has("b") || s.lists != 2 || g.Health().Err != nil {
					t.Errorf("%v after %d lists: %v", known, s.lists, g.Health().Err)
				}
			})
		})
	}
}

// ages is an observer that records all values.
type ages []float64

func (a *ages) Observe(v float64) { *a = append(*a, v) }

// updatedAt returns an object whose last update was at the given time. Another writer applied the
// object later.
func updatedAt(at time.Time) metav1.Object {
	entry := func(op metav1.ManagedFieldsOperationType, at time.Time) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{Operation: op, Time: &metav1.Time{Time: at}}
	}
	return &metav1.ObjectMeta{ManagedFields: []metav1.ManagedFieldsEntry{
		entry(metav1.ManagedFieldsOperationUpdate, at), entry(metav1.ManagedFieldsOperationUpdate, at.Add(-time.Hour)),
		entry(metav1.ManagedFieldsOperationApply, at.Add(time.Hour)), {Operation: metav1.ManagedFieldsOperationUpdate},
	}}
}

func TestLag(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen ages
		l := &lag{seconds: &seen}
		expect := func(what string, want ...float64) {
			t.Helper()
			if len(seen) != len(want) || len(want) == 1 && seen[0] != want[0] {
				t.Errorf("%s: observed %v, want %v", what, seen, want)
			}
			seen = nil
		}
		start := time.Now()
		l.seen(l.updated(updatedAt(start)))
		l.observe(l.updated(updatedAt(start)))
		expect("an update with no newer time than the list's")

		time.Sleep(5 * time.Second)
		l.observe(l.updated(updatedAt(start.Add(2 * time.Second))))
		expect("an update", 3)
		time.Sleep(time.Second)
		l.observe(l.updated(updatedAt(start.Add(2 * time.Second))))
		expect("another one of the same second", 4)
		time.Sleep(time.Hour)
		l.observe(l.updated(updatedAt(start.Add(2 * time.Second))))
		expect("a deletion, which leaves the time of the last update")
		l.observe(l.updated(updatedAt(start.Add(time.Second))))
		expect("an older one")
		l.observe(l.updated(&metav1.ObjectMeta{}))
		expect("an update without time")
		l.observe(l.updated(updatedAt(time.Now().Add(time.Minute))))
		expect("a clock that is ahead", 0)
		time.Sleep(2 * time.Second)
		l.seen(l.updated(updatedAt(time.Now().Add(1000 * time.Hour))))
		time.Sleep(5 * time.Second)
		l.observe(l.updated(updatedAt(time.Now().Add(-time.Second))))
		expect("an update after one with a time in the future", 1)
	})
}

func secret(name string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, ResourceVersion: "2"}}
}

// TestApplied checks that Applied is called once per list and once per event. Failures are reported
// until the objects can be listed or watched again. Printable changes the errors in the health, but
// not those in Report.
func TestApplied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, known := &scripted{
			version: "1",
			items:   []item{labelled("a", ""), labelled("b", "")},
			err:     errors.New("refused by s3cret"),
		}, texts{}
		var seen notes
		failing := false
		k := secrets(s, known)
		k.Fields = "type=x"
		k.Applied = func() { seen.add(fmt.Sprint(slices.Sorted(maps.Keys(known)))) }
		k.Report = func(err error) {
			if now := err != nil; now != failing {
				failing = now
				seen.add(fmt.Sprint("failing ", now))
			}
		}
		g := NewGroup(Options{Printable: func(error) error { return errors.New("refused") }}, New(k))
		defer start(t, g, func() { seen.add("synced") })()
		expect := func(what string, want ...string) {
			t.Helper()
			if got := seen.take(); !slices.Equal(got, want) {
				t.Errorf("%s: %q, want %q", what, got, want)
			}
		}
		expect("at first", "failing true")
		if h := g.Health(); h.Err == nil || h.Err.Error() != "secrets: refused" || h.Resources[0].Err != "refused" ||
			h.Resources[0].Synced {
			t.Errorf("health: %+v", h)
		}
		s.mu.Lock()
		s.err = nil
		s.mu.Unlock()
		time.Sleep(10 * time.Second)
		expect("listed", "failing false", "[ns/a ns/b]", "synced")
		if h := g.Health(); h.Err != nil || h.Resources[0].Objects != 2 || !h.Resources[0].Synced ||
			s.fields != "type=x" {
			t.Errorf("health: %+v", h)
		}
		s.newest().event(watch.Added, "2", labelled("c", ""))
		expect("one more", "[ns/a ns/b ns/c]")
		s.newest().event(watch.Deleted, "3", labelled("a", ""))
		expect("one less", "[ns/b ns/c]")
		if n := g.Health().Resources[0].Objects; n != 2 {
			t.Errorf("%d objects", n)
		}
	})
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
