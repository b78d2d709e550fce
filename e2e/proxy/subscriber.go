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
	// firstPause is how long a proxy waits until it subscribes again. Each further failure doubles it.
	firstPause = 100 * time.Millisecond
	// longestPause is the most that it waits.
	longestPause = time.Minute
)

// Conn is a connection to a replica.
type Conn interface {
	grpc.ClientConnInterface
	Close() error
}

// SubscriberConfig is what to subscribe to, and how to find the servers.
type SubscriberConfig struct {
	Known     func() []string // the addresses of the replicas that it knows at the moment
	Kind      Kind
	Authority string
	MayBeLate bool                                                 // as of a Stream's Config
	Connect   func(ctx context.Context, addr string) (Conn, error) // nil: Connect
}

// Opening is a stream that has begun.
type Opening struct {
	Addr  string    // of the replica
	Lost  time.Time // when the stream before it ended; zero for the first
	Why   error     `json:"-"` // how that ended: its gRPC status; nil: OK
	First time.Time // when its first message came
}

// Refusal is a stream that has ended before its first message, on a connection that there was.
type Refusal struct {
	At  time.Time
	Err error // its gRPC status; nil: OK
}

// Subscriber is a proxy that keeps one subscription, at any of the replicas that it knows. When the stream ends
// it waits, tries all replicas that it knows, in any order, and stays with the first one that connects. The pause
// doubles each time, and starts over with any message.
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

// NewSubscriber returns a Subscriber, which does nothing until Run.
func NewSubscriber(cfg SubscriberConfig) *Subscriber {
	if cfg.Connect == nil {
		cfg.Connect = Connect
	}
	s := &Subscriber{cfg: cfg}
	s.stream = NewStream(Config{Conn: &s.conn, Kind: cfg.Kind, Authority: cfg.Authority, MayBeLate: cfg.MayBeLate})
	return s
}

// Stream returns the subscription, which the Subscriber alone opens and closes.
func (s *Subscriber) Stream() *Stream { return s.stream }

// Openings returns all streams that have begun, in order.
func (s *Subscriber) Openings() []Opening {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.openings)
}

// Refusals returns all streams that were refused, in order.
func (s *Subscriber) Refusals() []Refusal {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.refusals)
}

// Run subscribes until ctx ends.
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

// subscribe opens a stream, and returns when it has ended. It returns whether there was a message.
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

// connect returns a connection to any of the replicas that are known and can be connected to; nil: there is none.
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

// Connect connects to a replica. When that connection ends, no other takes its place.
func Connect(ctx context.Context, addr string) (Conn, error) {
	return ConnectBy(ctx, net.Dialer{}, addr)
}

// ConnectBy is Connect, with sockets of this dialer.
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

// single is a gRPC connection over one TCP connection.
type single struct {
	*grpc.ClientConn
	tcp net.Conn
}

// Close closes both; the TCP connection may have been closed before.
func (s *single) Close() error {
	err := s.ClientConn.Close()
	s.tcp.Close()
	return err
}

// Exchange is a connection that can be replaced: calls that begin later go over the new one. Its
// methods may be called concurrently.
type Exchange struct {
	mu  sync.Mutex
	now Conn
}

// Set replaces the connection, and returns the one before, which it does not close; nil: there was none.
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

// Invoke makes a call.
func (e *Exchange) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	return e.current().Invoke(ctx, method, args, reply, opts...)
}

// NewStream makes a call. There must be a connection.
func (e *Exchange) NewStream(
	ctx context.Context,
	desc *grpc.StreamDesc,
	method string,
	opts ...grpc.CallOption,
) (grpc.ClientStream, error) {
	return e.current().NewStream(ctx, desc, method, opts...)
}
