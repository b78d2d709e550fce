package main

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	pb "github.com/linkerd/linkerd2-proxy-api/go/destination"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// fakeGateway sends what comes from updates or profiles, and ends with end once
// that is closed.
type fakeGateway struct {
	pb.UnimplementedDestinationServer
	updates  chan *pb.Update
	profiles chan *pb.DestinationProfile
	end      error
	asked    chan *pb.GetDestination
}

func (f *fakeGateway) Get(q *pb.GetDestination, to pb.Destination_GetServer) error {
	f.asked <- q
	return relay(f.updates, to, f.end)
}

func (f *fakeGateway) GetProfile(q *pb.GetDestination, to pb.Destination_GetProfileServer) error {
	f.asked <- q
	return relay(f.profiles, to, f.end)
}

func relay[M any](from <-chan *M, to grpc.ServerStreamingServer[M], end error) error {
	for {
		select {
		case m, ok := <-from:
			if !ok {
				return end
			}
			if err := to.Send(m); err != nil {
				return err
			}
		case <-to.Context().Done():
			return to.Context().Err()
		}
	}
}

// startFake serves a fake gateway for one test and returns its address.
func startFake(t *testing.T) (*fakeGateway, string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &fakeGateway{updates: make(chan *pb.Update), profiles: make(chan *pb.DestinationProfile), asked: make(chan *pb.GetDestination, 1)}
	server := grpc.NewServer()
	pb.RegisterDestinationServer(server, f)
	var wg sync.WaitGroup
	wg.Go(func() { server.Serve(l) })
	t.Cleanup(func() { server.Stop(); wg.Wait() })
	return f, l.Addr().String()
}

// pages is a writer whose content can be waited for.
type pages struct {
	mu    sync.Mutex
	b     bytes.Buffer
	wrote chan struct{}
}

func newPages() *pages { return &pages{wrote: make(chan struct{}, 100)} }

func (p *pages) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.wrote <- struct{}{}
	return p.b.Write(b)
}

func (p *pages) await(t *testing.T, want string) string {
	t.Helper()
	limit := time.After(time.Minute)
	for {
		p.mu.Lock()
		text := p.b.String()
		p.mu.Unlock()
		if strings.Contains(text, want) {
			return text
		}
		select {
		case <-p.wrote:
		case <-limit:
			t.Fatalf("no %q in %q", want, text)
		}
	}
}

// TestGetLive: a state for each change, until a signal ends it.
func TestGetLive(t *testing.T) {
	f, addr := startFake(t)
	out, signals, code := newPages(), make(chan os.Signal, 1), make(chan int)
	go func() {
		code <- run(context.Background(), process{
			args:   []string{"get", "--token", `{"ns":"shop"}`, "web.shop.svc.cluster.local", "--addr", addr},
			stdout: out, stderr: out, signals: signals,
		})
	}()
	q := <-f.asked
	if q.GetPath() != "web.shop.svc.cluster.local" || q.GetContextToken() != `{"ns":"shop"}` {
		t.Errorf("asked for %v", q)
	}
	f.updates <- add("10.0.0.1:80", "10.0.0.2:80")
	out.await(t, "2 endpoints")
	f.updates <- remove("10.0.0.1:80")
	out.await(t, "1 endpoint ")
	f.updates <- none(false)
	out.await(t, "does not exist")
	signals <- syscall.SIGINT
	if c := <-code; c != 0 {
		t.Errorf("exit code %d", c)
	}
}

// TestGetOnce: the first state ends it.
func TestGetOnce(t *testing.T) {
	f, addr := startFake(t)
	go func() {
		<-f.asked
		f.updates <- add("10.0.0.1:80", "10.0.0.2:80")
	}()
	code, out, err := call("get", "web:80", "--once", "-o", "json", "--addr", addr)
	if code != 0 || err != "" || strings.Count(out, "\n") != 1 || strings.Count(out, `"address"`) != 2 {
		t.Errorf("exit code %d, stdout %q, stderr %q", code, out, err)
	}
}

