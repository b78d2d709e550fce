package grpcapi

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"

	"isthmus/federation"
	"isthmus/grpcapi/internal/wiretest"
)

// views checks the numbers of all views and of idle views of Get streams.
func (w *world) views(t *testing.T, all, idle int) {
	t.Helper()
	synctest.Wait()
	if a, i, _ := w.server.getViews.count(); a != all || i != idle {
		t.Fatalf("%d views, %d of them idle; want %d, %d", a, i, all, idle)
	}
}

// TestFramesAreShared checks that streams with the same key send the same bytes, in first messages
// and in steps. Streams that missed the same sets also send the same bytes.
func TestFramesAreShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{Pace: -1})
		w.offer("", pods("10.0.0.1:80")...)
		w.nodes.move("n1", "a")
		w.nodes.move("n2", "a")
		w.nodes.move("n3", "b")
		a, b, other := w.get(webAddr, "n1"), w.get(webAddr, "n2"), w.get(webAddr, "n3")
		slow, slow2 := w.get(webAddr, "n1", gated), w.get(webAddr, "n2", gated)
		for _, c := range []*caller{a, b, other, slow, slow2} {
			defer c.hangUp()
		}
		same := func(want string, one, two *caller) {
			t.Helper()
			m1, m2 := one.sees(t, want), two.sees(t, want)
			for i := range m1 {
				if m1[i].frame != m2[i].frame {
					t.Errorf("message %d (%s) was encoded twice", i, wiretest.Line(m1[i].update))
				}
			}
		}
		same("add 10.0.0.1:80", a, b)
		w.offer("", pods("10.0.0.2:80")...)
		same("add 10.0.0.2:80; remove 10.0.0.1:80", a, b)
		w.offer("", pods("10.0.0.3:80")...)
		same("add 10.0.0.3:80; remove 10.0.0.2:80", a, b)
		close(slow.gate)
		close(slow2.gate)
		same("add 10.0.0.1:80; add 10.0.0.3:80; remove 10.0.0.1:80", slow, slow2)
		other.sees(t, "add 10.0.0.1:80; add 10.0.0.2:80; remove 10.0.0.1:80; add 10.0.0.3:80; remove 10.0.0.2:80")
		w.views(t, 2, 0)
	})
}

func TestIdleViewsStayForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{Pace: -1, Linger: 30 * time.Second})
		w.offer("", pods("10.0.0.1:80")...)
		first := w.get(webAddr, "")
		frame := first.sees(t, "add 10.0.0.1:80")[0].frame
		first.hangUp()
		w.views(t, 1, 1)
		time.Sleep(30*time.Second - time.Nanosecond)
		again := w.get(webAddr, "")
		w.views(t, 1, 0)
		if got := again.sees(t, "add 10.0.0.1:80")[0].frame; got != frame {
			t.Error("a warm view encoded its set again")
		}
		time.Sleep(time.Minute) // views in use do not expire
		w.views(t, 1, 0)
		again.hangUp()
		w.offer("", pods("10.0.0.2:80")...) // idle views are updated
		third := w.get(webAddr, "")
		third.sees(t, "add 10.0.0.2:80")
		third.hangUp()
		time.Sleep(30*time.Second - time.Nanosecond)
		w.views(t, 1, 1)
		time.Sleep(time.Nanosecond)
		w.views(t, 0, 0)
	})
}

// TestIdleViewsAreBounded checks the limits on the number and the memory of idle views.
func TestIdleViewsAreBounded(t *testing.T) {
	for name, x := range map[string]struct {
		bound Options
		kept  int
	}{
		"number":    {Options{Pace: -1, IdleViews: 3}, 3},
		"weight":    {Options{Pace: -1, IdleBytes: 4*(small+endpointBytes) - 1}, 3},
		"too heavy": {Options{Pace: -1, IdleBytes: 1}, 0},
	} {
		t.Run(name, func(t *testing.T) { testIdleViewsAreBounded(t, x.bound, x.kept) })
	}
}

