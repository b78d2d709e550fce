package server

import (
	"context"
	"net"
	"os"
	"sync"
	"time"

	"go.uber.org/zap"
	"google.golang.org/grpc"

	"isthmus/grpcapi"
)

// With their default values, --shutdown-delay and --drain together take up 29 s of Kubernetes's
// default grace period of 30 s. The limits stopLimit and lastLimit ensure that the rest of the
// shutdown takes less than a second.
const (
	// stopLimit is how long open calls and connections may continue after the listener is closed.
	stopLimit = 300 * time.Millisecond
	// At the end of a shutdown, the replica spends at most lastLimit on completing admin requests
	// and sending trace spans.
	lastLimit = 500 * time.Millisecond
	// goneAfter is how long a replica must be without streams before it assumes that no proxy will
	// reconnect. A proxy reconnects 0.1 s after its stream has ended.
	goneAfter = time.Second
)

// shutdown stops a replica without interrupting proxies, in the following steps:
//
//  1. The replica becomes unready, and health checks report that it is not serving.
//  2. During the period set by --shutdown-delay, the replica continues to serve, so that proxies
//     have time to find other replicas through DNS.
//  3. During the period set by --drain, the replica ends the open streams one by one. The replica
//     still accepts new streams.
//  4. The replica closes the listener and then ends the remaining streams.
//
// By default, the steps take at most 30 s in total, which is Kubernetes's default grace period. See
// docs/operations.md.
type shutdown struct {
	streams        func() int                                // returns the number of open streams
	markNotServing func()                                    // makes health checks report "not serving"
	drain          func(context.Context)                     // ends the open streams over spread
	waitUnused     func(context.Context, time.Duration) bool // waits until no stream has been open for the duration
	finish         func()                                    // ends all streams, including later ones
	graceful       func()                                    // closes the listener, then waits for open calls
	abort          func()                                    // stops the server, so that graceful returns immediately
	delay          time.Duration                             // before drain
	spread         time.Duration                             // period over which drain ends the streams
	always         bool                                      // serve for delay and spread even without streams
	log            *zap.Logger
}

func newShutdown(o *options, api *grpcapi.Server, server *grpc.Server, log *zap.Logger) *shutdown {
	return &shutdown{
		streams:        api.Streams,
		markNotServing: api.MarkNotServing,
		drain:          api.Drain,
		waitUnused:     api.WaitUnused,
		finish:         api.Finish,
		graceful:       server.GracefulStop,
		abort:          server.Stop,
		delay:          o.delay,
		spread:         o.drain,
		always:         inPod(),
		log:            log,
	}
}

// run moves proxies to other replicas and then stops the server that listens on l. Each step has a
// time limit, so that the method returns in time even if clients do not respond.
//
// If no stream is open, the server is stopped immediately, unless s.always is set. If the replica
// runs in a Pod, s.always is set, because proxies may still connect to the replica. For example,
// DNS may return only this replica's address while other replicas are also shutting down.
func (s *shutdown) run(l *trackingListener) {
	s.markNotServing()
	if n := s.streams(); n > 0 || s.always {
		s.log.Info("shutdown: waiting for clients to leave", zap.Int("streams", n), zap.Duration("for", s.delay))
		s.handOver()
		s.log.Info("shutdown: serving ends", zap.Int("streams", s.streams()))
	}
	s.stop(l)
}

// handOver waits for s.delay, and then ends the open streams one by one over s.spread. If s.spread
// is zero, the streams stay open until s.stop ends them. Unless s.always is set, handOver returns
// as soon as all proxies have disconnected.
func (s *shutdown) handOver() {
	ctx, cancel := context.WithTimeout(context.Background(), s.delay+s.spread)
	var draining sync.WaitGroup
	if s.spread > 0 {
		draining.Go(func() {
			select {
			case <-ctx.Done():
			case <-time.After(s.delay):
				s.log.Info("shutdown: ending streams",
					zap.Int("streams", s.streams()), zap.Duration("within", s.spread))
				s.drain(ctx)
			}
		})
	}
	if s.always {
		<-ctx.Done()
	} else if s.waitUnused(ctx, goneAfter) {
		s.log.Info("shutdown: all clients have left")
	}
	cancel()
	draining.Wait()
}

// stop closes the listener before it ends the remaining streams, so that proxies cannot reconnect
// to this replica.
func (s *shutdown) stop(l *trackingListener) {
	late := time.AfterFunc(stopLimit, func() {
		l.closeConns() // otherwise abort would wait for clients that have sent nothing
		s.abort()
	})
	defer late.Stop()
	var stopping sync.WaitGroup
	stopping.Go(s.graceful)
	<-l.closed
	s.finish()
	stopping.Wait()
}

const inPodVariable = "KUBERNETES_SERVICE_HOST"

// inPod reports whether the process runs in a Pod, where proxies may find the replica through DNS.
func inPod() bool { return os.Getenv(inPodVariable) != "" }

// trackingListener is a listener that signals when it is closed, and can close all accepted
// connections. The connections must be closed because the gRPC server's Stop method waits ten
// seconds for connections that have not sent anything.
type trackingListener struct {
	net.Listener
	once   sync.Once
	closed chan struct{} // closed once the listener is closed

	mu   sync.Mutex
	open map[*trackedConn]struct{} // guarded by mu
}

func newTrackingListener(l net.Listener) *trackingListener {
	return &trackingListener{Listener: l, closed: make(chan struct{}), open: make(map[*trackedConn]struct{})}
}

// Accept implements net.Listener.
func (l *trackingListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &trackedConn{conn, l}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open[c] = struct{}{}
	return c, nil
}

// Close closes the listener.
func (l *trackingListener) Close() error {
	err := l.Listener.Close()
	l.once.Do(func() { close(l.closed) })
	return err
}

// closeConns closes all open connections.
func (l *trackingListener) closeConns() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.open {
		c.Conn.Close()
	}
}

type trackedConn struct {
	net.Conn
	listener *trackingListener
}

// Close closes the connection.
func (c *trackedConn) Close() error {
	c.listener.mu.Lock()
	delete(c.listener.open, c)
	c.listener.mu.Unlock()
	return c.Conn.Close()
}
