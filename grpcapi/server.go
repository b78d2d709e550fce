package grpcapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	pb "github.com/linkerd/linkerd2-proxy-api/go/destination"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/reflection"
	"google.golang.org/grpc/status"

	"isthmus/federation"
	"isthmus/grpcapi/wire"
	"isthmus/internal/panics"
)

// Directory knows the local cluster's nodes and the profiles of destinations. It is
// safe for concurrent use, and answers from memory.
type Directory interface {
	// Zone returns the zone of a node, empty if it is not known, and a channel
	// that is closed once the zone may have changed.
	Zone(node string) (zone string, changed <-chan struct{})
	// Profile returns a watch of a destination's profile. There is always a Profile.
	Profile(federation.ProfileKey) *federation.Watch[*federation.Profile]
}

// Options are a Server's. Zero fields mean the default. Negative ones have a meaning only where they say so.
type Options struct {
	ClusterDomain string // the DNS domain of the cluster; default cluster.local

	Messages wire.Options // how endpoints are described to proxies

	// the least time from the beginning of one message to the next change; default 50ms, negative: none
	Pace       time.Duration
	Stall      time.Duration // ends a stream whose proxy does not take a message for this long; default 60s
	Request    time.Duration // how long a client may take to send a request, or to begin a connection; default 10s
	FirstFrame time.Duration // how long the first message waits for clusters that are pending; default 2s
	Drain      time.Duration // the time over which Drain spreads the ends of streams; default 6s, negative: at once

	ConnectionAge     time.Duration // when a proxy is made to use another connection; default 30m, negative: never
	ConcurrentStreams uint32        // how many calls a connection may have at a time; default 10,000

	// how many calls may be open at a time, of all connections, before further ones are refused;
	// default 150,000
	Streams int
	// how much memory views may take in all, by estimate, before calls that need more are refused;
	// default 2 GiB
	ViewBytes int

	Linger    time.Duration // how long an idle view is kept; default 30s, negative: not at all
	IdleViews int           // how many idle views are kept at most, of each RPC; default 1024
	IdleBytes int           // how much memory they take at most in all, by estimate, of each RPC; default 20 MiB

	// Stalled is called with what a stream is about that ends since its proxy takes nothing. It
	// must not block. Default: not called.
	Stalled func(destination string)

	// Supervisor counts and logs panics. Each ends the call that it comes from. Default: one that is not registered.
	Supervisor *panics.Supervisor

	Log        *zap.Logger           // default: none
	Registerer prometheus.Registerer // default: metrics are not exported
}

// withDefaults fills in the defaults.
func (o Options) withDefaults() Options {
	o.ClusterDomain = cmp.Or(o.ClusterDomain, "cluster.local")
	o.Pace = cmp.Or(o.Pace, 50*time.Millisecond)
	o.Stall = cmp.Or(o.Stall, time.Minute)
	o.Request = cmp.Or(o.Request, 10*time.Second)
	o.FirstFrame = cmp.Or(o.FirstFrame, 2*time.Second)
	o.Drain = cmp.Or(o.Drain, 6*time.Second)
	o.ConnectionAge = cmp.Or(o.ConnectionAge, 30*time.Minute)
	o.ConcurrentStreams = cmp.Or(o.ConcurrentStreams, 10_000)
	o.Streams = cmp.Or(o.Streams, 150_000)
	o.ViewBytes = cmp.Or(o.ViewBytes, 2<<30)
	o.Linger = cmp.Or(o.Linger, 30*time.Second)
	o.IdleViews = cmp.Or(o.IdleViews, 1024)
	o.IdleBytes = cmp.Or(o.IdleBytes, 20<<20)
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	if o.Stalled == nil {
		o.Stalled = func(string) {}
	}
	if o.Supervisor == nil {
		o.Supervisor = panics.New(o.Log)
	}
	if o.Registerer == nil {
		o.Registerer = prometheus.NewRegistry()
	}
	return o
}

// Server is the Destination server.
type Server struct {
	// fixed after construction
	table        *federation.Table
	dir          Directory
	opts         Options
	began        time.Time // see clock
	log          *zap.Logger
	openCalls    *quota // open calls of all methods
	viewMemory   *quota // bytes of views, and of messages for one stream alone
	refused      prometheus.Counter
	getViews     *viewCache[federation.Key, *federation.Set, *getView]
	profileViews *viewCache[federation.ProfileKey, *federation.Profile, *profileView]
	enc          wire.Encoder
	routings     *wire.Routings
	metrics      *metrics
	health       *health.Server
	turns        turns
	streams      *openStreams
}

