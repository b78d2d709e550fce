package grpcapi

import (
	"context"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"isthmus/federation"
	"isthmus/grpcapi/wire"
)

// first implements producer.
func (st *getStream) first(ctx context.Context) ([]*wire.Frame, error) {
	st.updateZone()
	began := st.server.now()
	set, err := st.firstSet(ctx)
	if err != nil {
		return nil, err
	}
	st.now = st.server.now()
	st.server.metrics.first.Observe(time.Duration(st.now - began).Seconds())
	if err := st.refusal(set); err != nil {
		return nil, err
	}
	alone := 0
	if st.explains {
		alone = costOfSet(set)
	}
	if err := st.admit(st.name(), st.fits, st.began, alone); err != nil {
		return nil, err
	}
	st.view.markServed()
	return st.step(set, false), nil
}

// firstSet waits for a complete set, after Options.FirstFrame for any. It does not wait
// for clusters that are unreachable: their sets are complete.
func (st *getStream) firstSet(ctx context.Context) (*federation.Set, error) {
	var late <-chan time.Time
	for {
		set, replaced, ok := st.newest()
		st.replaced = replaced
		if set.Complete && ok {
			return set, nil
		}
		if late == nil {
			late = st.after(st.server.opts.FirstFrame)
		}
		select {
		case <-st.done:
			return nil, st.endError(ctx)
		case <-replaced:
		case <-st.zoneChanged:
			st.updateZone()
		case <-late:
			set, st.replaced, _ = st.newest()
			st.server.metrics.late.Inc()
			return set, nil
		}
	}
}

// refusal returns the error with which a call is refused whose first set is this one;
// nil: it is served. Only the first set can refuse a call: an open stream is never
// ended because of a set.
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
	case federation.TooManyPorts:
		return status.Errorf(codes.ResourceExhausted,
			"%s: clients use %d other undeclared ports of Service %s.%s, which is the limit: "+
				"declare the port in the Service",
			st.name(), federation.MaxUndeclaredPorts, st.target.service.Name, st.target.service.Namespace)
	case federation.Unknown:
		return status.Errorf(codes.Unavailable, "No cluster of %s that is known by now has endpoints", st.name())
	}
	return nil
}
