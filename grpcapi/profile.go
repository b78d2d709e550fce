package grpcapi

import (
	"context"
	"strconv"
	"time"

	"go.uber.org/zap"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"isthmus/federation"
	"isthmus/grpcapi/wire"
)

// profileStream is one GetProfile call.
type profileStream struct {
	stream
	key   federation.ProfileKey
	view  *profileView    // what the client sees; nil: it is not prepared
	stale <-chan struct{} // closed once there is something else to tell
	sent  *told           // what its proxy has, or is being sent; nil: nothing yet
	had   had             // the routes that it had last; zero: none yet
}

func (s *Server) newProfile(key federation.ProfileKey, out sink, transport statusWriter) *profileStream {
	st := &profileStream{key: key}
	st.start(s, out, transport, st.stalled)
	return st
}

// prepare implements source.
func (st *profileStream) prepare() (ready bool) {
	st.view = st.server.profiles.acquire(st.key)
	st.view.startWatch(st.server.dir.Profile)
	return true
}

// wait implements source.
func (st *profileStream) wait(context.Context) error { return nil }

// first implements source.
func (st *profileStream) first() ([]*wire.Frame, error) {
	var newest *told
	newest, st.stale = st.view.tell(st.had)
	if err := st.refusal(newest.profile); err != nil {
		return nil, err
	}
	st.due(newest)
	st.now = time.Now()
	return newest.frames, nil
}

// next implements source.
func (st *profileStream) next(ctx context.Context) ([]*wire.Frame, error) {
	for {
		select {
		case <-st.over:
			return nil, st.ended(ctx)
		case <-st.stale:
		}
		if !st.pause() {
			return nil, st.ended(ctx)
		}
		var newest *told
		if newest, st.stale = st.view.tell(st.had); st.due(newest) {
			return newest.frames, nil
		}
	}
}

// due makes what is told now what the proxy has, and tells whether it has to be
// sent for that. As long as nobody knows who has an address, what was told before
// stands.
func (st *profileStream) due(now *told) bool {
	if now.profile.Reason == federation.Ambiguous {
		return false
	}
	before := st.sent
	st.sent = now
	if now.profile.Service != (federation.ServiceID{}) {
		st.had = had{now.profile.Service, now.routing.ServiceProfile()}
	}
	return before == nil || before != now && !before.frames[0].Equal(now.frames[0])
}

// refusal is the error that a stream ends with which finds that profile at its
// beginning; nil: it is served.
func (st *profileStream) refusal(p *federation.Profile) error {
	key := st.key
	switch p.Reason {
	case federation.NoService:
		return status.Errorf(codes.NotFound, "Service %s.%s not found", key.Service.Name, key.Service.Namespace)
	case federation.NoInstance:
		return status.Errorf(codes.NotFound, "no pod found in EndpointSlices of Service %s for hostname %s", key.Service, key.Instance)
	case federation.NoAddress:
		return invalidAuthority(st.name())
	case federation.Ambiguous:
		return status.Errorf(codes.FailedPrecondition, "found %s", p.Claimed)
	}
	return nil
}

func (st *profileStream) stalled() {
	if st.end(whyStalled) {
		st.overflow()
		st.server.log.Warn("stream ended: its proxy takes no updates", zap.String("profile", st.name()))
	}
}

// overflow counts a stall of this stream.
func (st *profileStream) overflow() {
	m := st.server.metrics
	m.stalled.Inc()
	p, _ := st.view.get()
	if to, ok := serviceOf(st.key, p); ok {
		m.profiles.inc(to.service, to.host(st.server.opts.ClusterDomain), strconv.Itoa(int(to.port)))
	} else {
		m.endpointProfiles.Inc()
	}
}

// serviceOf is the service port that a profile is about, if it is no endpoint's.
// Behind a cluster IP is the service that has it by now.
func serviceOf(k federation.ProfileKey, p *federation.Profile) (to target, ok bool) {
	if !k.Addr.IsValid() && k.Instance == "" {
		return targetOf(k), true
	}
	return target{service: p.Service, port: p.Port}, p.Name != ""
}

// close releases what the stream holds.
func (st *profileStream) close() {
	if st.view != nil {
		st.server.profiles.release(st.view)
	}
	st.stream.close()
}

// name is the authority, spelled out.
func (st *profileStream) name() string {
	if st.key.Addr.IsValid() {
		return st.key.Addr.String()
	}
	return targetOf(st.key).authority(st.server.opts.ClusterDomain)
}

// targetOf is the service that a key names, if it names one.
func targetOf(k federation.ProfileKey) target { return target{k.Service, k.Instance, k.Port} }