// New returns a Server that serves what the table publishes. It starts nothing; see
// GRPC.
func New(table *federation.Table, dir Directory, o Options) (*Server, error) {
	if table == nil || dir == nil {
		return nil, errors.New("the Destination server needs a table and a directory")
	}
	o = o.withDefaults()
	enc, err := wire.NewEncoder(o.Messages)
	if err != nil {
		return nil, fmt.Errorf("HTTP/2 parameters: %w", err)
	}
	s := &Server{
		table:   table,
		dir:     dir,
		opts:    o,
		began:   time.Now().Add(-1),
		log:     o.Log,
		enc:     enc,
		health:  health.NewServer(),
		turns:   newTurns(),
		streams: newOpenStreams(),
	}
	s.refused = newCounter("isthmus_streams_refused_total",
		"Calls that were refused because --max-streams or --view-memory was reached.")
	s.openCalls = newQuota(o.Streams, statusTooManyCalls, s.refused, o.Log)
	s.viewMemory = newQuota(o.ViewBytes, statusTooMuch, s.refused, o.Log)
	newGet := func(k federation.Key) *getView { return newGetView(k, enc) }
	s.getViews = newViewCache(o, s.viewMemory, newGet)
	newProfile := func(k federation.ProfileKey) *profileView { return newProfileView(k, s) }
	s.profileViews = newViewCache(o, s.viewMemory, newProfile)
	s.routings = wire.NewRoutings(s.profileTooLarge)
	s.metrics, err = newMetrics(s, o.Registerer)
	if err != nil {
		return nil, err
	}
	s.health.SetServingStatus(pb.Destination_ServiceDesc.ServiceName, healthpb.HealthCheckResponse_SERVING)
	return s, nil
}

const (
	// maxRequest is more than any request to this server takes.
	maxRequest = 16 << 10
	// maxHeaders is how many bytes the headers of a call may take, with 32 bytes for each. A proxy's take less
	// than 1 KiB. gRPC keeps headers for as long as the call.
	maxHeaders = 2 << 10
	// requestWindow is how many bytes a client may send on a call before the gateway has
	// received them, and at once on a connection: HTTP/2's default, and the least that gRPC
	// allows. Unless it is given, gRPC lets the windows of a client that sends much grow
	// to 16 MiB.
	requestWindow = 64<<10 - 1
	// readBuffer is the memory that a connection keeps to read from. A call takes some
	// hundred bytes, and what else a proxy sends a dozen.
	readBuffer = 1 << 10
)

// GRPC returns a gRPC server with the Destination service, health and
// reflection. extra comes last and wins; its interceptors run inside of ours. It must
// not set a tap handle or credentials.
// Health reports SERVING until MarkNotServing or Finish.
func (s *Server) GRPC(extra ...grpc.ServerOption) *grpc.Server {
	options := []grpc.ServerOption{
		grpc.ForceServerCodecV2(wire.NewCodec()),
		grpc.ChainStreamInterceptor(s.metrics.calls.interceptor()),
		grpc.InTapHandle(s.openCalls.tap),
		grpc.ConnectionTimeout(s.opts.Request),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{
			MinTime:             5 * time.Second,
			PermitWithoutStream: true,
		}),
		grpc.KeepaliveParams(maximumAge(s.opts.ConnectionAge, keepalive.ServerParameters{Time: 30 * time.Second})),
		grpc.MaxConcurrentStreams(s.opts.ConcurrentStreams),
		grpc.Creds(newConnections(s.metrics.closed, s.log)),
		grpc.MaxRecvMsgSize(maxRequest),
		grpc.MaxHeaderListSize(maxHeaders),
		grpc.StaticStreamWindowSize(requestWindow),
		grpc.ReadBufferSize(readBuffer),
		grpc.WaitForHandlers(true),
	}
	g := grpc.NewServer(append(options, extra...)...)
	pb.RegisterDestinationServer(g, destinationService{Server: s})
	healthpb.RegisterHealthServer(streamRegistrar{g, s.metrics.calls.interceptor()}, s.health)
	reflection.Register(&limitedReflection{Server: g, timeout: s.opts.Request})
	s.metrics.calls.prepare(g.GetServiceInfo())
	return g
}

// Streams returns the number of open streams, of both RPCs.
func (s *Server) Streams() int { return s.streams.count() }

// MarkNotServing makes the health service report NOT_SERVING, so that clients that
// check it choose another replica. All streams are served as before, until Finish.
func (s *Server) MarkNotServing() { s.health.Shutdown() }

