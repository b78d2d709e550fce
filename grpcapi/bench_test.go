package grpcapi

import (
	"context"
	"net/netip"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"go.uber.org/zap"
	"google.golang.org/grpc/status"

	"isthmus/federation"
	"isthmus/grpcapi/internal/wiretest"
	"isthmus/grpcapi/wire"
)

// fanout is many streams whose messages are only counted.
type fanout struct {
	*world
	change func(turn int) // publishes what all streams send in that turn, 0 or 1
	turn   int
	sinks  []void
	wg     sync.WaitGroup
	sent   *atomic.Int64
	goal   *atomic.Int64
	all    chan struct{}
	stop   context.CancelFunc
}

// void counts messages, and drops them.
type void struct{ f *fanout }

func (v *void) SendMsg(any) error {
	if v.f.sent.Add(1) == v.f.goal.Load() {
		v.f.all <- struct{}{}
	}
	return nil
}

func (v *void) WriteStatus(*status.Status) error { return nil }

// newFanout opens n Get streams of a service with 50 endpoints in each of three
// clusters, and waits until all have their first message.
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
		_ = serve(ctx, f.server.newGet(target{service: web, port: 80}, token{Node: "n1"}, v, v))
	})
	return f
}

// newProfileFanout likewise opens GetProfile streams of a service.
func newProfileFanout(t testing.TB, n int) *fanout {
	f := &fanout{world: newWorld(t, Options{Pace: -1, Messages: wire.Options{H2Upgrade: true}, Log: zap.NewNop()})}
	profiles := [2]*federation.Profile{wiretest.WebProfile("a", "b", "c"), with(wiretest.WebProfile("a", "b", "c"), opaque)}
	f.change = func(turn int) { f.profiles.put(webKey, profiles[turn]) }
	f.change(0)
	f.open(t, n, func(ctx context.Context, v *void) { _ = serve(ctx, f.server.newProfile(webKey, v, v)) })
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

// rest waits until all streams sleep again, so that a measurement counts nothing of
// the step before.
func (f *fanout) rest() {
	for range 100 {
		runtime.Gosched()
	}
}

// TestSharedStepsAllocateNothingPerStream: the allocations of a step do not depend on
// the number of streams.
func TestSharedStepsAllocateNothingPerStream(t *testing.T) {
	for name, open := range map[string]func(testing.TB, int) *fanout{"Get": newFanout, "GetProfile": newProfileFanout} {
		t.Run(name, func(t *testing.T) {
			const streams = 2000
			f := open(t, streams)
			f.step() // timers and the like
			f.rest()
			allocs := testing.AllocsPerRun(20, f.step)
			t.Logf("%v allocations for a step of %d streams", allocs, streams)
			if allocs > streams/10 {
				t.Errorf("a step allocates %v times, with %d streams", allocs, streams)
			}
		})
	}
}
