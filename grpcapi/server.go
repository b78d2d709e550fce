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

// Directory looks up the zones of the local cluster's Nodes, and the profiles of destinations. A
// Directory must be safe for concurrent use, and must never block on I/O.
type Directory interface {
	// Zone returns the zone of a Node, or an empty string if the zone is unknown. The returned
	// channel is closed when the zone may have changed.
	Zone(node string) (zone string, changed <-chan struct{})
	// Profile returns a watch on a destination's profile. The watch must always provide a Profile.
	Profile(federation.ProfileKey) *federation.Watch[*federation.Profile]
}

// Options configures a Server. If a field is zero, its default is used. Negative values are invalid
// unless the field's comment says otherwise.
type Options struct {
	ClusterDomain string // the cluster's DNS domain; default cluster.local

	Messages wire.Options // how messages describe endpoints

	// Pace is the minimum interval between the starts of consecutive updates on a stream. The
	// default is 50ms. If Pace is negative, streams do not pause between updates.
	Pace       time.Duration
	Stall      time.Duration // how long a proxy may take to read a message before its stream ends; default 60s
	Request    time.Duration // how long a client may take to connect or to send a request; default 10s
	FirstFrame time.Duration // how long the first message waits for pending clusters; default 2s
	Drain      time.Duration // how long Drain takes to end streams; default 6s, negative means at once

	ConnectionAge     time.Duration // the age at which a proxy must reconnect; default 30m, negative means never
	ConcurrentStreams uint32        // maximum number of open calls per connection; default 10,000

	// Streams is the maximum number of open calls across all connections. Further calls are
	// refused. The default is 150,000.
	Streams int
	// ViewBytes is the limit on the estimated total memory of all views, in bytes. Calls that would
	// exceed the limit are refused. The default is 2 GiB.
	ViewBytes int

	Linger    time.Duration // how long idle views stay cached; default 30s, negative means that they are not cached
	IdleViews int           // maximum number of idle views per RPC; default 1024
	IdleBytes int           // limit on the estimated memory of idle views per RPC, in bytes; default 20 MiB

	// Stalled is called with the destination of each stream that ends because its proxy does not
	// read messages. Stalled must not block, and may be nil.
	Stalled func(destination string)

	// Supervisor counts and logs panics. A panic in the handler of a call ends only that call. The
	// default is a Supervisor whose metrics are not registered.
	Supervisor *panics.Supervisor

	Log        *zap.Logger           // nil means no logs
	Registerer prometheus.Registerer // nil means that metrics are not exported
}

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

type Server struct {
	// fixed after construction
	table        *federation.Table
	dir          Directory
	opts         Options
	began        time.Time // see clock
	log          *zap.Logger
	openCalls    *quota // open calls of all methods
	viewMemory   *quota // bytes of views, and of messages for a single stream
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

// New returns a Server that serves the sets of a table. To serve requests, call the Server's GRPC
// method.
func New(table *federation.Table, dir Directory, o Options) (*Server, error) {
	if table == nil || dir == nil {
		return nil, errors.New("new Destination server: the table and the directory must not be nil")
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
		"Number of calls that were refused because --max-streams or --view-memory was reached.")
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
	// maxRequest is the maximum size of a request, in bytes. Every valid request is smaller.
	maxRequest = 16 << 10
	// maxHeaders is the maximum size of a call's headers, in bytes. Each header counts as the
	// length of its text plus 32 bytes. A proxy sends less than 1 KiB of headers. The limit is low
	// because headers stay in memory until the call ends.
	maxHeaders = 2 << 10
	// requestWindow is the flow control window of each call and each connection, in bytes. The size
	// is HTTP/2's default and gRPC's minimum. Without this setting, gRPC would increase the window
	// to as much as 16 MiB for a client that sends large amounts of data.
	requestWindow = 64<<10 - 1
	// readBuffer is the size of a connection's read buffer, in bytes. A proxy sends only a few
	// hundred bytes per call.
	readBuffer = 1 << 10
)

// GRPC returns a gRPC server with the Destination, health and reflection services. The health
// service reports SERVING until MarkNotServing or Finish is called.
//
// Extra options override the Server's options, and extra interceptors run after the Server's
// interceptors. The extra options must not include a tap handle or credentials.
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

// Streams returns the number of open Get and GetProfile streams.
func (s *Server) Streams() int { return s.streams.count() }

// MarkNotServing sets the status in the health service to NOT_SERVING, so that clients that check
// health choose another replica. The server continues to serve all streams until Finish is called.
func (s *Server) MarkNotServing() { s.health.Shutdown() }

// Drain ends every open stream with Unavailable, after a random delay of at most Options.Drain.
// Because the delays are random, proxies do not all reconnect at the same time. Streams that start
// after Drain is called, and streams that have not sent their first message yet, stay open. Drain
// returns when it has ended the last stream, or when ctx is done.
//
// Drain does not refuse new streams, because a refused proxy can take a long time to open a stream
// on another replica. Proxies cache DNS responses for up to half a minute, so a proxy may reconnect
// to a replica that is shutting down. After each refusal, a proxy doubles its back-off, up to a
// minute, until it receives the first message of a stream. After Drain ends a stream, its proxy
// waits only 0.1 s before reconnecting.
func (s *Server) Drain(ctx context.Context) { s.streams.drain(ctx, s.opts.Drain) }

// WaitUnused waits until the server has had no open streams for the duration d, and then returns
// true. If ctx is done first, WaitUnused returns false. The duration d must be longer than 0.1 s,
// which is how long a proxy waits before reconnecting.
func (s *Server) WaitUnused(ctx context.Context, d time.Duration) bool {
	return s.streams.waitUnused(ctx, d)
}

// Finish refuses new streams and ends all open streams with Unavailable. Finish does not wait until
// the streams have ended. Finish should be called when clients can no longer connect.
func (s *Server) Finish() {
	s.MarkNotServing()
	s.streams.finish()
}

// Explain describes which endpoints a proxy receives, and why. The explanation is based on the
// current state of the view that the proxy's stream would use. All errors are gRPC status errors.
func (s *Server) Explain(ctx context.Context, q Question) (*Explanation, error) {
	return explainer{s}.explain(ctx, q)
}

// Views returns all views, sorted by number of streams in descending order.
func (s *Server) Views() []ViewStatus { return explainer{s}.views() }

// makeRoom closes idle views until the memory used by views is within the limit. If the limit is
// exceeded even without idle views, makeRoom returns false.
func (s *Server) makeRoom() bool {
	s.getViews.makeRoom()
	s.profileViews.makeRoom()
	return s.viewMemory.hasRoom()
}

func (s *Server) panicked(method string, r any) error {
	s.opts.Supervisor.Report(panics.Work{Where: panics.Stream, Object: method}, r)
	return status.Error(codes.Internal, "Isthmus failed to handle this call")
}

func (s *Server) profileTooLarge(sp *federation.ServiceProfile, bytes int) {
	s.log.Warn("ServiceProfile is too large for proxies: proxies use default routes",
		zap.String("profile", sp.Namespace+"/"+sp.Name), zap.Int("bytes", bytes))
}

// clock converts a time to nanoseconds on the server's monotonic clock. The result fits into an
// atomic.Int64 and is never 0, so that 0 can mean "not set".
func (s *Server) clock(t time.Time) int64 { return int64(t.Sub(s.began)) }

func (s *Server) now() int64 { return s.clock(time.Now()) }

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
