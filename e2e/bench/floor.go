package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"

	pb "github.com/linkerd/linkerd2-proxy-api/go/destination"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"

	"isthmus/e2e/harness"
)

// The floor is a minimal grpc-go server of the Destination service, with which Isthmus is compared.
// It sends encoded messages that were recorded from Isthmus.
//
// The server is grpc.NewServer with a codec that returns the recorded bytes. All other settings,
// such as flow control and buffers, are grpc-go's defaults. For each call, the server sends the
// recorded first messages for the authority and waits. A step command sends the next recorded
// message to all streams with a given method and authority. Each stream sends its messages from the
// goroutine of its gRPC handler, which is the simplest way to stream with grpc-go.

// ServeFloor serves a recording on a free port of 127.0.0.1. It writes its address to out, reads
// steps from in (lines of "NUMBER METHOD AUTHORITY"), and returns at the end of in.
func ServeFloor(recording string, in io.Reader, out io.Writer) (err error) {
	r, err := readFloorRecording(recording)
	if err != nil {
		return err
	}
	s := newFloorServer(r)
	debug.FreeOSMemory() // streams must not reuse memory from reading, or they would seem to need none
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	g := s.GRPC()
	served := make(chan error, 1)
	go func() { served <- g.Serve(listener) }()
	defer func() {
		g.Stop()
		err = errors.Join(err, <-served)
	}()
	if _, err := fmt.Fprintln(out, listener.Addr()); err != nil {
		return err
	}
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		number, of, _ := strings.Cut(lines.Text(), " ")
		method, authority, _ := strings.Cut(of, " ")
		n, err := strconv.Atoi(number)
		if err != nil {
			return fmt.Errorf("%q is not NUMBER METHOD AUTHORITY: %w", lines.Text(), err)
		}
		if err := s.Step(method, authority, n); err != nil {
			return err
		}
	}
	return lines.Err()
}

type floorProcess struct {
	proc *harness.Process
	addr string
}

// startFloor runs a command that calls ServeFloor with its standard input and output. The process
// never outlives this process.
func startFloor(ctx context.Context, command ...string) (*floorProcess, error) {
	p, err := harness.StartProcess(
		harness.ProcessConfig{Path: command[0], Args: command[1:], Output: os.Stderr, Announces: true},
	)
	if err != nil {
		return nil, fmt.Errorf("start the floor: %w", err)
	}
	addr, err := p.AwaitLine(ctx)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("the floor %w", err), p.Kill())
	}
	return &floorProcess{proc: p, addr: addr}, nil
}

func (p *floorProcess) Addr() string { return p.addr }

func (p *floorProcess) Pid() int { return p.proc.Pid() }

// Step sends a recorded step to all streams with the given method and authority.
func (p *floorProcess) Step(method, authority string, number int) error {
	_, err := fmt.Fprintf(p.proc, "%d %s %s\n", number, method, authority)
	return err
}

// Stop ends the process. It returns an error if the process has failed.
func (p *floorProcess) Stop() error { return p.proc.Close() }

type floorServer struct {
	pb.UnimplementedDestinationServer
	gets, profiles map[string]*floorTopic // read-only
}

// newFloorServer returns a floorServer. GRPC returns the server to start.
func newFloorServer(r floorRecording) *floorServer {
	return &floorServer{gets: newFloorTopics(r.Get), profiles: newFloorTopics(r.GetProfile)}
}

func (s *floorServer) GRPC() *grpc.Server {
	g := grpc.NewServer(grpc.ForceServerCodecV2(floorCodec{encoding.GetCodecV2(proto.Name)}))
	pb.RegisterDestinationServer(g, s)
	return g
}

func (s *floorServer) Get(req *pb.GetDestination, out grpc.ServerStreamingServer[pb.Update]) error {
	return serveFloorTopic(s.gets, req.GetPath(), out)
}

func (s *floorServer) GetProfile(req *pb.GetDestination, out grpc.ServerStreamingServer[pb.DestinationProfile]) error {
	return serveFloorTopic(s.profiles, req.GetPath(), out)
}

// Step sends a recorded step to all streams with the given method (Get or GetProfile) and
// authority.
func (s *floorServer) Step(method, authority string, number int) error {
	t := map[string]map[string]*floorTopic{"Get": s.gets, "GetProfile": s.profiles}[method][authority]
	if t == nil || number < 0 || number >= len(t.steps) {
		return fmt.Errorf("no step %d of %s %q is recorded", number, method, authority)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	last := t.last
	t.last = newFloorEvent(t.steps[number])
	last.after = t.last
	close(last.passed)
	return nil
}

// floorTopic is the recording for one authority, together with the steps made so far.
type floorTopic struct {
	first, steps []*floorFrame // read-only

	mu   sync.Mutex
	last *floorEvent
}

// floorEvent is a step in a linked list. Streams wait for the next event.
type floorEvent struct {
	frame  *floorFrame
	passed chan struct{} // closed when after is set
	after  *floorEvent
}

func newFloorEvent(f *floorFrame) *floorEvent {
	return &floorEvent{frame: f, passed: make(chan struct{})}
}

func newFloorTopics(answers map[string]floorAnswer) map[string]*floorTopic {
	topics := make(map[string]*floorTopic, len(answers))
	for authority, a := range answers {
		topics[authority] = &floorTopic{
			first: newFloorFrames(a.First),
			steps: newFloorFrames(a.Steps),
			last:  newFloorEvent(nil),
		}
	}
	return topics
}

func (t *floorTopic) newest() *floorEvent {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.last
}

func serveFloorTopic(topics map[string]*floorTopic, authority string, out grpc.ServerStream) error {
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

type floorFrame mem.BufferSlice

func newFloorFrames(messages [][]byte) []*floorFrame {
	var frames []*floorFrame
	for _, m := range messages {
		frames = append(frames, &floorFrame{mem.SliceBuffer(m)})
	}
	return frames
}

// floorCodec returns frames without encoding. It decodes requests with gRPC's codec.
type floorCodec struct{ encoding.CodecV2 }

func (c floorCodec) Marshal(v any) (mem.BufferSlice, error) {
	if f, ok := v.(*floorFrame); ok {
		return mem.BufferSlice(*f), nil
	}
	return c.CodecV2.Marshal(v)
}

type floorRecording struct {
	Get, GetProfile map[string]floorAnswer // by authority
}

// floorAnswer contains the encoded messages of one stream.
type floorAnswer struct {
	First [][]byte // messages at the start of the stream
	Steps [][]byte // one message per step
}

// Of returns the recorded messages for a method, Get or GetProfile.
func (r floorRecording) Of(method string) map[string]floorAnswer {
	if method == "GetProfile" {
		return r.GetProfile
	}
	return r.Get
}

func (r floorRecording) Write(path string) error {
	text, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("recording: %w", err)
	}
	return os.WriteFile(path, text, 0o600)
}

func readFloorRecording(path string) (r floorRecording, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal(text, &r); err != nil {
		return r, fmt.Errorf("recording %s: %w", path, err)
	}
	return r, nil
}
