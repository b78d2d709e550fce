package commands

import (
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	pb "github.com/linkerd/linkerd2-proxy-api/go/destination"
	pbnet "github.com/linkerd/linkerd2-proxy-api/go/net"
	"google.golang.org/grpc"

	"isthmus/internal/adminapi"
)

// fakeReplica sends the messages of updates or profiles. When the channel is closed, the stream
// ends with end.
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

// startFake serves a fake replica during the test and returns its address.
func startFake(t *testing.T) (*fakeReplica, string) {
	t.Helper()
	f := &fakeReplica{updates: make(chan *pb.Update), profiles: make(chan *pb.DestinationProfile),
		asked: make(chan *pb.GetDestination, 1)}
	return f, serveGRPC(t, f)
}

// serveGRPC serves during the test and returns the address.
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

// testBuild is the build of this program in tests.
var testBuild = adminapi.Build{Version: "v1.2.3"}

// thisFormat is the Origin of a page that this program can judge.
var thisFormat = Origin{Format: strconv.Itoa(adminapi.Format)}

// startAdmin serves pages by path during the test, with noon as the date, and returns its address.
func startAdmin(t *testing.T, pages map[string]http.HandlerFunc) string {
	t.Helper()
	mux := http.NewServeMux()
	for path, page := range pages {
		mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Date", noon.Format(http.TimeFormat))
			w.Header().Set(adminapi.FormatHeader, strconv.Itoa(adminapi.Format))
			page(w, r)
		})
	}
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://")
}

func answer(s string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, s) }
}

func tcp(s string) *pbnet.TcpAddress {
	a := netip.MustParseAddrPort(s)
	if a.Addr().Is4() {
		b := a.Addr().As4()
		return &pbnet.TcpAddress{Port: uint32(a.Port()),
			Ip: &pbnet.IPAddress{Ip: &pbnet.IPAddress_Ipv4{Ipv4: binary.BigEndian.Uint32(b[:])}}}
	}
	b := a.Addr().As16()
	return &pbnet.TcpAddress{Port: uint32(a.Port()), Ip: &pbnet.IPAddress{Ip: &pbnet.IPAddress_Ipv6{
		Ipv6: &pbnet.IPv6{First: binary.BigEndian.Uint64(b[:8]), Last: binary.BigEndian.Uint64(b[8:])}}}}
}

func add(addrs ...string) *pb.Update {
	set := &pb.WeightedAddrSet{}
	for _, a := range addrs {
		set.Addrs = append(set.Addrs, &pb.WeightedAddr{Addr: tcp(a), Weight: 10000})
	}
	return &pb.Update{Update: &pb.Update_Add{Add: set}}
}

func remove(addrs ...string) *pb.Update {
	set := &pb.AddrSet{}
	for _, a := range addrs {
		set.Addrs = append(set.Addrs, tcp(a))
	}
	return &pb.Update{Update: &pb.Update_Remove{Remove: set}}
}

func none(exists bool) *pb.Update {
	return &pb.Update{Update: &pb.Update_NoEndpoints{NoEndpoints: &pb.NoEndpoints{Exists: exists}}}
}

var noon = time.Date(2026, 9, 1, 12, 0, 0, 0, time.UTC)
