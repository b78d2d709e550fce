package grpcapi

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	pb "github.com/linkerd/linkerd2-proxy-api/go/destination"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap/zaptest"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/peer"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"

	"isthmus/federation"
	"isthmus/grpcapi/internal/wiretest"
)

func newTestQuota(t *testing.T, limit int) *quota {
	refused := prometheus.NewCounter(prometheus.CounterOpts{Name: "refused"})
	return newQuota(limit, statusTooManyCalls, refused, zaptest.NewLogger(t))
}

// TestQuota checks which clients are served at the limit.
func TestQuota(t *testing.T) {
	const limit = 80
	a, b, c := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2"), netip.MustParseAddr("fd00::3")
	for _, x := range []struct {
		name   string
		has    map[netip.Addr]int
		served []netip.Addr
	}{
		{"below the limit", map[netip.Addr]int{a: 79}, []netip.Addr{a, b, c}},
		{"one address", map[netip.Addr]int{a: 80}, []netip.Addr{b, c}},
		{"equal addresses", map[netip.Addr]int{a: 40, b: 40}, []netip.Addr{c}},
		{"less than the average", map[netip.Addr]int{a: 60, b: 10, c: 10}, []netip.Addr{b, c}},
		{"one less than the average, which it would reach", map[netip.Addr]int{a: 54, c: 26}, []netip.Addr{b, c}},
		{"the average", map[netip.Addr]int{a: 50, b: 26, c: 4}, []netip.Addr{c}},
		{"an eighth more", map[netip.Addr]int{a: 80, b: 9}, []netip.Addr{b, c}},
		{"an eighth more is used", map[netip.Addr]int{a: 80, b: 10}, nil},
	} {
		t.Run(x.name, func(t *testing.T) {
			q := newTestQuota(t, limit)
			for client, n := range x.has {
				q.use(int64(n))
				q.charge(client, int64(n))
			}
			var served []netip.Addr
			for _, client := range []netip.Addr{a, b, c} {
				if q.take(client) {
					served = append(served, client)
					q.give(client)
				}
			}
			if fmt.Sprint(served) != fmt.Sprint(x.served) {
				t.Errorf("served %v, want %v", served, x.served)
			}
			for client, n := range x.has {
				q.use(-int64(n))
				q.charge(client, -int64(n))
			}
			if q.used != 0 || q.charged != 0 || len(q.by) != 0 {
				t.Errorf("%d in use, and %d charged to %d addresses", q.used, q.charged, len(q.by))
			}
		})
	}
}

// from returns the context of a call from an address.
func from(ctx context.Context, addr string) context.Context {
	conn := &clientConnection{addr: netip.MustParseAddr(addr)}
	return peer.NewContext(ctx, &peer.Peer{AuthInfo: conn})
}

// TestTap checks that calls count until their context ends. At the limit, the client with the most
// calls is refused, and other addresses are served. A call with a deadline is refused only after
// gRPC has started the call.
func TestTap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{Streams: 10})
		var ends []context.CancelFunc
		try := func(addr string, deadline bool) error {
			ctx, cancel := context.WithCancel(t.Context())
			if deadline {
				ctx, cancel = context.WithTimeout(t.Context(), time.Hour)
			}
			ends = append(ends, cancel)
			got, err := w.server.openCalls.tap(from(ctx, addr), &tap.Info{FullMethodName: "/m"})
			if err != nil && deadline {
				t.Errorf("the tap refused a call with a deadline: %v", err)
			}
			if err == nil {
				err = refusal(got)
			}
			return err
		}
		for i := range 10 {
			if err := try("10.0.0.1", i%2 == 0); err != nil {
				t.Fatalf("call %d: %v", i, err)
			}
		}
		for _, deadline := range []bool{false, true} {
			if err := try("10.0.0.1", deadline); status.Code(err) != codes.ResourceExhausted {
				t.Errorf("one call beyond the limit, with a deadline %v: %v", deadline, err)
			}
		}
		if err := try("10.0.0.2", false); err != nil {
			t.Errorf("call from another address: %v", err)
		}
		if err := try("10.0.0.3", false); status.Code(err) != codes.ResourceExhausted {
			t.Errorf("a call beyond the limit plus an eighth: %v", err)
		}
		if n := w.server.openCalls.inUse(); n != 11 {
			t.Errorf("%d calls are counted", n)
		}
		ends[0]()
		synctest.Wait()
		if n := w.server.openCalls.inUse(); n != 10 {
			t.Errorf("%d calls are counted after one ended", n)
		}
		for _, end := range ends {
			end()
		}
		synctest.Wait()
		if n := w.server.openCalls.inUse(); n != 0 || value(w.server.refused) != 3 {
			t.Errorf("%d calls are counted at the end, and %v were refused", n, value(w.server.refused))
		}
	})
}

