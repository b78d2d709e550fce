package grpcapi

import (
	"context"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"isthmus/federation"
)

// begin returns the first messages, or why the stream is refused.
func (st *getStream) begin(ctx context.Context) ([]*frame, error) {
	st.locate()
	set, err := st.first(ctx)
	if err != nil {
		return nil, err
	}
	if err := st.refusal(set); err != nil {
		return nil, err
	}
	st.sent, st.zone, st.turned, st.now = set, st.view.key.Client.Zone, false, time.Now()
	return st.view.full(set), nil
}

// first returns the set to begin with: once it is complete, or else what there
// is after Options.FirstFrame.
func (st *getStream) first(ctx context.Context) (*federation.Set, error) {
	var late <-chan time.Time
	began := time.Now()
	for {
		set, stale, settled := st.look()
		st.stale = stale
		if set.Complete && settled {
			st.server.metrics.begun(time.Since(began), true)
			return set, nil
		}
		if late == nil {
			late = st.after(st.server.opts.FirstFrame)
		}
		select {
		case <-st.over:
			return nil, st.ended(ctx)
		case <-stale:
		case <-st.moved:
			st.locate()
		case <-late:
			set, st.stale, _ = st.look()
			st.server.metrics.begun(time.Since(began), false)
			return set, nil
		}
	}
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
