package proxy

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
)

const (
	// firstPause is the first pause before a proxy subscribes again. Each failure doubles the
	// pause.
	firstPause   = 100 * time.Millisecond
	longestPause = time.Minute
)

type Conn interface {
	grpc.ClientConnInterface
	Close() error
}

type SubscriberConfig struct {
	Known     func() []string // addresses of the replicas that the proxy currently knows
	Kind      Kind
	Authority string
	MayBeLate bool                                                 // see Config.MayBeLate
	Connect   func(ctx context.Context, addr string) (Conn, error) // opens a connection; the default is Connect
}

// Opening is a stream that has been opened.
type Opening struct {
	Addr  string    // address of the replica
	Lost  time.Time // end of the previous stream; zero for the first stream
	Why   error     `json:"-"` // gRPC status of the previous stream; nil for OK
	First time.Time // time of the first message
}

// Refusal is a stream that ended before its first message although the connection succeeded.
type Refusal struct {
	At  time.Time
	Err error // gRPC status; nil for OK
}

// Subscriber is a proxy that keeps one subscription open at any known replica. When the stream
// ends, the Subscriber pauses, tries all known replicas in random order, and uses the first replica
// that accepts a connection. The pause doubles with each attempt. Any message resets the pause.
type Subscriber struct {
	cfg    SubscriberConfig
	stream *Stream
	conn   Exchange

	mu       sync.Mutex
	openings []Opening
	refusals []Refusal
	lost     time.Time
	why      error
}

// NewSubscriber returns a Subscriber, which is started with Run.
func NewSubscriber(cfg SubscriberConfig) *Subscriber {
	if cfg.Connect == nil {
		cfg.Connect = Connect
	}
	s := &Subscriber{cfg: cfg}
	s.stream = NewStream(Config{Conn: &s.conn, Kind: cfg.Kind, Authority: cfg.Authority, MayBeLate: cfg.MayBeLate})
	return s
}

// Stream returns the subscription. Only the Subscriber may open or close it.
func (s *Subscriber) Stream() *Stream { return s.stream }

// Openings returns all opened streams in order.
func (s *Subscriber) Openings() []Opening {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.openings)
}

// Refusals returns all refused streams in order.
func (s *Subscriber) Refusals() []Refusal {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.refusals)
}

// Run keeps the subscription open until ctx ends.
func (s *Subscriber) Run(ctx context.Context) {
	pause := firstPause
	for ctx.Err() == nil {
		if s.subscribe(ctx) {
			pause = firstPause
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
			pause = min(2*pause, longestPause)
		}
	}
}

// subscribe opens a stream and waits for its end. It reports whether the stream received a message.
func (s *Subscriber) subscribe(ctx context.Context) (begun bool) {
	conn, addr := s.connect(ctx)
	if conn == nil {
		return false
	}
	defer conn.Close()
	s.conn.Set(conn)
	if s.stream.Open(ctx) != nil {
		return false
	}
	defer s.stream.Close()
	limit := time.NewTimer(FirstMessageLimit)
	defer limit.Stop()
	for {
		changed, now := s.stream.Changed(), s.stream.Status()
		if now.First != nil && !begun {
			begun = true
			limit.Stop()
			s.noteBegin(addr, now.First.At)
		}
		if now.Phase != Open {
			s.noteEnd(begun, now)
			return begun
		}
		select {
		case <-ctx.Done():
			return begun
		case <-limit.C:
			return false
		case <-changed:
		}
	}
}

// connect returns a connection to any known replica, or nil if none accepts a connection.
func (s *Subscriber) connect(ctx context.Context) (Conn, string) {
	known := slices.Clone(s.cfg.Known())
	rand.Shuffle(len(known), func(i, j int) { known[i], known[j] = known[j], known[i] })
	for _, addr := range known {
		if conn, err := s.cfg.Connect(ctx, addr); err == nil {
			return conn, addr
		}
	}
	return nil, ""
}

func (s *Subscriber) noteBegin(addr string, first time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.openings = append(s.openings, Opening{Addr: addr, Lost: s.lost, Why: s.why, First: first})
}

func (s *Subscriber) noteEnd(begun bool, last Status) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if begun {
		s.lost, s.why = last.EndedAt, last.Err
	} else {
		s.refusals = append(s.refusals, Refusal{last.EndedAt, last.Err})
	}
}

// Connect connects to a replica. The connection does not reconnect after it ends.
func Connect(ctx context.Context, addr string) (Conn, error) {
	return ConnectBy(ctx, net.Dialer{}, addr)
}

// ConnectBy is like Connect, but uses the given dialer.
func ConnectBy(ctx context.Context, dialer net.Dialer, addr string) (Conn, error) {
	tcp, err := dialer.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", addr, err)
	}
	once := make(chan net.Conn, 1)
	once <- tcp
	conn, err := Dial(addr, grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) {
		select {
		case tcp := <-once:
			return tcp, nil
		default:
			return nil, errors.New("the connection has ended")
		}
	}))
	if err != nil {
		return nil, errors.Join(err, tcp.Close())
	}
	return &single{conn, tcp}, nil
}

// single is a gRPC connection that uses a single TCP connection.
type single struct {
	*grpc.ClientConn
	tcp net.Conn
}

// Close closes the gRPC and the TCP connection. The TCP connection may already be closed.
func (s *single) Close() error {
	err := s.ClientConn.Close()
	s.tcp.Close()
	return err
}

// Exchange is a replaceable connection: new calls use the latest connection. All methods are safe
// for concurrent use.
type Exchange struct {
	mu  sync.Mutex
	now Conn
}

// Set replaces the connection and returns the previous one, which stays open. The previous
// connection is nil on the first call.
func (e *Exchange) Set(c Conn) (before Conn) {
	e.mu.Lock()
	defer e.mu.Unlock()
	before, e.now = e.now, c
	return before
}

func (e *Exchange) current() Conn {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.now
}

func (e *Exchange) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	return e.current().Invoke(ctx, method, args, reply, opts...)
}

// NewStream implements grpc.ClientConnInterface. It must not be called before Set.
func (e *Exchange) NewStream(
	ctx context.Context,
	desc *grpc.StreamDesc,
	method string,
	opts ...grpc.CallOption,
) (grpc.ClientStream, error) {
	return e.current().NewStream(ctx, desc, method, opts...)
}
