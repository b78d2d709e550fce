package grpcapi

import (
	"context"
	"net/netip"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"isthmus/federation"
	"isthmus/grpcapi/internal/wiretest"
	"isthmus/grpcapi/wire"
)

// sees checks the messages that the caller has received since the last call.
func (c *caller) sees(t *testing.T, want string) []received {
	t.Helper()
	synctest.Wait()
	m := c.take()
	if got := lines(m); got != want {
		t.Fatalf("got %q, want %q", got, want)
	}
	return m
}

// fails checks that the stream has ended with the code and a message that contains text.
func (c *caller) fails(t *testing.T, code codes.Code, text string) {
	t.Helper()
	synctest.Wait()
	select {
	case <-c.done:
	default:
		t.Fatalf("still open, want %v", code)
	}
	if s := status.Convert(c.err); s.Code() != code || !strings.Contains(s.Message(), text) {
		t.Fatalf("ended with %v, want %v %q", c.err, code, text)
	}
}

func TestPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{Pace: 50 * time.Millisecond})
		w.offer("", pods("10.0.0.1:80")...)
		start := time.Now()
		c := w.get(webAddr, "")
		defer c.hangUp()
		time.Sleep(time.Second)
		w.offer("", pods("10.0.0.2:80")...) // a single change is sent at once
		synctest.Wait()
		for i := range 4 { // the next changes wait and become one step
			time.Sleep(10 * time.Millisecond)
			w.offer("", pods("10.0.0.2:80", []string{"10.0.0.3:80", "10.0.0.4:80"}[i%2])...)
		}
		time.Sleep(time.Second)
		w.offer("", pods("10.0.0.5:80")...)
		m := c.sees(t, "add 10.0.0.1:80; add 10.0.0.2:80; remove 10.0.0.1:80; "+
			"add 10.0.0.4:80; add 10.0.0.5:80; remove 10.0.0.2:80 10.0.0.4:80")
		for i, want := range []time.Duration{0, 1000, 1000, 1050, 2040, 2040} {
			if got := m[i].at.Sub(start); got != want*time.Millisecond {
				t.Errorf("message %d after %v, want %v", i, got, want*time.Millisecond)
			}
		}
	})
}

// TestConflation checks that a slow proxy gets one step for all sets that it missed. The proxy
// never sees endpoints that were added and removed meanwhile.
func TestConflation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{Pace: -1})
		w.offer("", pods("10.0.0.1:80", "10.0.0.2:80")...)
		c := w.get(webAddr, "", gated)
		defer c.hangUp()
		synctest.Wait()
		w.offer("", pods("10.0.0.9:80")...)
		w.offer("", pods("10.0.0.2:80", "10.0.0.3:80")...)
		close(c.gate)
		c.sees(t, "add 10.0.0.1:80 10.0.0.2:80; add 10.0.0.3:80; remove 10.0.0.1:80")
	})
}

func TestStall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var stalled []string
		w := newWorld(t, Options{
			Pace:    -1,
			Stall:   time.Minute,
			Stalled: func(destination string) { stalled = append(stalled, destination) },
		})
		w.offer("", pods("10.0.0.1:80")...)
		c := w.get(webAddr, "", gated)
		defer c.hangUp()
		time.Sleep(59 * time.Second)
		c.gate <- struct{}{}
		c.sees(t, "add 10.0.0.1:80")
		time.Sleep(time.Hour) // a stream without messages does not stall
		c.sees(t, "")
		w.offer("", pods("10.0.0.2:80")...)
		time.Sleep(59 * time.Second)
		c.gate <- struct{}{} // the add; the remove then has its own minute
		time.Sleep(time.Minute - time.Nanosecond)
		c.sees(t, "add 10.0.0.2:80")
		if n := w.server.metrics.getOverflow.count(webAddr); n != 0 {
			t.Errorf("%d overflows before any stall", n)
		}
		time.Sleep(time.Nanosecond)
		c.fails(t, codes.Unavailable, "took too long to read an update")
		if c.status.Code() != codes.Unavailable {
			t.Errorf("the transport got the status %v", c.status)
		}
		if n := w.server.metrics.getOverflow.count(webAddr); n != 1 || !slices.Equal(stalled, []string{webAddr}) {
			t.Errorf("counted %v times, reported as %q", n, stalled)
		}
	})
}

// addressProfile returns the profile of an address.
func addressProfile(opaque bool) *federation.Profile {
	return endpointProfile(&federation.Endpoint{Addr: netip.MustParseAddrPort("10.0.0.1:80"), Opaque: opaque})
}