// TestGetSettles: messages that come one right after the other are shown as one state, the first one too.
func TestGetSettles(t *testing.T) {
	for _, once := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			f := session[pb.Update]{followOptions: followOptions{once: once}, verb: "get", state: &fold{}}
			var out bytes.Buffer
			messages, ended := make(chan *pb.Update), make(chan error, 1)
			done := make(chan error)
			go func() {
				done <- f.display(t.Context(), process{stdout: &out, stderr: &out}, &screen{w: &out, authority: "web:80", asJSON: true}, messages, ended)
			}()
			messages <- add("10.0.0.1:80")
			time.Sleep(settle - 1)
			messages <- add("10.0.0.2:80")
			if !once {
				time.Sleep(time.Second)
				messages <- add("10.0.0.3:80")
				messages <- remove("10.0.0.1:80", "10.0.0.2:80")
				time.Sleep(time.Second)
				ended <- errors.New("over")
				close(messages)
			}
			err, counts := <-done, []int{}
			for line := range strings.Lines(out.String()) {
				counts = append(counts, strings.Count(line, `"address"`))
			}
			want := []int{2, 1}
			if once {
				want = []int{2}
			}
			if (err == nil) != once || !slices.Equal(counts, want) {
				t.Errorf("once %t: %v; states of %v endpoints, want %v", once, err, counts, want)
			}
		})
	}
}

// TestGetEnds: how a stream ends is told, with what it means.
func TestGetEnds(t *testing.T) {
	for _, c := range []struct {
		name    string
		updates []*pb.Update
		end     error
		out     string
		err     string
	}{
		{"not found", nil, status.Error(codes.NotFound, "Service web.shop not found"), "", "isthmus get: NotFound: Service web.shop not found\n  There is no such Service"},
		{"invalid", nil, status.Error(codes.InvalidArgument, "Invalid authority: x"), "", "InvalidArgument: Invalid authority: x\n  This authority can never work"},
		{"mirror", nil, status.Error(codes.FailedPrecondition, "m"), "", "of which remote Service"},
		{"unavailable", nil, status.Error(codes.Unavailable, "m"), "", "Unavailable: m\n  Either nothing answers at 127.0.0.1:"},
		{"unavailable for now", nil, status.Error(codes.Unavailable, "m"), "", "or nothing is known of any cluster that the service is in. A proxy asks again"},
		{"internal", nil, status.Error(codes.Internal, "m"), "", "Internal: m\n  A proxy asks again"},
		{"after a state", []*pb.Update{add("10.0.0.1:80")}, status.Error(codes.Unavailable, "shutting down"), "1 endpoint ", "Unavailable: shutting down"},
		{"without an error", []*pb.Update{none(true)}, nil, "no endpoints", "ended the stream without an error"},
		{"faults", []*pb.Update{remove("10.0.0.1:80"), add()}, nil, "", "isthmus get: the server sent a remove before any add: a proxy ignores it\nisthmus get: the server sent an add without addresses"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, addr := startFake(t)
			f.end = c.end
			go func() {
				for _, u := range c.updates {
					f.updates <- u
				}
				close(f.updates)
			}()
			code, out, err := call("get", "web:80", "--addr="+addr)
			if code != 1 || !strings.Contains(out, c.out) || c.out == "" && out != "" || !strings.Contains(err, c.err) {
				t.Errorf("exit code %d, stdout %q, stderr %q", code, out, err)
			}
		})
	}
}

// TestGetOtherServer: an address at which something else, or nothing, answers.
func TestGetOtherServer(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	var wg sync.WaitGroup
	wg.Go(func() { server.Serve(l) })
	defer wg.Wait()
	if code, _, err := call("get", "web:80", "--addr", l.Addr().String()); code != 1 || !strings.Contains(err, "is no Destination server") {
		t.Errorf("exit code %d, %q", code, err)
	}
	server.Stop()
	if code, _, err := call("get", "web:80", "--addr", l.Addr().String()); code != 1 || !strings.Contains(err, "is the gateway running and ready?") {
		t.Errorf("exit code %d, %q", code, err)
	}
}
