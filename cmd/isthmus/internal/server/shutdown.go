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

// What follows the last stream takes less than a second, since the default flags
// leave no more of Kubernetes' default grace of 30 s.
const (
	// stopLimit is what streams, other calls and connections may take to end
	// once the listener is closed.
	stopLimit = 300 * time.Millisecond
	// lastLimit is what requests to the admin server, and spans that are left,
	// may take after that.
	lastLimit = 500 * time.Millisecond
	// goneAfter is how long there must be no stream until all proxies count as
	// gone. A proxy tries again 0.1 s after its stream was ended.
	goneAfter = time.Second
)

// shutdown is how a gateway that serves stops serving: in an order that takes
// nothing away from proxies.
//
//  1. It is no longer ready, and health checks report that it goes away.
//  2. It goes on serving for delay, so that proxies learn by DNS where other
//     replicas are.
//  3. It ends the open streams, spread over a time, and serves new ones.
//  4. It closes the listener, and then ends the streams that are left.
//
// The default times, and a second for what follows the last stream, are Kubernetes'
// default grace: see docs/operations.md.
type shutdown struct {
	streams        func() int                                // how many are open
	markNotServing func()                                    // lets health checks report that this server goes away
	drain          func(context.Context)                     // ends the open streams, spread over a time
	waitUnused     func(context.Context, time.Duration) bool // waits until none has been open for that long
	finish         func()                                    // ends all streams, also those that begin later
	graceful       func()                                    // closes the listener, then waits for the calls under way
	abort          func()                                    // stops the server now, and with that graceful
	delay          time.Duration                             // before drain
	spread         time.Duration                             // over which drain ends the streams
	always         bool                                      // serve for both times also without streams
	log            *zap.Logger
}

// newShutdown returns how a replica stops server, which serves api.
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

// run hands the proxies over to other replicas while it serves, and then stops the
// server, which listens on l. Each step has a limit, so that run returns whatever
// clients do. Without open streams it only stops the server, unless always is set:
// proxies that are at replicas that go too may know this one alone by DNS.
func (s *shutdown) run(l *trackingListener) {
	s.markNotServing()
	if n := s.streams(); n > 0 || s.always {
		s.log.Info("shutdown: waiting for clients to go elsewhere", zap.Int("streams", n), zap.Duration("for", s.delay))
		s.handOver()
		s.log.Info("shutdown: serving ends", zap.Int("streams", s.streams()))
	}
	s.stop(l)
}

// handOver waits for delay, and then ends the open streams, unless that is to
// happen all at once: then stop does it. It returns when the two times are over, or,
// unless always is set, all proxies have gone.
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
		s.log.Info("shutdown: all clients have gone elsewhere")
	}
	cancel()
	draining.Wait()
}

// stop closes the listener, and only then ends the streams that are left: a proxy
// that connects again at once must not get in.
func (s *shutdown) stop(l *trackingListener) {
	late := time.AfterFunc(stopLimit, func() {
		l.closeConns() // or abort would wait for clients that have connected and sent nothing
		s.abort()
	})
	defer late.Stop()
	var stopping sync.WaitGroup
	stopping.Go(s.graceful)
	<-l.closed
	s.finish()
	stopping.Wait()
}

// inPodVariable is one that Kubernetes gives every container.
const inPodVariable = "KUBERNETES_SERVICE_HOST"

// inPod returns whether this is a Pod's container, and so may be a replica that proxies find by DNS.
func inPod() bool { return os.Getenv(inPodVariable) != "" }

// trackingListener is a listener that reports that it has been closed, and can
// close the connections that it has accepted. gRPC's server waits ten seconds for a
// connection on which nothing comes, even when it is stopped at once.
type trackingListener struct {
	net.Listener
	once   sync.Once
	closed chan struct{} // closed once the listener is closed

	mu   sync.Mutex
	open map[*trackedConn]struct{} // under mu
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

// closeConns closes all connections that are open.
func (l *trackingListener) closeConns() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.open {
		c.Conn.Close()
	}
}

// trackedConn is a connection that a trackingListener has accepted.
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
