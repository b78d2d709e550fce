package grpcapi

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	pb "github.com/linkerd/linkerd2-proxy-api/go/destination"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/emptypb"

	"isthmus/federation"
	"isthmus/grpcapi/internal/wiretest"
	"isthmus/grpcapi/wire"
)

// crowdOf is the environment variable that turns this test binary into a process of
// clients. Its value is "ADDR METHOD": the server at which they open 10,000 streams of
// 1,000 service ports, and by which method.
const crowdOf = "GRPCAPI_CROWD_OF"

const (
	crowdSize = 10_000 // streams
	updates   = 50     // to each stream
)

// BenchmarkGetProfileMemory is what 10,000 open GetProfile streams of 1,000 services take of
// the server's memory after fifty updates: ours, and that of a bare server that sends
// ready-made bytes. The clients are another process.
func BenchmarkGetProfileMemory(b *testing.B) {
	b.Run("floor", func(b *testing.B) {
		g := grpc.NewServer(grpc.ForceServerCodecV2(wire.NewCodec()))
		v := newWorld(b, Options{Log: zap.NewNop()}).server.profileViews.create(webKey)
		f := &floor{frame: v.enc.Profile(wiretest.WebProfile("a"), v.routings.Of(wiretest.ServiceProfile("a"), 80))}
		f.update.Store(new(make(chan struct{})))
		pb.RegisterDestinationServer(g, f)
		benchmarkMemory(b, g, func(int) { close(*f.update.Swap(new(make(chan struct{})))) }, f.sent.Load)
	})
	b.Run("isthmus", func(b *testing.B) {
		w := newWorld(b, Options{Linger: -1, Pace: -1, Log: zap.NewNop()})
		put := func(turn int) {
			for p := range 1000 {
				profile := wiretest.WebProfile("a")
				if turn%2 == 1 {
					profile = with(profile, opaque)
				}
				w.profiles.put(federation.ProfileKey{Service: web, Port: uint16(1 + p)}, profile)
			}
		}
		put(0)
		g := w.server.GRPC()
		sent := w.server.metrics.calls.methods[pb.Destination_GetProfile_FullMethodName].sent
		benchmarkMemory(b, g, put, func() int64 { return int64(value(sent)) })
	})
}

// floor answers everything with the same message, again and again.
type floor struct {
	pb.UnimplementedDestinationServer
	frame  *wire.Frame
	update atomic.Pointer[chan struct{}] // closed for the next message
	sent   atomic.Int64
}

func (f *floor) GetProfile(_ *pb.GetDestination, out pb.Destination_GetProfileServer) error {
	for {
		next := *f.update.Load()
		if err := out.SendMsg(f.frame); err != nil {
			return err
		}
		f.sent.Add(1)
		select {
		case <-out.Context().Done():
			return out.Context().Err()
		case <-next:
		}
	}
}

// benchmarkMemory measures a server that sends each stream a message when update is called, and
// counts what it has sent.
func benchmarkMemory(b *testing.B, g *grpc.Server, update func(turn int), sent func() int64) {
	addr := listening(b, g)
	var first, taken uint64
	for b.Loop() {
		before, already := inUse(), sent()
		hangUp := crowd(b, addr, "GetProfile")
		first = inUse() - before
		for turn := range updates {
			update(1 + turn)
			want := already + crowdSize*int64(turn+2)
			wiretest.Until(b, "all have the update", func() bool { return sent() >= want })
		}
		taken = inUse() - before
		hangUp()
	}
	b.ReportMetric(float64(first)/crowdSize, "B/stream-at-first")
	b.ReportMetric(float64(taken)/crowdSize, "B/stream")
}

// listening serves until the test ends, and returns the address.
func listening(t testing.TB, g *grpc.Server) string {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() { _ = g.Serve(lis) })
	t.Cleanup(func() {
		g.Stop()
		serving.Wait()
	})
	return lis.Addr().String()
}

// inUse is the memory of heap and stacks after a collection.
func inUse() uint64 {
	runtime.GC()
	runtime.GC() // what the first one has only unhooked
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapInuse + m.StackInuse
}

// crowd starts the clients, and returns when all have their first message.
func crowd(b testing.TB, addr, method string) (hangUp func()) {
	self := exec.Command(os.Args[0])
	self.Env = append(os.Environ(), crowdOf+"="+addr+" "+method)
	self.Stderr = os.Stderr
	in, err := self.StdinPipe()
	out, err2 := self.StdoutPipe()
	if err := errors.Join(err, err2, self.Start()); err != nil {
		b.Fatal(err)
	}
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		b.Error("the clients have failed: ", err)
	}
	return func() {
		if err := errors.Join(in.Close(), self.Wait()); err != nil {
			b.Error(err)
		}
	}
}

// runCrowd is the process of the clients. It prints "ready" when all have their first
// message, and hangs up at the end of its input.
func runCrowd(addrMethod string) error {
	addr, method, _ := strings.Cut(addrMethod, " ")
	for c := range 100 {
		conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithNoProxy())
		if err != nil {
			return err
		}
		defer conn.Close()
		for i := range 100 {
			s, err := conn.NewStream(context.Background(), &grpc.StreamDesc{ServerStreams: true}, "/"+pb.Destination_ServiceDesc.ServiceName+"/"+method)
			if err != nil {
				return err
			}
			req := &pb.GetDestination{
				Scheme: "k8s", Path: fmt.Sprintf("web.shop.svc.cluster.local:%d", 1+(100*c+i)%1000), ContextToken: `{"ns":"shop","nodeName":"n1","pod":"client"}`,
			}
			if err := errors.Join(s.SendMsg(req), s.CloseSend(), s.RecvMsg(&emptypb.Empty{})); err != nil {
				return err
			}
		}
	}
	fmt.Println("ready")
	_, err := io.Copy(io.Discard, os.Stdin)
	return err
}
