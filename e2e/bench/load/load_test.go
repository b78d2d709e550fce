package load_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	pb "github.com/linkerd/linkerd2-proxy-api/go/destination"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"isthmus/e2e/bench/load"
	"isthmus/e2e/proxy/destinationtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// limited ends long after all should be over.
func limited(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// large is an update of some 40 KiB: several of them are more than a window.
func large() *pb.Update {
	u := destinationtest.Add("10.0.0.1:80")
	u.GetAdd().MetricLabels = map[string]string{"filler": strings.Repeat("x", 40<<10)}
	return u
}

// TestOpen has many streams take more than their windows hold, in steps.
func TestOpen(t *testing.T) {
	const streams, steps = 60, 6
	server := destinationtest.Start(t)
	var release [steps]chan struct{}
	for i := range release {
		release[i] = make(chan struct{})
	}
	server.OnGet("web:80", func(stream grpc.ServerStreamingServer[pb.Update]) error {
		for _, ready := range release {
			if err := stream.Send(large()); err != nil {
				return err
			}
			<-ready
		}
		<-stream.Context().Done()
		return nil
	})
	began := time.Now()
	l, err := load.Open(limited(t), load.Config{Addr: server.Addr(), Conns: 7, Targets: slices.Repeat([]load.Target{{Authority: "web:80", Token: "who", Keep: true}}, streams)})
	if err != nil {
		t.Fatal(err)
	}
	for i, ready := range release {
		if err := l.Await(limited(t), i+1); err != nil {
			t.Fatal(err)
		}
		if l.Received() != (i+1)*streams {
			t.Errorf("%d messages, one too early or not at all", l.Received())
		}
		close(ready)
	}
	want, err := proto.Marshal(large())
	if err != nil {
		t.Fatal(err)
	}
	if n := steps * streams * (len(want) + 5); l.Streams() != streams || l.Bytes() != n {
		t.Errorf("%d streams and %d bytes, not %d and %d", l.Streams(), l.Bytes(), streams, n)
	}
	l.Arrivals(func(to load.Target, at []time.Time) {
		if to.Authority != "web:80" || len(at) != steps || !slices.IsSortedFunc(at, time.Time.Compare) || at[0].Before(began) {
			t.Errorf("%v: %v", to, at)
		}
	})
	l.Messages(func(_ load.Target, messages [][]byte) {
		for _, m := range messages {
			if len(m) != len(want) || proto.Unmarshal(m, &pb.Update{}) != nil {
				t.Errorf("a message of %d bytes, not %d", len(m), len(want))
			}
		}
	})
	if tokens := server.Tokens(); len(tokens) != streams || tokens[0] != "who" {
		t.Errorf("tokens %q", tokens)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}

// TestMethods: targets of one authority may call different methods.
func TestMethods(t *testing.T) {
	server := destinationtest.Start(t)
	updates := make(chan *pb.Update, 1)
	updates <- destinationtest.Add("10.0.0.1:80")
	server.OnGet("web:80", destinationtest.Send(updates))
	server.OnProfile("web:80", func(stream grpc.ServerStreamingServer[pb.DestinationProfile]) error {
		if err := stream.Send(&pb.DestinationProfile{FullyQualifiedName: "web"}); err != nil {
			return err
		}
		<-stream.Context().Done()
		return nil
	})
	l, err := load.Open(limited(t), load.Config{Addr: server.Addr(), Conns: 1, Targets: []load.Target{{Authority: "web:80", Keep: true}, {Authority: "web:80", Method: "GetProfile", Keep: true}}})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]proto.Message{"": destinationtest.Add("10.0.0.1:80"), "GetProfile": &pb.DestinationProfile{FullyQualifiedName: "web"}}
	l.Messages(func(to load.Target, messages [][]byte) {
		got := want[to.Method].ProtoReflect().New().Interface()
		if len(messages) != 1 || proto.Unmarshal(messages[0], got) != nil || !proto.Equal(got, want[to.Method]) {
			t.Errorf("%s: %q", to.Method, messages)
		}
	})
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}

func TestOpenFails(t *testing.T) {
	server := destinationtest.Start(t)
	server.OnGet("ends:80", func(stream grpc.ServerStreamingServer[pb.Update]) error {
		return status.Error(codes.ResourceExhausted, "enough")
	})
	server.OnGet("silent:80", func(stream grpc.ServerStreamingServer[pb.Update]) error {
		<-stream.Context().Done()
		return nil
	})
	for authority, want := range map[string]string{"ends:80": "ResourceExhausted: enough", "nobody:80": "NotFound", "silent:80": "0 messages have come, 3 are missing"} {
		t.Run(authority, func(t *testing.T) {
			ctx := limited(t)
			if authority == "silent:80" { // nothing else ends the wait
				brief, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
				defer cancel()
				ctx = brief
			}
			_, err := load.Open(ctx, load.Config{Addr: server.Addr(), Conns: 1, Targets: slices.Repeat([]load.Target{{Authority: authority}}, 3)})
			if err == nil || !strings.Contains(fmt.Sprint(err), want) {
				t.Errorf("%v, without %s", err, want)
			}
		})
	}
}

// TestStreamEnds: a stream that ends later ends a wait.
func TestStreamEnds(t *testing.T) {
	server := destinationtest.Start(t)
	updates := make(chan *pb.Update, 1)
	updates <- destinationtest.Add("10.0.0.1:80")
	server.OnGet("web:80", destinationtest.Send(updates))
	l, err := load.Open(limited(t), load.Config{Addr: server.Addr(), Conns: 1, Targets: []load.Target{{Authority: "web:80"}}})
	if err != nil {
		t.Fatal(err)
	}
	close(updates)
	if err := l.Await(limited(t), 2); err == nil || !strings.Contains(err.Error(), "a stream has ended") {
		t.Error(err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}
