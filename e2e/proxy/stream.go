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
	// FirstMessageLimit is how long a proxy waits for the first message of a stream.
	FirstMessageLimit = 3 * time.Second
	// window is the size of the flow-control windows that Dial asks for.
	window = 64 << 10

	recentMessages = 64
	keptFaults     = 16
)

// Dial prepares a connection to a Destination server as a proxy makes it: plain text, fixed windows of 64 KiB, messages
// of 4 MiB at most. It does not connect yet. More options go after these.
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

// Kind is the call that a Stream makes.
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

// Config is what to subscribe to.
type Config struct {
	Conn      grpc.ClientConnInterface // not closed by the Stream; may be shared
	Kind      Kind
	Authority string
	Token     string // context token
	// MayBeLate is for streams of tests that run beside others: that the first message is late is
	// no fault. On a machine that is busy it may be for no fault of the server.
	MayBeLate bool
}

// Stream is one subscription of a proxy. Its methods may be called concurrently.
type Stream struct {
	cfg  Config
	life sync.Mutex // held by Open and Close, so that one call is over before the next begins

	mu       sync.Mutex // guards what follows
	get      GetState
	profile  ProfileState
	status   Status
	recent   ring
	history  *history
	changed  chan struct{}      // closed, and replaced, after every change
	unstall  chan struct{}      // not nil while stalled; closed to go on
	cancel   context.CancelFunc // not nil while a reader runs
	finished chan struct{}      // closed when that reader has ended
}

// NewStream returns a Stream that is not open yet.
func NewStream(cfg Config) *Stream {
	return &Stream{cfg: cfg, recent: ring{most: recentMessages}, changed: make(chan struct{})}
}

// Open makes the call and returns once it is under way or has failed, which the status then holds. The call ends with
// ctx, with Close, or by the server. The state of a call before stays as a proxy keeps it. A Stream that is open
// already is an error.
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
		return nil, fmt.Errorf("%s %s is open already", s.cfg.Kind, s.cfg.Authority)
	}
	s.get.Open()
	s.status.Phase, s.status.Err, s.status.First = Open, nil, nil
	s.status.Opened = time.Now()
	s.cancel, s.finished = cancel, make(chan struct{})
	s.notify()
	return s.finished, nil
}

// call starts the RPC and returns the function that receives a message.
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

// gate waits while the stream is stalled.
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

// take folds one message.
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

// end notes that the call is over, unless this side closed it.
func (s *Stream) end(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.status.Phase != Open {
		return
	}
	s.status.Phase, s.status.Err, s.status.EndedAt = Ended, err, time.Now()
	s.notify()
}

// Close ends the call and waits until nothing of it runs any more. The state stays; Open may open it again.
func (s *Stream) Close() {
	s.hangUp() // so that an Open that is under way returns soon
	s.life.Lock()
	defer s.life.Unlock()
	if finished := s.hangUp(); finished != nil { // what another Open has begun meanwhile
		<-finished
	}
}

// hangUp cancels the call, and returns the channel that is closed when it has ended; nil: there never was one.
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

// Stall stops reading; what the server sends then fills the windows. One message that was being received meanwhile is
// held back too.
func (s *Stream) Stall() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.unstall == nil {
		s.unstall = make(chan struct{})
	}
}

// Unstall goes on reading.
func (s *Stream) Unstall() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.unstall != nil {
		close(s.unstall)
		s.unstall = nil
	}
}

// notify wakes all who wait. The caller holds mu.
func (s *Stream) notify() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// Phase is where a Stream is in its life.
type Phase int

const (
	Idle  Phase = iota // not opened yet, or closed by this side
	Open               // the call is under way
	Ended              // the server, or the connection, ended the call
)

// Status is what has come of a Stream so far.
type Status struct {
	Phase    Phase
	Err      error     // of an ended stream: its gRPC status, nil for OK
	Opened   time.Time // when the call was last opened
	EndedAt  time.Time
	First    *Message // first message since then
	Messages int64    // received in the stream's whole life
	Faults   []Fault  // the first ones
}

// Snapshot is the status and the state that belong together.
type Snapshot struct {
	Status
	Kind    Kind
	Get     *GetState     // of a Get stream
	Profile *ProfileState // of a GetProfile stream
}

// JSON returns the folded state as a tree of JSON values.
func (s Snapshot) JSON() (any, error) {
	if s.Kind == GetProfile {
		return s.Profile.JSON()
	}
	return s.Get.JSON()
}

// Mark begins a new history with the present state.
func (s *Stream) Mark() {
	s.mu.Lock()
	defer s.mu.Unlock()
	empty := s.get.Len() == 0
	if s.cfg.Kind == GetProfile {
		empty = s.profile.last == nil || line(s.profile.last) == "{}"
	}
	s.history = newHistory(&s.get, empty)
}

// Flapped returns an error when one of the addresses was absent at the Mark or after any message since, or, where none
// is named, when the state was empty then.
func (s *Stream) Flapped(addrs ...netip.AddrPort) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.history == nil {
		return errors.New("the stream has no mark")
	}
	return s.history.check(addrs)
}

// Parts returns in how many messages since the Mark addresses have left, and in how many some have joined.
func (s *Stream) Parts() (left, joined int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.history == nil {
		return 0, 0, errors.New("the stream has no mark")
	}
	return s.history.left, s.history.joined, nil
}

// Fewest returns how few endpoints there were, at the Mark or after any message since, and after
// which message first; an empty Message: at the Mark.
func (s *Stream) Fewest() (int, Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.history == nil {
		return 0, Message{}
	}
	return s.history.fewest, s.history.thinned
}

// Lost returns the addresses that were there at the Mark and were absent after some message since,
// in order. It is empty without a Mark.
func (s *Stream) Lost() []netip.AddrPort {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.history == nil {
		return nil
	}
	return slices.SortedFunc(maps.Keys(s.history.lost), netip.AddrPort.Compare)
}

// Snapshot returns the present status and state.
func (s *Stream) Snapshot() Snapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	profile := s.profile
	snap := Snapshot{Status: s.status, Kind: s.cfg.Kind, Get: s.get.Clone(), Profile: &profile}
	snap.Faults = slices.Clone(snap.Faults)
	return snap
}

// Status returns the present status alone, which is cheaper than a Snapshot.
func (s *Stream) Status() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	status := s.status
	status.Faults = slices.Clone(status.Faults)
	return status
}

// Recent returns the newest messages, the oldest of them first.
func (s *Stream) Recent() []Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.recent.oldest()
}

// Changed returns a channel that is closed after the next message or change of phase. Take it before a Snapshot to
// miss nothing.
func (s *Stream) Changed() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed
}

// Until calls check for every state that the stream comes to, until it returns no error, the limit
// is over, or ctx ends. Then it returns the last error.
func (s *Stream) Until(ctx context.Context, limit time.Duration, check func() error) error {
	return s.wait(ctx, limit, func() (bool, error) {
		err := check()
		return err == nil, err
	}, func(err error) error { return fmt.Errorf("not within %v: %w", limit, err) })
}

// Stays calls check for every state that the stream comes to within a time. It returns the first error.
func (s *Stream) Stays(ctx context.Context, within time.Duration, check func() error) error {
	return s.wait(ctx, within, func() (bool, error) {
		err := check()
		return err != nil, err
	}, func(error) error { return nil })
}

// wait calls look until that is done, with the result, or the time is over.
func (s *Stream) wait(
	ctx context.Context,
	limit time.Duration,
	look func() (done bool, err error),
	over func(error) error,
) error {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for {
		changed := s.Changed() // before it is looked at, so that no state is missed
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
