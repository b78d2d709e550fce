package proxy_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	pb "github.com/linkerd/linkerd2-proxy-api/go/destination"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"isthmus/e2e/proxy"
	. "isthmus/e2e/proxy/destinationtest"
)

// replicas are servers without a network, and what was tried with them.
type replicas struct {
	start time.Time

	mu    sync.Mutex
	up    map[string]chan struct{} // closed: its streams end
	mute  map[string]bool          // never sends anything
	tries []time.Duration          // when connections were tried
}

func newReplicas() *replicas {
	return &replicas{start: time.Now(), up: map[string]chan struct{}{}, mute: map[string]bool{}}
}

func (r *replicas) begin(addr string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.up[addr] = make(chan struct{})
}

func (r *replicas) stop(addr string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	close(r.up[addr])
	delete(r.up, addr)
}

func (r *replicas) tried() []time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.tries)
}

func (r *replicas) connect(_ context.Context, addr string) (proxy.Conn, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tries = append(r.tries, time.Since(r.start))
	over, ok := r.up[addr]
	if !ok {
		return nil, errors.New("refused")
	}
	return replica{over, r.mute[addr]}, nil
}

// replica is a connection to one that is up.
type replica struct {
	over chan struct{}
	mute bool
}

func (replica) Close() error { return nil }

func (replica) Invoke(context.Context, string, any, any, ...grpc.CallOption) error {
	return errors.ErrUnsupported
}

func (r replica) NewStream(ctx context.Context, _ *grpc.StreamDesc, _ string, _ ...grpc.CallOption) (grpc.ClientStream, error) {
	first := make(chan *pb.Update, 1)
	if !r.mute {
		first <- Add("10.0.0.1:80")
	}
	return answers{ctx, r.over, first}, nil
}

// answers is a stream of one message.
type answers struct {
	ctx   context.Context
	over  chan struct{}
	first chan *pb.Update
}

func (answers) Header() (metadata.MD, error) { return nil, nil }
func (answers) Trailer() metadata.MD         { return nil }
func (answers) CloseSend() error             { return nil }
func (a answers) Context() context.Context   { return a.ctx }
func (answers) SendMsg(any) error            { return nil }

// gone is how a stream ends.
var gone = status.Error(codes.Unavailable, "gone")

func (a answers) RecvMsg(m any) error {
	select {
	case u := <-a.first:
		proto.Merge(m.(proto.Message), u)
		return nil
	default:
	}
	select {
	case <-a.over:
		return gone
	case <-a.ctx.Done():
		return a.ctx.Err()
	}
}

// subscriber runs one in a bubble, until the test ends.
func subscriber(t *testing.T, r *replicas, records *proxy.Records, ttl, age time.Duration) *proxy.Subscriber {
	s := proxy.NewSubscriber(proxy.SubscriberConfig{Records: records, TTL: ttl, Age: age, Authority: "web:80", Connect: r.connect})
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { s.Run(ctx) })
	t.Cleanup(func() {
		stop()
		running.Wait()
	})
	return s
}

func (r *replicas) check(t *testing.T, s *proxy.Subscriber, want ...proxy.Opening) {
	t.Helper()
	synctest.Wait()
	if got := s.Openings(); !slices.Equal(got, want) {
		t.Errorf("openings %v, want %v", got, want)
	}
}

// at returns a moment of the test.
func (r *replicas) at(d time.Duration) time.Time { return r.start.Add(d) }

const ms = time.Millisecond

// TestSubscriberFollowsDNS: it stays where it is, comes back there while its cache has the address, and goes elsewhere once the
// time to live is over.
func TestSubscriberFollowsDNS(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, records := newReplicas(), proxy.NewRecords("a")
		r.begin("a")
		r.begin("b")
		s := subscriber(t, r, records, 30*time.Second, 20*time.Second) // looked up at 10 s, 40 s
		time.Sleep(15 * time.Second)
		records.Set("b")
		time.Sleep(5 * time.Second)
		r.stop("a")
		r.begin("a")
		time.Sleep(5 * time.Second)
		r.check(t, s, proxy.Opening{Addr: "a", First: r.start}, proxy.Opening{Addr: "a", Lost: r.at(20 * time.Second), Why: gone, First: r.at(20100 * ms)})
		time.Sleep(16 * time.Second)
		r.stop("a")
		r.begin("a")
		time.Sleep(time.Minute)
		r.check(t, s, proxy.Opening{Addr: "a", First: r.start},
			proxy.Opening{Addr: "a", Lost: r.at(20 * time.Second), Why: gone, First: r.at(20100 * ms)},
			proxy.Opening{Addr: "b", Lost: r.at(41 * time.Second), Why: gone, First: r.at(41100 * ms)})
	})
}