// TestTooManyCalls checks that calls of every method are refused at the limit, with or without a
// deadline, before their request arrives. After calls have ended, new calls are served without a
// garbage collection.
func TestTooManyCalls(t *testing.T) {
	const limit = 8
	w := newWorld(t, Options{Pace: -1, Streams: limit, Request: time.Hour})
	w.offer("", pods("10.0.0.1:80")...)
	conn := connect(t, listening(t, w.server.GRPC()))
	ctx, end := context.WithCancel(t.Context())
	for range limit {
		_, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, pb.Destination_Get_FullMethodName)
		if err != nil {
			t.Fatal(err)
		}
	}
	wiretest.Until(t, "all calls are counted", func() bool { return w.server.openCalls.inUse() == limit })
	timed, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	for _, method := range []string{
		pb.Destination_Get_FullMethodName, healthpb.Health_Check_FullMethodName, healthpb.Health_Watch_FullMethodName,
		reflectionpb.ServerReflection_ServerReflectionInfo_FullMethodName,
	} {
		for _, ctx := range []context.Context{t.Context(), timed} {
			s, err := conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, method)
			if err != nil {
				t.Fatal(err)
			}
			err = s.RecvMsg(&healthpb.HealthCheckResponse{})
			if status.Code(err) != codes.ResourceExhausted || !strings.Contains(err.Error(), "--max-streams") {
				t.Errorf("%s ends with %v", method, err)
			}
		}
	}
	end()
	wiretest.Until(t, "no call counts", func() bool { return w.server.openCalls.inUse() == 0 })
	if _, err := healthpb.NewHealthClient(conn).Check(t.Context(), &healthpb.HealthCheckRequest{}); err != nil {
		t.Errorf("a call after all others ended: %v", err)
	}
}

// TestTooLargeHeaders checks that a call with too large headers is refused before the server sees
// it.
func TestTooLargeHeaders(t *testing.T) {
	w := newWorld(t, Options{})
	c := newBareClient(t, listening(t, w.server.GRPC()))
	for _, bytes := range []int{1500, maxHeaders} {
		c.more = [][2]string{{"large", strings.Repeat("x", bytes)}}
		if err := c.call(healthpb.Health_Watch_FullMethodName, nil); err != nil {
			t.Fatal(err)
		}
	}
	if got := c.ended(t, 1); got["FRAME_SIZE_ERROR"] != 1 {
		t.Errorf("the call ends with %v", got)
	}
	wiretest.Until(t, "the other call is open", func() bool { return w.server.openCalls.inUse() == 1 })
}

// TestViewMemoryOfOthers checks that the address with the most view memory is refused new views at
// the limit. Another address is served, and all addresses may share existing views.
func TestViewMemoryOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{Pace: -1, Linger: -1, ViewBytes: 16 * small})
		w.offer("", pods("10.0.0.1:80")...)
		at := func(addr string) func(*caller) {
			return func(c *caller) { c.ctx = from(c.ctx, addr) }
		}
		var served []*caller
		open := func(port int, addr string) *caller {
			c := w.get(webAt(port), "", at(addr))
			served = append(served, c)
			return c
		}
		for i := range 16 {
			open(1000+i, "10.9.0.1").sees(t, "add 10.0.0.1:80")
		}
		open(2000, "10.9.0.1").fails(t, codes.ResourceExhausted, "--view-memory")
		open(2000, "10.9.0.2").sees(t, "add 10.0.0.1:80")
		open(2001, "10.9.0.3").sees(t, "add 10.0.0.1:80")
		open(2002, "10.9.0.4").fails(t, codes.ResourceExhausted, "memory") // the limit plus an eighth is in use
		open(2000, "10.9.0.1").sees(t, "add 10.0.0.1:80")
		open(2001, "10.9.0.4").sees(t, "add 10.0.0.1:80")
		for _, c := range served {
			c.hangUp()
		}
		if used, owed := w.server.viewMemory.inUse(), w.server.viewMemory.charged; used != 0 || owed != 0 {
			t.Errorf("%d bytes are in use at the end, and %d charged", used, owed)
		}
	})
}

