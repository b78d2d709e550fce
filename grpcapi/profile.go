package grpcapi

import (
	"context"
	"strconv"
	"time"

	"go.uber.org/zap"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"isthmus/federation"
)

// profileStream is one GetProfile call.
type profileStream struct {
	stream
	view *profileView // what the client sees; fixed while the stream runs
	sent *told        // what its proxy has; nil: nothing yet
	had  had          // the routes that it had last; zero: none yet
}

func (s *Server) newProfile(out sink, transport statusWriter) *profileStream {
	st := &profileStream{}
	st.start(s, out, transport, st.stalled)
	return st
}

// run serves the stream until it ends. The error has a gRPC code.
func (st *profileStream) run(ctx context.Context, key federation.ProfileKey) error {
	st.view = st.server.profiles.acquire(key)
	defer st.close()
	st.view.open(st.server.dir.Profile)
	newest, stale := st.view.tell(st.had)
	if err := st.refusal(newest.profile); err != nil {
		return err
	}
	ended, now, ok := ctx.Done(), time.Now(), true
	for {
		if st.due(newest) {
			if err := st.send(ctx, newest.frame, now); err != nil {
				return err
			}
		}
		select {
		case <-ended:
			return st.ended(ctx)
		case <-stale:
		}
		if now, ok = st.pause(ended); !ok {
			return st.ended(ctx)
		}
		newest, stale = st.view.tell(st.had)
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
		st.had = had{now.profile.Service, now.routing.profile}
	}
	return before == nil || before != now && !before.frame.equal(now.frame)
}

// refusal is the error that a stream ends with which finds that profile at its
// beginning; nil: it is served.
func (st *profileStream) refusal(p *federation.Profile) error {
	key := st.view.key
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
	if to, ok := serviceOf(st.view.key, p); ok {
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
	st.server.profiles.release(st.view)
	st.stream.close()
}

// name is the authority, spelled out.
func (st *profileStream) name() string {
	key := st.view.key
	if key.Addr.IsValid() {
		return key.Addr.String()
	}
	return targetOf(key).authority(st.server.opts.ClusterDomain)
}

// targetOf is the service that a key names, if it names one.
func targetOf(k federation.ProfileKey) target { return target{k.Service, k.Instance, k.Port} }