// TestTurns checks that streams send nothing and can end while no turn is free. Once a turn is
// free, streams send only the newest state.
func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, key := newWorld(t, Options{Pace: -1}), addrKey("10.0.0.1:80")
		w.offer("", pods("10.0.0.1:80")...)
		w.profiles.put(key, addressProfile(false))
		get, profile, leaves := w.get(webAddr, ""), w.getProfile("10.0.0.1:80", ""), w.get(webAddr, "")
		defer get.hangUp()
		defer profile.hangUp()
		defer leaves.hangUp()
		get.sees(t, "add 10.0.0.1:80")
		profile.sees(t, "endpoint 10.0.0.1:80")
		leaves.sees(t, "add 10.0.0.1:80")

		for range cap(w.server.turns) {
			w.server.turns <- struct{}{}
		}
		w.profiles.put(key, addressProfile(true))
		for _, addr := range []string{"10.0.0.2:80", "10.0.0.3:80"} {
			w.offer("", pods("10.0.0.1:80", addr)...)
			get.sees(t, "")
			profile.sees(t, "")
			leaves.sees(t, "")
		}
		leaves.cancel()
		leaves.fails(t, codes.Canceled, "")

		<-w.server.turns
		get.sees(t, "add 10.0.0.3:80")
		profile.sees(t, "endpoint 10.0.0.1:80 opaque")
		get.hangUp()
		profile.hangUp()
		if n, want := len(w.server.turns), cap(w.server.turns)-1; n != want {
			t.Errorf("%d turns are taken, want %d", n, want)
		}
	})
}

// TestSlowProxiesHoldNoTurn checks that slow proxies do not delay others.
func TestSlowProxiesHoldNoTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{Pace: -1})
		w.offer("", pods("10.0.0.1:80")...)
		key := addrKey("10.0.0.1:80")
		w.profiles.put(key, addressProfile(false))
		for range 2 * cap(w.server.turns) {
			for _, c := range []*caller{w.get(webAddr, "", gated), w.getProfile("10.0.0.1:80", "", gated)} {
				defer c.hangUp()
				c.gate <- struct{}{}
			}
		}
		quick := w.get(webAddr, "")
		defer quick.hangUp()
		quick.sees(t, "add 10.0.0.1:80")
		w.profiles.put(key, addressProfile(true))
		w.offer("", pods("10.0.0.1:80", "10.0.0.2:80")...)
		quick.sees(t, "add 10.0.0.2:80")
		w.offer("", pods("10.0.0.1:80")...)
		quick.sees(t, "remove 10.0.0.2:80")
	})
}

// TestPaceHoldsNoTurn checks that a stream takes its turn only after its pace.
func TestPaceHoldsNoTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, key := newWorld(t, Options{Pace: time.Second}), addrKey("10.0.0.1:80")
		w.offer("", pods("10.0.0.1:80")...)
		w.profiles.put(key, addressProfile(false))
		for range 2 * cap(w.server.turns) {
			for _, c := range []*caller{w.get(webAddr, ""), w.getProfile("10.0.0.1:80", "")} {
				defer c.hangUp()
			}
		}
		synctest.Wait()
		w.offer("", pods("10.0.0.1:80", "10.0.0.2:80")...)
		w.profiles.put(key, addressProfile(true))
		synctest.Wait()
		if n := len(w.server.turns); n != 0 {
			t.Errorf("%d turns are taken", n)
		}
	})
}

// TestPaceAfterTurn checks that the pace counts from the start of the turn, not of the wait for it.
func TestPaceAfterTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{Pace: time.Second})
		w.offer("", pods("10.0.0.1:80")...)
		c := w.get(webAddr, "")
		defer c.hangUp()
		c.sees(t, "add 10.0.0.1:80")
		time.Sleep(time.Minute)
		for range cap(w.server.turns) {
			w.server.turns <- struct{}{}
		}
		w.offer("", pods("10.0.0.1:80", "10.0.0.2:80")...)
		time.Sleep(time.Minute)
		<-w.server.turns
		c.sees(t, "add 10.0.0.2:80")
		w.offer("", pods("10.0.0.1:80", "10.0.0.2:80", "10.0.0.3:80")...)
		time.Sleep(time.Second - time.Nanosecond)
		c.sees(t, "")
		time.Sleep(time.Nanosecond)
		c.sees(t, "add 10.0.0.3:80")
	})
}

// TestPanicEndsTurn checks that a stream that panics during its turn ends the turn.
func TestPanicEndsTurn(t *testing.T) {
	w := newWorld(t, Options{})
	get := newGetStream(w.server, target{}, token{}, nil, nil)
	profile := newProfileStream(w.server, federation.ProfileKey{}, nil, nil)
	for name, produce := range map[string]func(){
		"Get":        func() { get.produce() },
		"GetProfile": func() { profile.newest() },
	} {
		w.server.turns <- struct{}{}
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			produce()
		}()
		if n := len(w.server.turns); n != 0 {
			t.Fatalf("%s: %d turns are taken", name, n)
		}
	}
}

