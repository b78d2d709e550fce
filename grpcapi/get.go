package grpcapi

import (
	"context"
	"time"

	"go.uber.org/zap"

	"isthmus/federation"
	"isthmus/grpcapi/wire"
)

// getStream is one Get call.
type getStream struct {
	stream
	target target
	client federation.Client

	asked    time.Time       // when it was prepared
	firstSet *federation.Set // to begin with; nil: not known yet, or sent
	moved    <-chan struct{} // closed once the client's zone may be another; nil: never
	view     *view           // what the client sees now
	stale    <-chan struct{} // closed once there is another set than was looked at last
	turned   bool            // sent is another view's
	sent     *federation.Set // what its proxy has, or is being sent; nil: nothing yet
	news     bool            // sent is a newer set of the same view as the one before
	zone     string          // the zone for which sent was rendered
	blank    time.Time       // since when there is nothing, but may be; zero: there is, or there is not
}

func (s *Server) newGet(to target, who token, out sink, transport statusWriter) *getStream {
	st := &getStream{target: to, client: federation.Client{Node: who.Node, Instance: to.instance}}
	st.start(s, out, transport, st.stalled)
	return st
}

// next implements source.
func (st *getStream) next(ctx context.Context) ([]*wire.Frame, error) {
	if st.news {
		st.server.metrics.propagation.sent(st.sent)
	}
	for {
		select {
		case <-st.over:
			return nil, st.ended(ctx)
		case <-st.patience():
		case <-st.stale:
		case <-st.moved:
			st.locate()
		}
		if !st.pause() {
			return nil, st.ended(ctx)
		}
		set, stale, settled := st.look()
		st.stale = stale
		if !settled {
			continue
		}
		news := set != st.sent && !st.turned
		if frames := st.due(set); len(frames) > 0 {
			st.news = news
			return frames, nil
		}
	}
}

// due returns what to send so that the proxy has the set. A set that is empty
// while a cluster is pending waits for that cluster for as long as a first
// message would: unknown is not empty, but what has gone must not stay for long.
func (st *getStream) due(set *federation.Set) []*wire.Frame {
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
	st.sent, st.zone, st.turned = set, zone, false
	return frames
}

// patience returns what says that a blank has lasted long enough; nil: there is
// none, or the proxy has been told.
func (st *getStream) patience() <-chan time.Time {
	if st.blank.IsZero() {
		return nil
	}
	left := st.server.opts.FirstFrame - time.Since(st.blank)
	if left <= 0 {
		return nil
	}
	return st.after(left)
}

// look returns the newest set of the view that is the client's by now. While the
// table is about to publish another policy it is not settled: the set may be one
// that is meant for no client, or for clients of another policy, and the next one
// is on its way.
func (st *getStream) look() (set *federation.Set, stale <-chan struct{}, settled bool) {
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
func (st *getStream) locate() {
	if st.client.Node != "" {
		st.client.Zone, st.moved = st.server.dir.Zone(st.client.Node)
	}
	st.turn()
}

// turn makes the client's view the stream's, and tells whether it was not.
func (st *getStream) turn() bool {
	key := st.server.table.Key(st.target.service, st.target.port, st.client)
	old := st.view
	if old != nil {
		if old.key == key {
			return false
		}
		st.turned = true
		defer st.server.sets.release(old) // once the other watches, so that the service stays watched
	}
	st.view = st.server.sets.acquire(key)
	st.view.startWatch(st.server.table.Watch)
	return true
}

func (st *getStream) stalled() {
	if st.end(whyStalled) {
		m := st.server.metrics
		m.stalled.Inc()
		m.overflow.inc(st.target.service, st.name())
		st.server.log.Warn("stream ended: its proxy takes no updates", zap.String("service", st.name()))
	}
}

// close releases what the stream holds.
func (st *getStream) close() {
	if st.view != nil {
		st.server.sets.release(st.view)
	}
	st.stream.close()
}

// name is the authority, spelled out.
func (st *getStream) name() string { return st.target.authority(st.server.opts.ClusterDomain) }