func testIdleViewsAreBounded(t *testing.T, bound Options, kept int) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, bound)
		w.offer("", pods("10.0.0.1:80", "10.0.0.2:80")...)
		port := func(p int) string { return fmt.Sprintf("web.shop.svc.cluster.local:%d", p) }
		for p := 1; p <= 5; p++ {
			c := w.get(port(p), "")
			synctest.Wait()
			c.hangUp()
		}
		w.views(t, kept, kept)
		for p := 1; p <= 5; p++ {
			warm := p > 5-kept
			w.server.getViews.mu.Lock()
			_, ok := w.server.getViews.all[federation.Key{Service: web, Port: uint16(p)}]
			w.server.getViews.mu.Unlock()
			if ok != warm {
				t.Errorf("port %d: cached is %v", p, ok)
			}
		}
		if n := w.server.getViews.weight; n != (small+endpointBytes)*kept {
			t.Errorf("idle views use %d bytes", n)
		}
		again := w.get(port(5), "")
		again.sees(t, "add 10.0.0.1:80 10.0.0.2:80")
		again.hangUp()
		time.Sleep(time.Minute)
		w.views(t, 0, 0)
		if n := w.server.getViews.weight; n != 0 {
			t.Errorf("%d bytes are in use without views", n)
		}
	})
}

// TestEmptyViewsAreNotKept checks that views of undefined services and of services without
// endpoints are not cached.
func TestEmptyViewsAreNotKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{})
		w.offer("", pods("10.0.0.1:80")...)
		for i := range 50 {
			c := w.get(fmt.Sprintf("x%d.shop.svc.cluster.local", i), "")
			c.fails(t, codes.NotFound, "")
			c = w.get(fmt.Sprintf("x%d.%s", i, webAddr), "")
			c.sees(t, "no_endpoints(true)")
			c.hangUp()
		}
		w.views(t, 0, 0)
	})
}

// TestStepsAreBounded checks that a view caches few steps to its newest set, and no steps to older
// sets.
func TestStepsAreBounded(t *testing.T) {
	set := func(v uint64) *federation.Set {
		return &federation.Set{Version: v, Endpoints: sliceOf("", pods(fmt.Sprintf("10.0.0.%d:80", v))...).Endpoints}
	}
	v := &getView{}
	newest := set(100)
	v.messages(nil, set(1), false)
	for i := range uint64(20) {
		v.messages(set(i), newest, false)
	}
	one, other := v.lazy(set(0), newest, false), v.lazy(set(0), newest, false)
	if one == other {
		t.Error("steps from different sets are shared")
	}
	if from := one.from; v.lazy(from, newest, true) == v.lazy(from, newest, false) {
		t.Error("a full step and a partial step are shared")
	}
	v.messages(set(1), set(2), false) // for a late stream
	if len(v.steps) != maxSteps || slices.ContainsFunc(v.steps, func(f *lazyFrames) bool { return f.to != newest }) {
		t.Errorf("%d steps are cached, or some to an older set", len(v.steps))
	}
	if v.messages(newest, set(101), false); len(v.steps) != 1 {
		t.Errorf("%d steps to the newest set are cached", len(v.steps))
	}
}

// TestFirstMessagesAreShared checks that streams that begin with the newest set share its messages.
// The messages of large sets are shared only for a while.
func TestFirstMessagesAreShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set := func(version uint64, endpoints int) *federation.Set {
			return &federation.Set{Version: version, Endpoints: make([]*federation.Endpoint, endpoints)}
		}
		v, newest := &getView{}, set(1, manyEndpoints)
		kept := func(f *lazyFrames) bool {
			synctest.Wait()
			v.mu.Lock()
			defer v.mu.Unlock()
			return slices.Contains(v.steps, f)
		}
		one := v.lazy(nil, newest, false)
		time.Sleep(firstKept - time.Nanosecond)
		if v.lazy(nil, newest, false) != one {
			t.Error("the first messages were encoded again")
		}
		other := v.lazy(nil, set(2, manyEndpoints), false)
		time.Sleep(time.Nanosecond)
		if !kept(other) {
			t.Error("the messages of a newer set were dropped early")
		}
		time.Sleep(firstKept)
		if kept(other) {
			t.Error("the messages of a large set are still cached")
		}
		small := v.lazy(nil, set(3, manyEndpoints-1), false)
		time.Sleep(2 * firstKept)
		if !kept(small) {
			t.Error("the messages of a small set are not cached")
		}
	})
}

// TestIdleViewsExpireOneByOne checks that each view is closed when its own idle time is over.
func TestIdleViewsExpireOneByOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{Pace: -1, Linger: 10 * time.Second})
		w.offer("", pods("10.0.0.1:80")...)
		use := func(port int) {
			c := w.get(webAt(port), "")
			c.sees(t, "add 10.0.0.1:80")
			c.hangUp()
		}
		for i := range 3 {
			use(80 + i)
			time.Sleep(time.Second)
		}
		use(80)
		time.Sleep(8*time.Second - time.Nanosecond)
		w.views(t, 3, 3)
		for i, after := range []time.Duration{time.Nanosecond, time.Second, time.Second} { // of ports 81, 82, 80
			time.Sleep(after)
			w.views(t, 2-i, 2-i)
		}
	})
}

