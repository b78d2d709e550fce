package proxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"

	pb "github.com/linkerd/linkerd2-proxy-api/go/destination"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

const (
	// FirstMessageLimit is the time that a proxy waits for the first message on a stream.
	FirstMessageLimit = 3 * time.Second
	// window is the flow-control window of streams and connections.
	window = 64 << 10

	recentMessages = 64
	keptFaults     = 16
)

// Dial returns a connection to a Destination server with the settings of a proxy: plain text, fixed
// windows of 64 KiB, and messages of at most 4 MiB. The connection is made on first use. Additional
// options override these settings.
func Dial(addr string, more ...grpc.DialOption) (*grpc.ClientConn, error) {
	conn, err := grpc.NewClient("passthrough:///"+addr, append([]grpc.DialOption{
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithStaticStreamWindowSize(window),
		grpc.WithStaticConnWindowSize(window),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(4 << 20)),
		grpc.WithNoProxy(),
	}, more...)...)
	if err != nil {
		return nil, fmt.Errorf("connection to %s: %w", addr, err)
	}
	return conn, nil
}

type Kind int

const (
	Get Kind = iota
	GetProfile
)

func (k Kind) String() string {
	if k == GetProfile {
		return "GetProfile"
	}
	return "Get"
}

type Config struct {
	Conn      grpc.ClientConnInterface // may be shared; the Stream does not close it
	Kind      Kind
	Authority string
	Token     string // context token
	// MayBeLate accepts a late first message without a fault. It is for tests that run in parallel,
	// because a busy machine can delay any server.
	MayBeLate bool
}

// Stream is a subscription of one proxy. All methods are safe for concurrent use.
type Stream struct {
	cfg  Config
	life sync.Mutex // held by Open and Close, so that calls do not overlap

	mu       sync.Mutex // guards the fields below
	get      GetState
	profile  ProfileState
	status   Status
	recent   ring
	history  *history
	changed  chan struct{}      // closed and replaced after every change
	unstall  chan struct{}      // nil unless stalled; closed to resume reading
	cancel   context.CancelFunc // nil unless a reader is running
	finished chan struct{}      // closed when the reader has ended
}

func NewStream(cfg Config) *Stream {
	return &Stream{cfg: cfg, recent: ring{most: recentMessages}, changed: make(chan struct{})}
}

// Open starts the call and returns when the call has begun or failed. The Status contains the error
// of a failed call. The call runs until ctx ends, Close is called or the server ends it. The Stream
// keeps the state of its previous call, as a proxy does. Open returns an error if the Stream is
// already open.
func (s *Stream) Open(ctx context.Context) error {
	s.life.Lock()
	defer s.life.Unlock()
	ctx, cancel := context.WithCancel(ctx)
	finished, err := s.begin(cancel)
	if err != nil {
		cancel()
		return err
	}
	recv, err := s.call(ctx)
	if err != nil {
		s.end(err)
		cancel()
		close(finished)
		return nil
	}
	go func() {
		defer close(finished)
		defer cancel()
		s.end(s.read(ctx, recv))
	}()
	return nil
}

func (s *Stream) begin(cancel context.CancelFunc) (finished chan struct{}, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.status.Phase == Open {
		return nil, fmt.Errorf("%s %s is already open", s.cfg.Kind, s.cfg.Authority)
	}
	s.get.Open()
	s.status.Phase, s.status.Err, s.status.First = Open, nil, nil
	s.status.Opened = time.Now()
	s.cancel, s.finished = cancel, make(chan struct{})
	s.notify()
	return s.finished, nil
}

func (s *Stream) call(ctx context.Context) (func() (any, error), error) {
	client := pb.NewDestinationClient(s.cfg.Conn)
	req := &pb.GetDestination{Path: s.cfg.Authority, ContextToken: s.cfg.Token}
	if s.cfg.Kind == GetProfile {
		stream, err := client.GetProfile(ctx, req)
		if err != nil {
			return nil, err
		}
		return func() (any, error) { return stream.Recv() }, nil
	}
	stream, err := client.Get(ctx, req)
	if err != nil {
		return nil, err
	}
	return func() (any, error) { return stream.Recv() }, nil
}

func (s *Stream) read(ctx context.Context, recv func() (any, error)) error {
	for {
		m, err := recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		at := time.Now()
		if err := s.gate(ctx); err != nil {
			return err
		}
		s.take(m, at)
	}
}

func (s *Stream) gate(ctx context.Context) error {
	s.mu.Lock()
	wait := s.unstall
	s.mu.Unlock()
	if wait == nil {
		return nil
	}
	select {
	case <-wait:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *Stream) take(m any, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status.Messages++
	msg := Message{Number: s.status.Messages, At: at}
	empty := false
	switch m := m.(type) {
	case *pb.Update:
		msg.Faults = s.get.Apply(m)
		msg.Kind, msg.Addrs = describe(m)
		empty = s.get.Len() == 0
	case *pb.DestinationProfile:
		msg.Faults = s.profile.Apply(m)
		msg.Kind, msg.Detail = "profile", line(m)
		empty = msg.Detail == "{}"
	}
	if s.status.First == nil {
		if at.Sub(s.status.Opened) > FirstMessageLimit && !s.cfg.MayBeLate {
			msg.Faults = append(msg.Faults, LateFirst)
		}
		s.status.First = &msg
	}
	for _, f := range msg.Faults {
		if len(s.status.Faults) < keptFaults {
			s.status.Faults = append(s.status.Faults, f)
		}
	}
	s.recent.add(msg.brief())
	if s.history != nil {
		s.history.note(&s.get, empty, msg.brief())
	}
	s.notify()
}

// end records the end of the call, unless Close has already ended it.
func (s *Stream) end(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.status.Phase != Open {
		return
	}
	s.status.Phase, s.status.Err, s.status.EndedAt = Ended, err, time.Now()
	s.notify()
}

// Close ends the call and waits for its goroutines. The state is kept, and Open can start a new
// call.
func (s *Stream) Close() {
	s.hangUp() // unblocks an Open in progress
	s.life.Lock()
	defer s.life.Unlock()
	if finished := s.hangUp(); finished != nil { // a concurrent Open may have started a call in the meantime
		<-finished
	}
}

// hangUp cancels the call and returns a channel that is closed when the call has ended. It returns
// nil before the first call.
func (s *Stream) hangUp() (finished chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status.Phase = Idle
	if s.cancel != nil {
		s.cancel()
	}
	s.notify()
	return s.finished
}

// Stall stops reading, so that data from the server fills the flow-control windows. A message that
// is being received is held back too.
func (s *Stream) Stall() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.unstall == nil {
		s.unstall = make(chan struct{})
	}
}

