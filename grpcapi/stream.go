package grpcapi

import (
	"context"
	"net"
	"strconv"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"isthmus/federation"
)

// sink takes a stream's messages; it is a part of grpc.ServerStream.
type sink interface{ SendMsg(m any) error }

// statusWriter ends a stream from any goroutine: it sends the status, after what
// has been sent before, and cancels the stream's context. Only the first call
// counts.
type statusWriter interface{ WriteStatus(*status.Status) error }

// Why a stream is ended from outside.
var (
	whyDraining = status.New(codes.Unavailable, "the gateway is shutting down")
	whyStalled  = status.New(codes.Unavailable, "the proxy has taken no update for too long")
)

// stream is one Get call. But for end it belongs to its handler's goroutine.
type stream struct {
	server    *Server
	out       sink
	transport statusWriter
	target    target
	client    federation.Client

	moved <-chan struct{} // closed once the client's zone may be another; nil: never
	view  *view           // what the client sees now
	sent  *federation.Set // what its proxy has; nil: nothing yet
	zone  string          // the zone for which sent was rendered
	at    time.Time       // when the last message was begun
	blank time.Time       // since when there is nothing, but may be; zero: there is, or there is not

	timer *time.Timer // for waiting; nil before the first use
	stall watchdog
	why   atomic.Pointer[status.Status] // it has been ended from outside; nil: it has not
}

func (s *Server) newStream(to target, who token, out sink, transport statusWriter) *stream {
	st := &stream{
		server: s, out: out, transport: transport, target: to,
		client: federation.Client{Node: who.Node, Instance: to.instance},
	}
	st.stall = watchdog{limit: s.opts.Stall, epoch: s.epoch, bark: st.stalled}
	return st
}

// run serves the stream until it ends. The error has a gRPC code.
func (st *stream) run(ctx context.Context) error {
	defer st.close()
	st.locate()
	set, err := st.first(ctx)
	if err != nil {
		return err
	}
	if err := st.refusal(set); err != nil {
		return err
	}
	st.sent, st.zone = set, st.view.key.Client.Zone
	if err := st.send(ctx, st.view.full(set), time.Now()); err != nil {
		return err
	}
	return st.follow(ctx)
}

// follow sends what changes until the stream ends.
func (st *stream) follow(ctx context.Context) error {
	ended, now := ctx.Done(), st.at
	for {
		set, stale, settled := st.look()
		if settled {
			if err := st.send(ctx, st.due(set), now); err != nil {
				return err
			}
		}
		select {
		case <-ended:
			return st.ended(ctx)
		case <-st.patience():
		case <-stale:
		case <-st.moved:
			st.locate()
		}
		now = time.Now()
		if wait := st.server.opts.Pace - now.Sub(st.at); wait > 0 {
			select {
			case <-ended:
				return st.ended(ctx)
			case now = <-st.after(wait):
			}
		}
	}
}

// due returns what to send so that the proxy has the set. A set that is empty
// while a cluster is pending waits for that cluster for as long as a first
// message would: unknown is not empty, but what has gone must not stay for long.
func (st *stream) due(set *federation.Set) []*frame {
	zone := st.view.key.Client.Zone
	if set == st.sent && zone == st.zone {
		return nil
	}
	switch {
	case len(set.Endpoints) > 0 || set.Complete:
		st.blank = time.Time{}
	case st.blank.IsZero():
		st.blank = time.Now()
		return nil
	case time.Since(st.blank) < st.server.opts.FirstFrame:
		return nil
	}
	frames := st.view.step(st.sent, set, zone != st.zone)
	st.sent, st.zone = set, zone
	return frames
}

// patience returns what says that a blank has lasted long enough; nil: there is
// none, or the proxy has been told.
func (st *stream) patience() <-chan time.Time {
	if st.blank.IsZero() {
		return nil
	}
	left := st.server.opts.FirstFrame - time.Since(st.blank)
	if left <= 0 {
		return nil
	}
	return st.after(left)
}

// send sends the frames, and ends the stream if the proxy does not take one in
// time.
func (st *stream) send(ctx context.Context, frames []*frame, now time.Time) error {
	for i, f := range frames {
		if i > 0 {
			now = time.Now()
		}
		st.stall.begin(now)
		err := st.out.SendMsg(f)
		st.stall.done()
		if err != nil && ctx.Err() != nil {
			return st.ended(ctx)
		}
		if err != nil {
			return err
		}
		st.at = now
	}
	return nil
}

// look returns the newest set of the view that is the client's by now. While the
// table is about to publish another policy it is not settled: the set may be one
// that is meant for no client, or for clients of another policy, and the next one
// is on its way.
func (st *stream) look() (set *federation.Set, stale <-chan struct{}, settled bool) {
	for {
		set, stale = st.view.get()
		byNode := st.view.key.Client.Node != ""
		if st.client.Node == "" || set.ByNode == byNode {
			return set, stale, true
		}
		if !st.turn() {
			return set, stale, false
		}
	}
}

// locate learns the client's zone, and turns to the view that goes with it.
func (st *stream) locate() {
	if st.client.Node != "" {
		st.client.Zone, st.moved = st.server.dir.Zone(st.client.Node)
	}
	st.turn()
}

// turn makes the client's view the stream's, and tells whether it was not.
func (st *stream) turn() bool {
	key := st.server.table.Key(st.target.service, st.target.port, st.client)
	old := st.view
	if old != nil {
		if old.key == key {
			return false
		}
		defer st.server.views.release(old) // once the other is open, so that the service stays watched
	}
	st.view = st.server.views.acquire(key)
	st.view.open(st.server.table)
	return true
}

// end ends the stream from outside, and tells whether that had not been done.
func (st *stream) end(why *status.Status) bool {
	if !st.why.CompareAndSwap(nil, why) {
		return false
	}
	if err := st.transport.WriteStatus(why); err != nil {
		st.server.log.Debug("status of a stream not written", zap.Stringer("service", st.target.service), zap.Error(err))
	}
	return true
}

func (st *stream) stalled() {
	if st.end(whyStalled) {
		st.server.metrics.overflow.WithLabelValues(st.name()).Inc()
		st.server.log.Warn("stream ended: its proxy takes no updates", zap.String("service", st.name()))
	}
}

// ended returns why a stream has ended whose context is done.
func (st *stream) ended(ctx context.Context) error {
	if why := st.why.Load(); why != nil {
		return why.Err()
	}
	return status.FromContextError(ctx.Err()).Err()
}

// close releases what the stream holds.
func (st *stream) close() {
	if st.view != nil {
		st.server.views.release(st.view)
	}
	if st.timer != nil {
		st.timer.Stop()
	}
	st.stall.stop()
}

// after is time.After with the stream's one timer.
func (st *stream) after(d time.Duration) <-chan time.Time {
	if st.timer == nil {
		st.timer = time.NewTimer(d)
	} else {
		st.timer.Reset(d)
	}
	return st.timer.C
}

// name is the authority, spelled out.
func (st *stream) name() string {
	host := st.target.service.Name + "." + st.target.service.Namespace + ".svc." + st.server.opts.ClusterDomain
	if st.target.instance != "" {
		host = st.target.instance + "." + host
	}
	return net.JoinHostPort(host, strconv.Itoa(int(st.target.port)))
}