// connect connects to an address until the end of the test.
func connect(t testing.TB, addr string) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// TestCallsWithoutRequest checks that calls with a missing or incomplete request count from their
// start and end with DeadlineExceeded. A call whose request has arrived stays open.
func TestCallsWithoutRequest(t *testing.T) {
	const each = 50
	methods := []string{
		pb.Destination_Get_FullMethodName, pb.Destination_GetProfile_FullMethodName,
		healthpb.Health_Check_FullMethodName, healthpb.Health_Watch_FullMethodName,
	}
	w := newWorld(t, Options{Pace: -1, Request: 10 * time.Second}) // enough to open all calls
	w.offer("", pods("10.0.0.1:80")...)
	conn := connect(t, listening(t, w.server.GRPC()))
	served, _ := get(t, conn, webAddr, "")
	receive(t, served, "add 10.0.0.1:80")

	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var silent []grpc.ClientStream
	open := func(method string, count int) {
		for range count {
			s, err := conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, method)
			if err != nil {
				t.Fatal(err)
			}
			silent = append(silent, s)
		}
	}
	open(methods[0], each)
	if err := silent[0].SendMsg(&pb.GetDestination{Path: webAddr}); err != nil { // does not end the stream of requests
		t.Fatal(err)
	}
	for _, method := range methods[1:] {
		open(method, each)
	}
	open(reflectionpb.ServerReflection_ServerReflectionInfo_FullMethodName, maxReflections)
	all := int64(1 + len(methods)*each + maxReflections)
	wiretest.Until(t, "all calls are counted", func() bool { return w.server.openCalls.inUse() == all })
	for i, s := range silent {
		if err := s.RecvMsg(&healthpb.HealthCheckResponse{}); status.Code(err) != codes.DeadlineExceeded ||
			ctx.Err() != nil {
			t.Fatalf("call %d: %v", i, err)
		}
	}
	wiretest.Until(t, "only the call that is served is left", func() bool { return w.server.openCalls.inUse() == 1 })
	wiretest.Until(t, "they are counted", func() bool {
		return value(w.server.metrics.calls.methods[methods[0]].handled[codes.DeadlineExceeded]) == each
	})
	w.offer("", pods("10.0.0.1:80", "10.0.0.2:80")...)
	receive(t, served, "add 10.0.0.2:80")
}

// TestConnectionWithoutPreface checks that a connection without data is closed.
func TestConnectionWithoutPreface(t *testing.T) {
	w := newWorld(t, Options{Request: time.Second})
	conn, err := net.Dial("tcp", listening(t, w.server.GRPC()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetReadDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	for buf := make([]byte, 1024); err == nil; {
		_, err = conn.Read(buf)
	}
	if e, ok := err.(net.Error); ok && e.Timeout() {
		t.Error("the connection is still open after 30 s")
	}
}

// TestBudgetOfGrowth checks that the cost of a view follows the size of its set, even beyond the
// limit. Beyond the limit, new streams are refused until the set is smaller.
func TestBudgetOfGrowth(t *testing.T) {
	for name, port := range map[string]int{"a declared port": 80, "an undeclared port": 1000} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, Options{Pace: -1, Linger: -1, ViewBytes: 10 * viewBytes})
				w.declare("", 80)
				offer := func(endpoints int) {
					t.Helper()
					var all []string
					for i := range endpoints {
						all = append(all, fmt.Sprintf("10.0.0.%d:80", i+1))
					}
					w.offer("", pods(all...)...)
					synctest.Wait()
				}
				offer(1)
				c := w.get(webAt(port), "")
				synctest.Wait()
				began := w.server.viewMemory.inUse()
				for _, endpoints := range []int{40, 1, 40, 2} { // messages of so few endpoints count for no stream
					offer(endpoints)
					if got, want := w.server.viewMemory.inUse(), began+int64(endpoints-1)*endpointBytes; got != want {
						t.Errorf("a view of %d endpoints uses %d bytes, want %d", endpoints, got, want)
					}
					other := w.get("made-up."+webAddr, "")
					if endpoints == 40 {
						other.fails(t, codes.ResourceExhausted, "memory")
					} else {
						other.sees(t, "no_endpoints(true)")
					}
					other.hangUp()
				}
				c.hangUp()
				if got := w.server.viewMemory.inUse(); got != 0 {
					t.Errorf("%d bytes are in use at the end", got)
				}
			})
		})
	}
}