func (s *Stream) Unstall() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.unstall != nil {
		close(s.unstall)
		s.unstall = nil
	}
}

// notify wakes all waiting goroutines. The caller holds mu.
func (s *Stream) notify() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// Phase is a state in the life cycle of a Stream.
type Phase int

const (
	Idle  Phase = iota // no call, or the call was closed by this side
	Open               // the call is running
	Ended              // the server or the connection ended the call
)

// Status summarizes the calls of a Stream.
type Status struct {
	Phase    Phase
	Err      error     // gRPC status of the ended call; nil for OK
	Opened   time.Time // start of the last call
	EndedAt  time.Time
	First    *Message // first message of the last call
	Messages int64    // number of messages received over all calls
	Faults   []Fault  // the first faults
}

// Snapshot is a consistent pair of status and state.
type Snapshot struct {
	Status
	Kind    Kind
	Get     *GetState     // set for a Get stream
	Profile *ProfileState // set for a GetProfile stream
}

func (s Snapshot) JSON() (any, error) {
	if s.Kind == GetProfile {
		return s.Profile.JSON()
	}
	return s.Get.JSON()
}

// Mark starts a new history with the current state.
func (s *Stream) Mark() {
	s.mu.Lock()
	defer s.mu.Unlock()
	empty := s.get.Len() == 0
	if s.cfg.Kind == GetProfile {
		empty = s.profile.last == nil || line(s.profile.last) == "{}"
	}
	s.history = newHistory(&s.get, empty)
}

// Flapped returns an error if any of the addresses has been absent at some time since the Mark.
// Without addresses, it returns an error if the state has been empty.
func (s *Stream) Flapped(addrs ...netip.AddrPort) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.history == nil {
		return errors.New("the stream has no mark")
	}
	return s.history.check(addrs)
}

// Parts returns the number of messages since the Mark after which there were fewer endpoints, and
// after which there were more.
func (s *Stream) Parts() (left, joined int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.history == nil {
		return 0, 0, errors.New("the stream has no mark")
	}
	return s.history.left, s.history.joined, nil
}

// Fewest returns the smallest number of endpoints since the Mark, and the first message that led to
// it. The Message is empty if that was the number at the Mark.
func (s *Stream) Fewest() (int, Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.history == nil {
		return 0, Message{}
	}
	return s.history.fewest, s.history.thinned
}

// Lost returns the addresses, in order, that existed at the Mark and have been absent since.
// Without a Mark, it returns nil.
func (s *Stream) Lost() []netip.AddrPort {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.history == nil {
		return nil
	}
	return slices.SortedFunc(maps.Keys(s.history.lost), netip.AddrPort.Compare)
}

func (s *Stream) Snapshot() Snapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	profile := s.profile
	snap := Snapshot{Status: s.status, Kind: s.cfg.Kind, Get: s.get.Clone(), Profile: &profile}
	snap.Faults = slices.Clone(snap.Faults)
	return snap
}

// Status returns the current status, which is cheaper than a Snapshot.
func (s *Stream) Status() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	status := s.status
	status.Faults = slices.Clone(status.Faults)
	return status
}

// Recent returns the newest messages in order of receipt.
func (s *Stream) Recent() []Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.recent.oldest()
}

// Changed returns a channel that is closed after the next message or change of phase. To miss no
// change, call Changed before Snapshot.
func (s *Stream) Changed() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed
}

// Until calls check after each change until it returns nil. When the limit or ctx expires, Until
// returns the last error of check.
func (s *Stream) Until(ctx context.Context, limit time.Duration, check func() error) error {
	return s.wait(ctx, limit, func() (bool, error) {
		err := check()
		return err == nil, err
	}, func(err error) error { return fmt.Errorf("not within %v: %w", limit, err) })
}

// Stays calls check after each change for the given time, and returns its first error.
func (s *Stream) Stays(ctx context.Context, within time.Duration, check func() error) error {
	return s.wait(ctx, within, func() (bool, error) {
		err := check()
		return err != nil, err
	}, func(error) error { return nil })
}

// wait calls look after each change until it returns done = true or the time is over.
func (s *Stream) wait(
	ctx context.Context,
	limit time.Duration,
	look func() (done bool, err error),
	over func(error) error,
) error {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for {
		changed := s.Changed() // before look, so that no change is missed
		done, err := look()
		if done {
			return err
		}
		select {
		case <-changed:
		case <-timer.C:
			return over(err)
		case <-ctx.Done():
			if err != nil {
				return fmt.Errorf("%w: %w", ctx.Err(), err)
			}
			return ctx.Err()
		}
	}
}
