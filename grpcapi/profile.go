package grpcapi

import (
	"context"
	"strconv"

	"go.uber.org/zap"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"isthmus/federation"
	"isthmus/grpcapi/wire"
)

type profileStream struct {
	stream
	key        federation.ProfileKey
	view       *profileView    // nil until begin is called
	replaced   <-chan struct{} // closed when the profile of the newest variant is replaced
	sent       *profileVariant // the variant that the proxy has or is being sent; nil before begin has found one
	sentRoutes sentRoutes
}

func newProfileStream(s *Server, key federation.ProfileKey, out sink, transport statusWriter) *profileStream {
	st := &profileStream{key: key}
	st.init(s, out, transport, st.stalled)
	return st
}

// begin implements producer. The method does not wait, because a profile is immediately available
// for every destination.
func (st *profileStream) begin(context.Context) error {
	st.view = st.server.profileViews.acquire(st.key)
	st.viewFits, st.viewCost = st.view.startWatch(st.server.dir.Profile, st.server.viewMemory, costOfProfile)
	newest, replaced := st.view.variant(st.sentRoutes)
	st.replaced = replaced
	if err := st.refusal(newest.profile); err != nil {
		return err
	}
	st.advance(newest)
	return nil
}

// first implements producer.
func (st *profileStream) first() []*wire.Frame {
	st.view.markServed()
	st.madeAt = st.server.now()
	return st.sent.frames
}

// next implements producer.
func (st *profileStream) next(ctx context.Context) ([]*wire.Frame, error) {
	for {
		select {
		case <-st.done:
			return nil, st.endError(ctx)
		case <-st.replaced:
		}
		if !st.pause() || !st.takeTurn() {
			return nil, st.endError(ctx)
		}
		newest := st.newest()
		if st.advance(newest) {
			return newest.frames, nil
		}
	}
}

// newest returns the newest profile, encoded for the stream's proxy. The stream's turn ends even if
// a panic occurs while the profile is encoded.
func (st *profileStream) newest() (v *profileVariant) {
	defer st.endTurn()
	v, st.replaced = st.view.variant(st.sentRoutes)
	return v
}

// advance stores the given profile as the last one sent, and reports whether the caller must send
// it. While several objects claim the address, nothing is sent.
//
// The stored routes are the last ones that the proxy has received, even if they belong to another
// service. If a profile has no service, advance leaves the stored routes unchanged. Therefore, a
// slow stream stores the same routes as a fast stream, even if the slow stream skips a profile that
// has no service.
func (st *profileStream) advance(now *profileVariant) bool {
	if now.profile.Reason == federation.Ambiguous {
		return false
	}
	before := st.sent
	st.sent = now
	if now.profile.Service != (federation.ServiceID{}) {
		st.sentRoutes = sentRoutes{now.profile.Service, now.routing.ServiceProfile()}
	}
	return before == nil || before != now && !before.frames[0].Equal(now.frames[0])
}

// refusal returns the error for a call whose first profile cannot be served. If the profile can be
// served, the result is nil. If a later profile cannot be served, the open stream sends an empty
// message. While several objects claim the address, the open stream sends nothing.
func (st *profileStream) refusal(p *federation.Profile) error {
	key := st.key
	switch p.Reason {
	case federation.NoService:
		return status.Errorf(codes.NotFound, "Service %s.%s not found", key.Service.Name, key.Service.Namespace)
	case federation.NoInstance:
		return status.Errorf(codes.NotFound,
			"no pod found in EndpointSlices of Service %s for hostname %s", key.Service, key.Instance)
	case federation.NoAddress:
		return invalidAuthority(st.name())
	case federation.Ambiguous:
		// The conflict is temporary, so the call fails with Unavailable, which makes proxies retry.
		// Proxies do not retry a call that fails with FailedPrecondition.
		return status.Errorf(codes.Unavailable, "found %s", p.Claimed)
	}
	return nil
}

func (st *profileStream) stalled() {
	if st.end(statusStalled) {
		st.countStall()
		st.server.log.Warn("stream ended: its proxy did not read updates", zap.String("profile", st.name()))
		st.server.opts.Stalled(st.name())
	}
}

// countStall counts a stalled stream. If the destination of the stream is a cluster IP, the stall
// is counted for the Service that currently uses the IP.
func (st *profileStream) countStall() {
	m := st.server.metrics
	m.stalled.Inc()
	p, _ := st.view.get()
	if to, ok := serviceOf(st.key, p); ok {
		m.profileOverflow.inc(to.service, to.host(st.server.opts.ClusterDomain), strconv.Itoa(int(to.port)))
	} else {
		m.endpointProfileOverflow.Inc()
	}
}

// serviceOf returns the service port that a profile describes. For a cluster IP, the result is the
// Service that currently uses the IP. If the profile describes an endpoint, ok is false.
func serviceOf(k federation.ProfileKey, p *federation.Profile) (to target, ok bool) {
	if !k.Addr.IsValid() && k.Instance == "" {
		return targetOf(k), true
	}
	return target{service: p.Service, port: p.Port}, p.Name != ""
}

// close implements producer.
func (st *profileStream) close() {
	if st.view != nil {
		st.server.profileViews.release(st.view)
	}
	st.stream.close()
}

func (st *profileStream) name() string {
	if st.key.Addr.IsValid() {
		return st.key.Addr.String()
	}
	return targetOf(st.key).authority(st.server.opts.ClusterDomain)
}

func targetOf(k federation.ProfileKey) target { return target{k.Service, k.Instance, k.Port} }
