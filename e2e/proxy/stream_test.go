package proxy_test

import (
	"context"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	pb "github.com/linkerd/linkerd2-proxy-api/go/destination"
	"go.uber.org/goleak"
	"google.golang.org/grpc"

	"isthmus/e2e/proxy"
	. "isthmus/e2e/proxy/destinationtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func subscribe(t *testing.T, server *Server, kind proxy.Kind) *proxy.Stream {
	t.Helper()
	conn, err := proxy.Dial(server.Addr())
	if err != nil {
		t.Fatal(err)
	}
	stream := proxy.NewStream(proxy.Config{Conn: conn, Kind: kind, Authority: "web:80", Token: "ns:shop"})
	t.Cleanup(func() {
		stream.Close()
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := stream.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	return stream
}

// until waits until a snapshot of the stream satisfies ok.
func until(t *testing.T, s *proxy.Stream, what string, ok func(proxy.Snapshot) bool) proxy.Snapshot {
	t.Helper()
	timeout := time.After(time.Minute)
	for {
		changed := s.Changed()
		snap := s.Snapshot()
		if ok(snap) {
			return snap
		}
		select {
		case <-changed:
		case <-timeout:
			t.Fatalf("condition never met: %s; recent messages: %v", what, s.Recent())
		}
	}
}

func messages(n int64) func(proxy.Snapshot) bool {
	return func(s proxy.Snapshot) bool { return s.Messages == n }
}

func addr(text string) netip.AddrPort { return netip.MustParseAddrPort(text) }

func TestStreamFoldsAndKeepsStateOverReconnect(t *testing.T) {
	server := Start(t)
	updates := make(chan *pb.Update)
	server.OnGet("web:80", Send(updates))
	s := subscribe(t, server, proxy.Get)
	updates <- Add("10.0.0.1:80")
	snap := until(t, s, "first add", messages(1))
	if snap.First == nil || snap.First.Kind != "add" || snap.Phase != proxy.Open {
		t.Errorf("first %v, phase %v", snap.First, snap.Phase)
	}
	s.Close()
	if snap := s.Snapshot(); snap.Phase != proxy.Idle || !snap.Get.Has(addr("10.0.0.1:80")) {
		t.Errorf("closed: %+v", snap.Status)
	}
	updates = make(chan *pb.Update) // otherwise the second call could receive updates meant for the first
	server.OnGet("web:80", Send(updates))
	if err := s.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	if snap := s.Snapshot(); snap.First != nil {
		t.Errorf("a new call begins with first message %v", snap.First)
	}
	if err := s.Open(t.Context()); err == nil {
		t.Error("an open stream was opened again")
	}
	updates <- Remove("10.0.0.1:80")
	snap = until(t, s, "remove", messages(2))
	if !snap.Get.Has(addr("10.0.0.1:80")) || len(snap.Faults) != 1 || snap.Faults[0] != proxy.FirstRemove {
		t.Errorf("a first remove: %v, faults %v", snap.Get.Addrs(), snap.Faults)
	}
	updates <- Add("10.0.0.2:80")
	snap = until(t, s, "second add", messages(3))
	if got := snap.Get.Addrs(); len(got) != 1 || got[0] != addr("10.0.0.2:80") {
		t.Errorf("after reconnecting: %v", got)
	}
	if tokens := server.Tokens(); len(tokens) != 2 || tokens[0] != "ns:shop" {
		t.Errorf("tokens %q", tokens)
	}
	close(updates)
	if snap := until(t, s, "end", func(s proxy.Snapshot) bool { return s.Phase == proxy.Ended }); snap.Err != nil {
		t.Errorf("ended with %v", snap.Err)
	}
}

func TestFlaps(t *testing.T) {
	server := Start(t)
	updates := make(chan *pb.Update)
	server.OnGet("web:80", Send(updates))
	s := subscribe(t, server, proxy.Get)
	n := int64(0)
	send := func(list ...*pb.Update) {
		for _, u := range list {
			updates <- u
			n++
		}
		until(t, s, "messages", messages(n))
	}
	fails := func(want string, addrs ...string) {
		t.Helper()
		var parsed []netip.AddrPort
		for _, a := range addrs {
			parsed = append(parsed, addr(a))
		}
		err := s.Flapped(parsed...)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("Flapped(%v): %v, want %q", addrs, err, want)
		}
	}
	fails("no mark")
	s.Mark()
	fails("at the mark")
	send(Add("10.0.0.1:80", "10.0.0.2:80"))
	fails("at the mark", "10.0.0.1:80")
	s.Mark()
	send(Remove("10.0.0.2:80"), Add("10.0.0.2:80"), Add("10.0.0.3:80"))
	fails("")
	fails("", "10.0.0.1:80")
	fails("absent after message #2", "10.0.0.2:80")
	fails("absent at the mark", "10.0.0.3:80")
	send(None(true), Add("10.0.0.1:80"))
	fails("empty after message #5")
	fails("absent after message #5", "10.0.0.1:80")
	s.Mark()
	fails("", "10.0.0.1:80")
}

// lateConn delays the only message of a stream.
type lateConn struct {
	grpc.ClientConnInterface
	delay time.Duration
}

type lateStream struct {
	grpc.ClientStream
	ctx   context.Context
	delay time.Duration
	sent  bool
}

func (c lateConn) NewStream(
	ctx context.Context,
	_ *grpc.StreamDesc,
	_ string,
	_ ...grpc.CallOption,
) (grpc.ClientStream, error) {
	return &lateStream{ctx: ctx, delay: c.delay}, nil
}

func (*lateStream) SendMsg(any) error { return nil }
func (*lateStream) CloseSend() error  { return nil }
func (s *lateStream) RecvMsg(m any) error {
	if s.sent {
		<-s.ctx.Done()
		return s.ctx.Err()
	}
	s.sent = true
	<-time.After(s.delay) // fake time in a synctest bubble
	m.(*pb.Update).Update = None(true).Update
	return nil
}

func TestLateFirstMessage(t *testing.T) {
	for delay, late := range map[time.Duration]bool{3 * time.Second: false, 3*time.Second + 1: true} {
		synctest.Test(t, func(t *testing.T) {
			s := proxy.NewStream(proxy.Config{Conn: lateConn{delay: delay}, Authority: "web:80"})
			if err := s.Open(t.Context()); err != nil {
				t.Fatal(err)
			}
			snap := until(t, s, "message", messages(1))
			if got := len(snap.Faults) == 1 && snap.Faults[0] == proxy.LateFirst; got != late {
				t.Errorf("after %v: faults %v", delay, snap.Faults)
			}
			s.Close()
		})
	}
}
