package grpcapi

import (
	"context"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"isthmus/federation"
	"isthmus/grpcapi/wire"
)

// prepare implements producer.
func (st *getStream) prepare() (ready bool) {
	st.updateZone()
	st.preparedAt = st.server.now()
	return st.pickFirst()
}

// pickFirst takes the newest set as the first, if it is complete. It does not wait
// for clusters that are unreachable: their sets are complete.
func (st *getStream) pickFirst() bool {
	set, replaced, ok := st.newest()
	st.replaced = replaced
	if !set.Complete || !ok {
		return false
	}
	st.firstSet = set
	return true
}

// wait implements producer. After Options.FirstFrame it takes the set as it is.
func (st *getStream) wait(ctx context.Context) error {
	late := st.after(st.server.opts.FirstFrame)
	for !st.pickFirst() {
		select {
		case <-st.done:
			return st.endError(ctx)
		case <-st.replaced:
		case <-st.zoneChanged:
			st.updateZone()
		case <-late:
			st.firstSet, st.replaced, _ = st.newest()
			st.server.metrics.late.Inc()
			return nil
		}
	}
	return nil
}

// first implements producer.
func (st *getStream) first() ([]*wire.Frame, error) {
	set := st.firstSet
	st.firstSet = nil
	st.now = st.server.now()
	st.server.metrics.first.Observe(time.Duration(st.now - st.preparedAt).Seconds())
	if err := st.refusal(set); err != nil {
		return nil, err
	}
	isAlone, alone := set.AnyPort || st.explaining != nil, 0
	if isAlone {
		alone = costOfSet(set)
	}
	if err := st.admit(st.name(), st.fits, st.began, alone); err != nil {
		return nil, err
	}
	st.sent, st.sentZone, st.viewChanged = set, st.view.key.Client.Zone, false
	st.heldSet.Store(set)
	st.explaining.use(set)
	if isAlone {
		return st.view.fullFramesFor(st.alone(), set), nil
	}
	return st.view.fullFrames(set), nil
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
	case federation.Unknown:
		return status.Errorf(codes.Unavailable, "No cluster of %s that is known by now has endpoints", st.name())
	}
	return nil
}
