package grpcapi

import (
	"errors"
	"fmt"
	"sync"
	"time"

	pb "github.com/linkerd/linkerd2-proxy-api/go/destination"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"isthmus/federation"
	"isthmus/grpcapi/wire"
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

// Server is the Destination server.
type Server struct {
	// fixed after construction
	table        *federation.Table
	dir          Directory
	opts         Options
	began        time.Time // see clock
	log          *zap.Logger
	calls        *quota // open calls of all methods
	views        *quota // bytes of views, and of messages for one stream alone
	refused      prometheus.Counter
	getViews     *viewCache[federation.Key, *federation.Set, *getView]
	profileViews *viewCache[federation.ProfileKey, *federation.Profile, *profileView]
	enc          wire.Encoder
	routings     *wire.Routings
	metrics      *metrics
	health       *health.Server
	turns        turns

	mu       sync.Mutex
	streams  map[*stream]struct{}
	finished bool                         // new streams are refused
	unused   federation.Latest[time.Time] // since when no stream is open; zero: some are. It is set under mu
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
		table: table, dir: dir, opts: o, log: o.Log, began: time.Now().Add(-1),
		health:  health.NewServer(),
		turns:   newTurns(),
		streams: make(map[*stream]struct{}),
	}
	s.unused.Set(time.Now())
	s.refused = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "isthmus_streams_refused_total",
		Help: "Calls that were refused because --max-streams or --view-memory was reached.",
	})
	s.calls = newQuota(o.Streams, statusTooManyCalls, s.refused, o.Log)
	s.views = newQuota(o.ViewBytes, statusTooMuch, s.refused, o.Log)
	s.getViews = newViewCache(o, s.views, func(k federation.Key) *getView { return newGetView(k, enc) })
	s.enc, s.routings = enc, wire.NewRoutings(s.profileTooLarge)
	s.profileViews = newViewCache(o, s.views, func(k federation.ProfileKey) *profileView {
		v := &profileView{server: s}
		v.key = k
		return v
	})
	if s.metrics, err = newMetrics(s, o.Registerer); err != nil {
		return nil, err
	}
	s.health.SetServingStatus(pb.Destination_ServiceDesc.ServiceName, healthpb.HealthCheckResponse_SERVING)
	return s, nil
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

// Streams returns the number of open streams, of both RPCs.
func (s *Server) Streams() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.streams)
}

// addStream registers a stream. It returns false if the server has finished.
func (s *Server) addStream(st *stream) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.finished {
		return false
	}
	if len(s.streams) == 0 {
		s.unused.Set(time.Time{})
	}
	s.streams[st] = struct{}{}
	return true
}

func (s *Server) removeStream(st *stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if delete(s.streams, st); len(s.streams) == 0 {
		s.unused.Set(time.Now())
	}
}
