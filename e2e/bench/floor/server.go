package floor

import (
	"fmt"
	"sync"

	pb "github.com/linkerd/linkerd2-proxy-api/go/destination"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
)

// Server answers with what has been recorded.
type Server struct {
	pb.UnimplementedDestinationServer
	gets, profiles map[string]*topic // fixed
}

// NewServer returns a server of that recording. It starts nothing; see GRPC.
func NewServer(r Recording) *Server {
	return &Server{gets: newTopics(r.Get), profiles: newTopics(r.GetProfile)}
}

// GRPC returns a gRPC server with the Destination service.
func (s *Server) GRPC() *grpc.Server {
	g := grpc.NewServer(grpc.ForceServerCodecV2(codec{encoding.GetCodecV2(proto.Name)}))
	pb.RegisterDestinationServer(g, s)
	return g
}

// Get implements the Destination service.
func (s *Server) Get(req *pb.GetDestination, out grpc.ServerStreamingServer[pb.Update]) error {
	return serve(s.gets, req.GetPath(), out)
}

// GetProfile implements the Destination service.
func (s *Server) GetProfile(req *pb.GetDestination, out grpc.ServerStreamingServer[pb.DestinationProfile]) error {
	return serve(s.profiles, req.GetPath(), out)
}

// Step sends all streams that have called a method, Get or GetProfile, for an authority the step of that number.
func (s *Server) Step(method, authority string, number int) error {
	t := map[string]map[string]*topic{"Get": s.gets, "GetProfile": s.profiles}[method][authority]
	if t == nil || number < 0 || number >= len(t.steps) {
		return fmt.Errorf("no step %d of %s %q is recorded", number, method, authority)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	last := t.last
	t.last = newEvent(t.steps[number])
	last.after = t.last
	close(last.passed)
	return nil
}

// topic is one authority.
type topic struct {
	first, steps []*frame // fixed

	mu   sync.Mutex
	last *event
}

// event is a step that has been made. Who has it waits for the one after it.
type event struct {
	frame  *frame
	passed chan struct{} // closed once after is set
	after  *event
}

func newEvent(f *frame) *event { return &event{frame: f, passed: make(chan struct{})} }

func newTopics(answers map[string]Answer) map[string]*topic {
	topics := make(map[string]*topic, len(answers))
	for authority, a := range answers {
		topics[authority] = &topic{first: newFrames(a.First), steps: newFrames(a.Steps), last: newEvent(nil)}
	}
	return topics
}

func (t *topic) newest() *event {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.last
}

// serve sends one stream its messages, until it ends.
func serve(topics map[string]*topic, authority string, out grpc.ServerStream) error {
	t := topics[authority]
	if t == nil {
		return status.Errorf(codes.NotFound, "%s is not in the recording", authority)
	}
	at, ended := t.newest(), out.Context().Done()
	for _, f := range t.first {
		if err := out.SendMsg(f); err != nil {
			return err
		}
	}
	for {
		select {
		case <-ended:
			return nil
		case <-at.passed:
		}
		at = at.after
		if err := out.SendMsg(at.frame); err != nil {
			return err
		}
	}
}

// frame is one encoded message.
type frame mem.BufferSlice

func newFrames(messages [][]byte) []*frame {
	var frames []*frame
	for _, m := range messages {
		frames = append(frames, &frame{mem.SliceBuffer(m)})
	}
	return frames
}

// codec hands out frames as they are; requests are read by gRPC's own.
type codec struct{ encoding.CodecV2 }

func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	if f, ok := v.(*frame); ok {
		return mem.BufferSlice(*f), nil
	}
	return c.CodecV2.Marshal(v)
}
