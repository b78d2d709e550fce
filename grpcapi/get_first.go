package grpcapi

import (
	"context"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"isthmus/federation"
	"isthmus/grpcapi/wire"
)

// prepare implements source.
func (st *getStream) prepare() (ready bool) {
	st.locate()
	st.asked = time.Now()
	return st.pickFirst()
}

// pickFirst takes the newest set to begin with, if it is complete.
func (st *getStream) pickFirst() bool {
	set, stale, settled := st.look()
	st.stale = stale
	if !set.Complete || !settled {
		return false
	}
	st.firstSet = set
	return true
}

// wait implements source: what there is after Options.FirstFrame has to do.
func (st *getStream) wait(ctx context.Context) error {
	late := st.after(st.server.opts.FirstFrame)
	for !st.pickFirst() {
		select {
		case <-st.over:
			return st.ended(ctx)
		case <-st.stale:
		case <-st.moved:
			st.locate()
		case <-late:
			st.firstSet, st.stale, _ = st.look()
			st.server.metrics.late.Inc()
			return nil
		}
	}
	return nil
}

// first implements source.
func (st *getStream) first() ([]*wire.Frame, error) {
	set := st.firstSet
	st.firstSet = nil
	st.now = time.Now()
	st.server.metrics.first.Observe(st.now.Sub(st.asked).Seconds())
	if err := st.refusal(set); err != nil {
		return nil, err
	}
	st.sent, st.zone, st.turned = set, st.view.key.Client.Zone, false
	return st.view.full(set), nil
}

// refusal is the error that a stream ends with which finds that set at its
// beginning; nil: it is served.
func (st *getStream) refusal(set *federation.Set) error {
	if len(set.Endpoints) > 0 {
		return nil
	}
	switch set.Reason {
	case federation.Undefined:
		return status.Errorf(codes.NotFound, "Service %s.%s not found", st.target.service.Name, st.target.service.Namespace)
	case federation.NoRemoteService:
		return status.Errorf(codes.FailedPrecondition, "Remote discovery service missing remote service name %s", st.name())
	case federation.NotLinked:
		return status.Errorf(codes.NotFound, "Remote cluster not found: %s", set.Cluster)
	case federation.External:
		return invalidAuthority(st.name())
	case federation.Unknown:
		return status.Errorf(codes.Unavailable, "No cluster of %s that is known by now has endpoints", st.name())
	}
	return nil
}