// small is the size of a view of a Service with one endpoint.
const small = viewBytes + endpointBytes + 3*memberBytes

// TestBudget checks that calls that need a new view are refused at the limit. Served streams stay
// open, and streams that share a view are served. Freed memory is used again.
func TestBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{Pace: -1, Linger: -1, ViewBytes: 7*small + viewBytes})
		w.offer("", pods("10.0.0.1:80")...)
		var served []*caller
		for i := range 7 {
			served = append(served, w.get(webAt(1000+i), ""))
			served[i].sees(t, "add 10.0.0.1:80")
		}
		w.get(webAt(2000), "").fails(t, codes.ResourceExhausted, "memory")
		shares := w.get(webAt(1000), "")
		shares.sees(t, "add 10.0.0.1:80")
		w.nodes.move("n1", "a")
		served[0].hangUp()
		shares.hangUp()
		zoned := w.get(webAt(1000), "n1")
		zoned.sees(t, "add 10.0.0.1:80")
		w.get(webAt(2000), "").fails(t, codes.ResourceExhausted, "memory")
		w.nodes.move("n1", "b")
		time.Sleep(time.Minute) // the view must follow before the next change
		zoned.sees(t, "add 10.0.0.1:80")
		w.offer("", pods("10.0.0.1:80", "10.0.0.2:80")...)
		time.Sleep(time.Minute)
		zoned.sees(t, "add 10.0.0.2:80")
		if got := value(w.server.refused); got != 2 {
			t.Errorf("%v calls counted", got)
		}
		for _, c := range append(served[1:], zoned) {
			if c.over() {
				t.Error("a served stream ended")
			}
			c.hangUp()
		}
		if got := w.server.viewMemory.inUse(); got != 0 {
			t.Errorf("%d bytes are in use at the end", got)
		}
	})
}

// TestIdleViewsMakeRoom checks that idle views of both RPCs make room for new views. Idle views
// that fit stay cached, and refused calls leave nothing behind.
func TestIdleViewsMakeRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{Pace: -1, Linger: time.Hour, ViewBytes: 40*small + 100})
		w.offer("", pods("10.0.0.1:80")...)
		w.profiles.put(webKey, wiretest.WebProfile())
		open := func(i int) *caller {
			c := w.get(webAt(1000+i), "")
			c.sees(t, "add 10.0.0.1:80")
			return c
		}
		profile := w.getProfile(webAddr, "")
		synctest.Wait()
		profile.hangUp()
		for i := range 500 {
			open(i).hangUp()
		}
		if all, idle, evicted := w.server.getViews.count(); idle < 10 || all != idle || evicted != uint64(500-idle) {
			t.Errorf("%d views are cached, %d of them idle", all, idle)
		}
		var served []*caller
		for i := range 40 {
			served = append(served, open(1000+i))
		}
		if _, idle, _ := w.server.profileViews.count(); idle != 0 {
			t.Error("an idle view of a profile is still cached")
		}
		for i := range 10 {
			w.get(webAt(3000+i), "").fails(t, codes.ResourceExhausted, "memory")
		}
		w.views(t, len(served), 0)
		for _, c := range served {
			c.hangUp()
		}
		if got := value(w.server.refused); got != 10 {
			t.Errorf("%v calls counted", got)
		}
	})
}

// TestBudgetOfMembers checks that a Service with many members uses much memory even if no member
// serves.
func TestBudgetOfMembers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{Pace: -1, ViewBytes: 1 << 20})
		d := &federation.Definition{Federated: true}
		for i := range 256 {
			d.Members = append(
				d.Members,
				federation.Member{Cluster: federation.ClusterName(fmt.Sprint("unlinked-", i)), Service: web},
			)
		}
		w.table.Define(web, d)
		const most = 1 << 20 / (256 * memberBytes)
		for i := range most + 1 {
			c := w.get(webAt(1000+i), "")
			defer c.hangUp()
			if i == most {
				c.fails(t, codes.ResourceExhausted, "memory")
			} else {
				c.sees(t, "no_endpoints(true)")
			}
		}
	})
}

