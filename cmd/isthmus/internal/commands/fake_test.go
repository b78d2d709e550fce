package commands

import (
	"bytes"
	"context"
	"net"
	"os"
	"strconv"
	"sync"
	"testing"

	pb "github.com/linkerd/linkerd2-proxy-api/go/destination"
	"go.uber.org/goleak"
	"google.golang.org/grpc"

	"isthmus/cmd/isthmus/internal/cli"
	"isthmus/internal/adminapi"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// newProgram returns isthmus with the verbs of this package.
func newProgram() *cli.Program {
	return &cli.Program{Name: "isthmus", Build: testBuild, Groups: []cli.Group{{Title: "Verbs", Commands: All(nil)}}}
}

// call runs the program and returns its exit code and output.
func call(args ...string) (code int, stdout, stderr string) {
	var out, err bytes.Buffer
	code = newProgram().Run(context.Background(), cli.Process{Args: args, Stdout: &out, Stderr: &err, Signals: make(chan os.Signal)})
	return code, out.String(), err.String()
}

// fakeGateway sends what comes from updates or profiles, and ends with end once
// that is closed.
type fakeReplica struct {
	pb.UnimplementedDestinationServer
	updates  chan *pb.Update
	profiles chan *pb.DestinationProfile
	end      error
	asked    chan *pb.GetDestination
}

func (f *fakeReplica) Get(q *pb.GetDestination, to pb.Destination_GetServer) error {
	f.asked <- q
	return relay(f.updates, to, f.end)
}

func (f *fakeReplica) GetProfile(q *pb.GetDestination, to pb.Destination_GetProfileServer) error {
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
func startFake(t *testing.T) (*fakeReplica, string) {
	t.Helper()
	f := &fakeReplica{updates: make(chan *pb.Update), profiles: make(chan *pb.DestinationProfile), asked: make(chan *pb.GetDestination, 1)}
	return f, serveGRPC(t, f)
}

// serveGRPC serves for one test and returns the address.
func serveGRPC(t *testing.T, of pb.DestinationServer) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	pb.RegisterDestinationServer(server, of)
	var wg sync.WaitGroup
	wg.Go(func() { server.Serve(l) })
	t.Cleanup(func() { server.Stop(); wg.Wait() })
	return l.Addr().String()
}

// testBuild is what this program was built from.
var testBuild = adminapi.Build{Version: "v1.2.3"}

// thisFormat is of a page that this program can judge.
var thisFormat = Origin{Format: strconv.Itoa(adminapi.Format)}