// TestSubscriberBacksOff: 0.1, 0.2, 0.4 s and so on, a minute at most, and from the beginning after a message.
func TestSubscriberBacksOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, records := newReplicas(), proxy.NewRecords("a")
		s := subscriber(t, r, records, time.Hour, 0)
		time.Sleep(200 * time.Second)
		want := []time.Duration{0, 100 * ms, 300 * ms, 700 * ms, 1500 * ms, 3100 * ms, 6300 * ms, 12700 * ms, 25500 * ms, 51100 * ms, 102300 * ms, 162300 * ms}
		if got := r.tried(); !slices.Equal(got, want) {
			t.Errorf("tried at %v, want %v", got, want)
		}
		r.begin("a")
		time.Sleep(22400 * ms) // 222.4 s: a minute after the last
		r.check(t, s, proxy.Opening{Addr: "a", First: r.at(222300 * ms)})
		r.stop("a")
		time.Sleep(150 * ms)
		r.begin("a")
		time.Sleep(10 * time.Second)
		r.check(t, s, proxy.Opening{Addr: "a", First: r.at(222300 * ms)},
			proxy.Opening{Addr: "a", Lost: r.at(222400 * ms), Why: gone, First: r.at(222700 * ms)})
	})
}

// TestSubscriberTakesWhoConnects: of those it knows.
func TestSubscriberTakesWhoConnects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, records := newReplicas(), proxy.NewRecords("a", "b", "c")
		r.begin("b")
		for range 10 {
			s := subscriber(t, r, records, time.Hour, 0)
			r.check(t, s, proxy.Opening{Addr: "b", First: r.start})
		}
	})
}

// TestSubscriberTakesAny: with several that connect it does not always take the same.
func TestSubscriberTakesAny(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, records, at := newReplicas(), proxy.NewRecords("a", "b"), map[string]int{}
		r.begin("a")
		r.begin("b")
		for range 64 { // all at one: once in 2^63
			s := subscriber(t, r, records, time.Hour, 0)
			synctest.Wait()
			at[s.Openings()[0].Addr]++
		}
		if at["a"] == 0 || at["b"] == 0 {
			t.Errorf("taken: %v", at)
		}
	})
}

// TestSubscriberGivesUpASilentReplica: after 3 s, and a pause.
func TestSubscriberGivesUpASilentReplica(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, records := newReplicas(), proxy.NewRecords("a")
		r.begin("a")
		r.mute["a"] = true
		s := subscriber(t, r, records, time.Hour, 0)
		time.Sleep(7 * time.Second)
		r.check(t, s)
		if got, want := r.tried(), []time.Duration{0, 3100 * ms, 6300 * ms}; !slices.Equal(got, want) {
			t.Errorf("tried at %v, want %v", got, want)
		}
	})
}

// TestSubscriberOverTheWire: with real connections.
func TestSubscriberOverTheWire(t *testing.T) {
	server := Start(t)
	updates := make(chan *pb.Update)
	server.OnGet("web:80", Send(updates))
	s := proxy.NewSubscriber(proxy.SubscriberConfig{Records: proxy.NewRecords(server.Addr()), TTL: time.Hour, Authority: "web:80"})
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { s.Run(ctx) })
	defer running.Wait()
	defer stop()
	updates <- Add("10.0.0.1:80")
	until(t, s.Stream(), "first add", messages(1))
	server.OnGet("web:80", Send(updates))
	close(updates)
	until(t, s.Stream(), "the end", func(snap proxy.Snapshot) bool { return snap.Phase != proxy.Open })
}