func reflectionRequest() *reflectionpb.ServerReflectionRequest {
	return &reflectionpb.ServerReflectionRequest{
		MessageRequest: &reflectionpb.ServerReflectionRequest_FileContainingSymbol{
			FileContainingSymbol: pb.Destination_ServiceDesc.ServiceName,
		},
	}
}

// TestUntakenReflection checks that the number of unread reflection responses on a connection is
// bounded.
func TestUntakenReflection(t *testing.T) {
	const more = 50
	w := newWorld(t, Options{})
	addr := listening(t, w.server.GRPC())
	c := newBareClient(t, addr)
	const method = reflectionpb.ServerReflection_ServerReflectionInfo_FullMethodName
	list := &reflectionpb.ServerReflectionRequest{MessageRequest: &reflectionpb.ServerReflectionRequest_ListServices{}}
	ends := w.server.metrics.calls.methods[method].handled
	for i := range maxReflected + more {
		if err := c.call(method, list); err != nil {
			t.Fatal(err)
		}
		if (i+1)%maxReflections == 0 { // limits the number of concurrent calls
			wiretest.Until(t, "the calls are over", func() bool {
				return value(ends[codes.OK])+value(ends[codes.ResourceExhausted]) == float64(i+1)
			})
		}
	}
	if got := value(ends[codes.OK]); got != maxReflected {
		t.Errorf("%v calls have an unread response", got)
	}
	if got := c.ended(t, more); got["8"] != more {
		t.Errorf("the other calls end with %v", got)
	}
	if _, err := reflect(t.Context(), t, addr); err != nil {
		t.Error("call on another connection: ", err)
	}
}

// reflect opens a reflection call on a new connection and receives one response.
func reflect(ctx context.Context, t *testing.T, addr string) (reflectionStream, error) {
	t.Helper()
	s, err := reflectionpb.NewServerReflectionClient(connect(t, addr)).ServerReflectionInfo(ctx)
	if err != nil {
		return nil, err
	}
	if err := s.Send(reflectionRequest()); err != nil && err != io.EOF {
		return nil, err
	}
	answer, err := s.Recv()
	if err == nil && len(answer.GetFileDescriptorResponse().GetFileDescriptorProto()) == 0 {
		t.Errorf("the response contains no descriptor: %v", answer)
	}
	return s, err
}

type reflectionStream = grpc.BidiStreamingClient[
	reflectionpb.ServerReflectionRequest,
	reflectionpb.ServerReflectionResponse,
]

// TestReflectionAtOnce checks the limit of concurrent reflection calls.
func TestReflectionAtOnce(t *testing.T) {
	w := newWorld(t, Options{Request: time.Minute})
	addr := listening(t, w.server.GRPC())
	var last reflectionStream
	for range maxReflections {
		var err error
		if last, err = reflect(t.Context(), t, addr); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := reflect(t.Context(), t, addr); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("one call beyond the limit: %v", err)
	}
	if err := last.CloseSend(); err != nil {
		t.Fatal(err)
	}
	wiretest.Until(t, "another one is served", func() bool {
		_, err := reflect(t.Context(), t, addr)
		return err == nil
	})
}

// TestUnreadReflection checks that reflection calls end with their connections if the client does
// not read.
func TestUnreadReflection(t *testing.T) {
	w := newWorld(t, Options{Request: time.Second})
	addr := listening(t, w.server.GRPC())
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	const calls = maxReflections
	ends := make(chan error, calls)
	for range calls {
		conn := connect(t, addr)
		go func() {
			s, err := reflectionpb.NewServerReflectionClient(conn).ServerReflectionInfo(ctx)
			for err == nil { // until the server stops receiving and then ends the call
				err = s.Send(reflectionRequest())
			}
			if s != nil {
				for err = nil; err == nil; {
					_, err = s.Recv()
				}
			}
			ends <- err
		}()
	}
	codeOf := make(map[codes.Code]int)
	for range calls {
		codeOf[status.Code(<-ends)]++
	}
	if ctx.Err() != nil || codeOf[codes.Unavailable] == 0 {
		t.Errorf("calls with unread responses end with %v (%v)", codeOf, ctx.Err())
	}
	if got := value(w.server.metrics.closed.WithLabelValues(closedReflection)); got == 0 {
		t.Error("no closed connection was counted")
	}
	wiretest.Until(t, "no call is open", func() bool { return w.server.openCalls.inUse() == 0 })
	if _, err := reflect(ctx, t, addr); err != nil {
		t.Error("a later call failed: ", err)
	}
}