// TestNoWatch checks that a view whose watch fails to start is removed with its stream.
func TestNoWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{Linger: time.Minute})
		w.profiles.cursed = webKey
		for range 2 {
			func() {
				defer func() {
					if cause := recover(); cause != "cursed destination" {
						t.Errorf("the call ends with %v", cause)
					}
				}()
				serve(t.Context(), newProfileStream(w.server, webKey, nil, nil))
			}()
			w.profileViews(t, 0, 0)
		}
	})
}

// TestRejectedProfileByHistory checks that streams keep their routes while a ServiceProfile is
// rejected, and that streams with the same routes share the bytes.
func TestRejectedProfileByHistory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{Pace: -1})
		open := func() *caller {
			c := w.getProfile(webAddr, "")
			t.Cleanup(c.hangUp)
			return c
		}
		same := func(want string, calls ...*caller) {
			t.Helper()
			frame := calls[0].sees(t, want)[0].frame
			for _, c := range calls[1:] {
				if c.sees(t, want)[0].frame != frame {
					t.Errorf("%q was encoded twice", want)
				}
			}
		}
		w.profiles.put(webKey, wiretest.WebProfile("a"))
		a, b := open(), open()
		same("web routes a", a, b)
		w.profiles.put(webKey, with(wiretest.WebProfile(), rejected))
		late, later := open(), open()
		same("web", late, later)
		a.sees(t, "")
		w.profiles.put(webKey, with(with(wiretest.WebProfile(), rejected), opaque))
		same("web routes a opaque", a, b)
		same("web opaque", late, later)
		a.hangUp()
		again := open() // the same proxy has reconnected without its history
		again.sees(t, "web opaque")
		w.profiles.put(webKey, wiretest.WebProfile("c"))
		same("web routes c", b, late, later, again)
		w.profileViews(t, 1, 0)
	})
}

// TestMadeUpDestinations checks that views of destinations that do not exist are not cached. Views
// of made-up namespaces and ports are cached within the limits that TestIdleViewsAreBounded checks.
func TestMadeUpDestinations(t *testing.T) {
	at := func(port int) string { return fmt.Sprintf("10.0.0.1:%d", port) }
	instance := federation.ProfileKey{Service: web, Instance: "web-0", Port: 80}
	for name, x := range map[string]struct {
		open func(w *world, i int) *caller
		want func(i int) string
		kept int
	}{
		"undeclared ports": {
			func(w *world, i int) *caller {
				w.profiles.put(federation.ProfileKey{
					Service: web,
					Port:    uint16(1000 + i),
				}, &federation.Profile{Reason: federation.NoPort})
				return w.getProfile(fmt.Sprintf("web.shop.svc.cluster.local:%d", 1000+i), "")
			},
			func(int) string { return "nothing" }, 0,
		},
		"namespaces of a service's clients": {
			func(w *world, i int) *caller {
				w.profiles.put(federation.ProfileKey{
					Service:   web,
					Port:      80,
					Namespace: fmt.Sprint("made-up", i),
				}, wiretest.WebProfile())
				return w.getProfile(webAddr, fmt.Sprint("made-up", i))
			},
			func(int) string { return "web" }, 3,
		},
		"a pod's ports": {
			func(w *world, i int) *caller {
				w.profiles.put(addrKey(at(1000+i)), endpointProfile(pod(at(1000+i))))
				return w.getProfile(at(1000+i), "")
			},
			func(i int) string { return "endpoint " + at(1000+i) }, 3,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, Options{IdleViews: 3})
				w.profiles.put(instance, endpointProfile(pod(at(80))))
				for i := range 50 {
					w.getProfile(fmt.Sprintf("x%d.shop.svc.cluster.local", i), "").fails(t, codes.NotFound, "")
					c := x.open(w, i)
					c.sees(t, x.want(i))
					c.hangUp()
				}
				w.profileViews(t, x.kept, x.kept)
				if n := w.server.profileViews.weight; n != x.kept*viewBytes {
					t.Errorf("idle views use %d bytes", n)
				}
				for _, v := range w.server.profileViews.all {
					if len(v.variants) != 0 {
						t.Errorf("an idle view has %d messages", len(v.variants))
					}
				}
			})
		})
	}
}
