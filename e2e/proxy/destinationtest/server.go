// Package destinationtest provides a Destination server with scripted responses for tests.
//
// A test registers a function per authority and RPC, which handles each call. Calls for other
// authorities fail with NotFound.
package destinationtest

import (
	"errors"
	"net"
	"net/netip"
	"sync"
	"testing"

	pb "github.com/linkerd/linkerd2-proxy-api/go/destination"
	pbnet "github.com/linkerd/linkerd2-proxy-api/go/net"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Server is a running server that stops at the end of the test.
type Server struct {
	pb.UnimplementedDestinationServer
	addr string

	mu       sync.Mutex
	gets     map[string]func(grpc.ServerStreamingServer[pb.Update]) error
	profiles map[string]func(grpc.ServerStreamingServer[pb.DestinationProfile]) error
	tokens   []string
}

// Start starts a server on a free port of 127.0.0.1 until the end of the test.
func Start(t testing.TB) *Server {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{
		addr:     listener.Addr().String(),
		gets:     map[string]func(grpc.ServerStreamingServer[pb.Update]) error{},
		profiles: map[string]func(grpc.ServerStreamingServer[pb.DestinationProfile]) error{},
	}
	server := grpc.NewServer()
	pb.RegisterDestinationServer(server, s)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-served; err != nil && !errors.Is(err, grpc.ErrServerStopped) {
			t.Errorf("destination server: %v", err)
		}
	})
	return s
}

func (s *Server) Addr() string { return s.addr }

// Tokens returns the context tokens from all calls so far.
func (s *Server) Tokens() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.tokens...)
}

// OnGet sets the handler of Get for an authority.
func (s *Server) OnGet(authority string, answer func(grpc.ServerStreamingServer[pb.Update]) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gets[authority] = answer
}

// OnProfile sets the handler of GetProfile for an authority.
func (s *Server) OnProfile(authority string, answer func(grpc.ServerStreamingServer[pb.DestinationProfile]) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.profiles[authority] = answer
}

func (s *Server) Get(req *pb.GetDestination, stream grpc.ServerStreamingServer[pb.Update]) error {
	return serve(s, s.gets, req, stream)
}

func (s *Server) GetProfile(req *pb.GetDestination, stream grpc.ServerStreamingServer[pb.DestinationProfile]) error {
	return serve(s, s.profiles, req, stream)
}

func serve[S any](s *Server, answers map[string]func(S) error, req *pb.GetDestination, stream S) error {
	s.mu.Lock()
	s.tokens = append(s.tokens, req.GetContextToken())
	answer := answers[req.GetPath()]
	s.mu.Unlock()
	if answer == nil {
		return status.Errorf(codes.NotFound, "%s not found", req.GetPath())
	}
	return answer(stream)
}

// Send returns a handler that sends the updates from a channel until the channel is closed or the
// client disconnects.
func Send(updates <-chan *pb.Update) func(grpc.ServerStreamingServer[pb.Update]) error {
	return func(stream grpc.ServerStreamingServer[pb.Update]) error {
		for {
			select {
			case u, ok := <-updates:
				if !ok {
					return nil
				}
				if err := stream.Send(u); err != nil {
					return err
				}
			case <-stream.Context().Done():
				return stream.Context().Err()
			}
		}
	}
}

// Add returns an update that adds addresses. It panics if an address is invalid.
func Add(addrs ...string) *pb.Update {
	set := &pb.WeightedAddrSet{}
	for _, a := range addrs {
		set.Addrs = append(set.Addrs, &pb.WeightedAddr{Addr: TCP(a), Weight: 10000})
	}
	return &pb.Update{Update: &pb.Update_Add{Add: set}}
}

func Remove(addrs ...string) *pb.Update {
	set := &pb.AddrSet{}
	for _, a := range addrs {
		set.Addrs = append(set.Addrs, TCP(a))
	}
	return &pb.Update{Update: &pb.Update_Remove{Remove: set}}
}

func None(exists bool) *pb.Update {
	return &pb.Update{Update: &pb.Update_NoEndpoints{NoEndpoints: &pb.NoEndpoints{Exists: exists}}}
}

// TCP converts an address to the form of the API.
func TCP(text string) *pbnet.TcpAddress {
	addr := netip.MustParseAddrPort(text)
	ip := &pbnet.IPAddress{}
	if addr.Addr().Is4() {
		b := addr.Addr().As4()
		ip.Ip = &pbnet.IPAddress_Ipv4{Ipv4: uint32(b[0])<<24 | uint32(b[1])<<16 | uint32(b[2])<<8 | uint32(b[3])}
	} else {
		b := addr.Addr().As16()
		v6 := &pbnet.IPv6{}
		for i := range 8 {
			v6.First = v6.First<<8 | uint64(b[i])
			v6.Last = v6.Last<<8 | uint64(b[8+i])
		}
		ip.Ip = &pbnet.IPAddress_Ipv6{Ipv6: v6}
	}
	return &pbnet.TcpAddress{Ip: ip, Port: uint32(addr.Port())}
}