// Drain ends each stream that is open now with Unavailable, after a random part of
// Options.Drain, so that proxies do not all connect to another replica at once.
// Streams that are opened later, also by those proxies, are served and stay open, and
// so do those whose first message has not been sent yet. It returns when it has ended
// the last of the streams, or when the context is done.
//
// It refuses no new streams, because a proxy that is refused waits twice as long each
// time, up to a minute, and resets that only with the first message that it receives.
// It also uses DNS answers that are half a minute old. So it would be kept away from
// every replica, while one that is served loses 0.1 s.
func (s *Server) Drain(ctx context.Context) { s.streams.drain(ctx, s.opts.Drain) }

// WaitUnused returns true when no stream has been open for the given time, and false
// when the context is done before that. The time must be longer than the 0.1 s that a
// proxy waits before it reconnects.
func (s *Server) WaitUnused(ctx context.Context, d time.Duration) bool {
	return s.streams.waitUnused(ctx, d)
}

// Finish ends all streams with Unavailable now, and refuses new ones. It does not wait
// for them. Call it once no client can connect.
func (s *Server) Finish() {
	s.MarkNotServing()
	s.streams.finish()
}

// Explain explains what a proxy gets. It uses the view that the proxy's stream would use,
// with what that has remembered. Errors are status errors.
func (s *Server) Explain(ctx context.Context, q Question) (*Explanation, error) {
	return explainer{s}.explain(ctx, q)
}

// Views lists all views, those with the most streams first.
func (s *Server) Views() []ViewStatus { return explainer{s}.views() }

// makeRoom closes idle views until the memory of views is within its limit. It returns false if the
// views that streams use exceed the limit.
func (s *Server) makeRoom() bool {
	s.getViews.makeRoom()
	s.profileViews.makeRoom()
	return s.viewMemory.hasRoom()
}

// panicked reports a panic, and returns what it is for the client.
func (s *Server) panicked(method string, r any) error {
	s.opts.Supervisor.Report(panics.Work{Where: panics.Stream, Object: method}, r)
	return status.Error(codes.Internal, "the gateway failed to handle this call")
}

// profileTooLarge logs a ServiceProfile that is replaced by the default.
func (s *Server) profileTooLarge(sp *federation.ServiceProfile, bytes int) {
	s.log.Warn("ServiceProfile is too large for proxies: they get the default",
		zap.String("profile", sp.Namespace+"/"+sp.Name), zap.Int("bytes", bytes))
}

// clock returns a moment as nanoseconds on the server's clock, which never returns 0
// and is not set: so the fields of a stream that several goroutines use take one word.
func (s *Server) clock(t time.Time) int64 { return int64(t.Sub(s.began)) }

func (s *Server) now() int64 { return s.clock(time.Now()) }

// destinationService implements the Destination service.
type destinationService struct {
	pb.UnimplementedDestinationServer
	*Server
}

// Get implements pb.DestinationServer.
func (s destinationService) Get(req *pb.GetDestination, out pb.Destination_GetServer) error {
	path, who, transport, err := s.read(out.Context(), req, "get")
	if err != nil {
		return err
	}
	to, err := parseAuthority(path, s.opts.ClusterDomain)
	if err != nil {
		return err
	}
	st := newGetStream(s.Server, to, who, out, transport)
	st.explains = asksForTiers(out.Context())
	return serve(out.Context(), st)
}

// GetProfile implements pb.DestinationServer.
func (s destinationService) GetProfile(req *pb.GetDestination, out pb.Destination_GetProfileServer) error {
	path, who, transport, err := s.read(out.Context(), req, "get profile")
	if err != nil {
		return err
	}
	key, err := parseDestination(path, s.opts.ClusterDomain)
	if err != nil {
		return err
	}
	return serve(out.Context(), newProfileStream(s.Server, who.addNamespace(key), out, transport))
}

// read reads a request of either RPC.
func (s destinationService) read(ctx context.Context, req *pb.GetDestination, method string) (
	path string, who token, transport statusWriter, err error,
) {
	transport, err = transportOf(ctx)
	if err != nil {
		return "", token{}, nil, err
	}
	path = req.GetPath()
	who = parseToken(req.GetContextToken())
	s.logRequest(ctx, method, path, who)
	return path, who, transport, nil
}

func (s destinationService) logRequest(ctx context.Context, method, path string, who token) {
	line := s.log.Check(zapcore.DebugLevel, method)
	if line == nil {
		return
	}
	remote := ""
	if p, ok := peer.FromContext(ctx); ok {
		remote = p.Addr.String()
	}
	line.Write(zap.String("path", path), zap.String("remote", remote),
		zap.String("context-ns", who.Namespace), zap.String("context-pod", who.Pod))
}