// TestTurnLastsForProduction checks that a stream keeps its turn until its messages are encoded.
// The test holds the lock of the view, which the stream needs for encoding.
func TestTurnLastsForProduction(t *testing.T) {
	w := newWorld(t, Options{Pace: -1})
	w.offer("", pods("10.0.0.1:80")...)
	c := w.get(webAddr, "")
	defer c.hangUp()
	wiretest.Until(t, "the first message", func() bool { return len(c.take()) == 1 })
	view := w.server.getViews.acquire(w.server.table.Key(web, 80, federation.Client{}))
	defer w.server.getViews.release(view)
	view.mu.Lock()
	unlock := sync.OnceFunc(view.mu.Unlock)
	defer unlock()
	w.offer("", pods("10.0.0.1:80", "10.0.0.2:80")...)
	wiretest.Until(t, "its turn", func() bool { return len(w.server.turns) == 1 })
	unlock()
	wiretest.Until(t, "the update", func() bool { return len(c.take()) == 1 })
	wiretest.Until(t, "no turn", func() bool { return len(w.server.turns) == 0 })
}

// fanout is a world with many streams whose messages are only counted.
type fanout struct {
	*world
	change func(turn int) // publishes the state of that turn, 0 or 1
	turn   int
	sinks  []void
	wg     sync.WaitGroup
	sent   *atomic.Int64
	goal   *atomic.Int64
	all    chan struct{}
	stop   context.CancelFunc
}

// void is the transport of a stream. void counts messages and discards them.
type void struct{ f *fanout }

func (v *void) SendMsg(any) error {
	if v.f.sent.Add(1) == v.f.goal.Load() {
		v.f.all <- struct{}{}
	}
	return nil
}

func (v *void) WriteStatus(*status.Status) error { return nil }

// newFanout opens n Get streams of a service with 50 endpoints in each of three clusters. All
// streams then have their first message.
func newFanout(t testing.TB, n int) *fanout {
	f := &fanout{world: newWorld(t, Options{Pace: -1, Messages: wire.Options{H2Upgrade: true}, Log: zap.NewNop()})}
	for i, c := range []federation.ClusterName{"", "east", "north"} {
		f.offer(c, fifty(i)...)
	}
	changed := fifty(0)
	changed[7].Opaque = true
	sets := [2][]*federation.Slice{f.clusters[""].read(web).Slices, {sliceOf("", changed...)}}
	f.change = func(turn int) { f.share("", federation.Share{State: federation.Present, Slices: sets[turn]}) }
	f.open(t, n, func(ctx context.Context, v *void) {
		_ = serve(ctx, newGetStream(f.server, target{service: web, port: 80}, token{Node: "n1"}, v, v))
	})
	return f
}

// newProfileFanout opens n GetProfile streams of a service.
func newProfileFanout(t testing.TB, n int) *fanout {
	f := &fanout{world: newWorld(t, Options{Pace: -1, Messages: wire.Options{H2Upgrade: true}, Log: zap.NewNop()})}
	profiles := [2]*federation.Profile{
		wiretest.WebProfile("a", "b", "c"),
		with(wiretest.WebProfile("a", "b", "c"), opaque),
	}
	f.change = func(turn int) { f.profiles.put(webKey, profiles[turn]) }
	f.change(0)
	f.open(t, n, func(ctx context.Context, v *void) { _ = serve(ctx, newProfileStream(f.server, webKey, v, v)) })
	return f
}

// open runs n streams until the test ends, and waits for their first messages.
func (f *fanout) open(t testing.TB, n int, run func(context.Context, *void)) {
	f.sinks = make([]void, n)
	f.sent, f.goal, f.all = new(atomic.Int64), new(atomic.Int64), make(chan struct{}, 1)
	ctx, stop := context.WithCancel(context.Background())
	f.stop = stop
	f.goal.Store(int64(n))
	for i := range f.sinks {
		f.sinks[i].f = f
		f.wg.Go(func() { run(ctx, &f.sinks[i]) })
	}
	<-f.all
	t.Cleanup(func() { f.stop(); f.wg.Wait() })
}

func fifty(cluster int) []*federation.Endpoint {
	list := make([]*federation.Endpoint, 50)
	for i := range list {
		e := wiretest.Shop()
		e.Addr = netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, byte(cluster), 0, byte(i)}), 80)
		list[i] = e
	}
	return list
}

// step publishes a change, and waits until all streams have sent it.
func (f *fanout) step() {
	f.goal.Store(f.sent.Load() + int64(len(f.sinks)))
	f.turn = 1 - f.turn
	f.change(f.turn)
	<-f.all
}

// rest waits until all streams are idle, so that a measurement does not include the previous step.
func (f *fanout) rest() {
	for range 100 {
		runtime.Gosched()
	}
}

// TestSharedStepsAllocateNothingPerStream checks that the allocations of a step do not depend on
// the number of streams.
func TestSharedStepsAllocateNothingPerStream(t *testing.T) {
	for name, open := range map[string]func(testing.TB, int) *fanout{"Get": newFanout, "GetProfile": newProfileFanout} {
		t.Run(name, func(t *testing.T) {
			const streams = 2000
			f := open(t, streams)
			f.step() // allocates timers and other long-lived objects
			f.rest()
			allocs := testing.AllocsPerRun(20, f.step)
			t.Logf("%v allocations for a step of %d streams", allocs, streams)
			if allocs > streams/10 {
				t.Errorf("a step allocates %v times, with %d streams", allocs, streams)
			}
		})
	}
}
