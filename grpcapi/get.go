package grpcapi

import (
	"context"
	"time"

	"go.uber.org/zap"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"isthmus/federation"
	"isthmus/grpcapi/wire"
)

type getStream struct {
	stream
	target target
	client federation.Client

	zoneChanged <-chan struct{} // closed when the client's zone may have changed; nil if it never changes
	view        *getView        // the view of the client's key
	replaced    <-chan struct{} // closed when the set that newest last returned is replaced
	hinted      bool            // node hints determine the client's endpoints, so the view's key has the client's node

	sent        *federation.Set // the set that the proxy has or is being sent; nil before begin has found one
	sentZone    string          // the zone that sent was encoded for
	viewChanged bool            // sent belongs to another view than the current one
	isUpdate    bool            // sent is a newer set from the same view as the previous one

	explains   bool             // the client is not a proxy, and requests tiers
	tiers      federation.Tiers // the tiers that were sent with the endpoints
	otherTiers <-chan struct{}  // closed when the tiers field is out of date

	// emptySince is 0, or the time on Server.clock at which the set became empty while a cluster
	// was pending.
	emptySince int64
	heldBack   bool // the newest set is held back because it is empty
}

func newGetStream(s *Server, to target, who token, out sink, transport statusWriter) *getStream {
	st := &getStream{target: to, client: federation.Client{Node: who.Node, Instance: to.instance}}
	st.init(s, out, transport, st.stalled)
	return st
}

// begin implements producer.
func (st *getStream) begin(ctx context.Context) error {
	st.updateZone()
	start := st.server.now()
	set, err := st.firstSet(ctx)
	if err != nil {
		return err
	}
	st.madeAt = st.server.now()
	st.server.metrics.first.Observe(time.Duration(st.madeAt - start).Seconds())

	if err := st.refusal(set); err != nil {
		return err
	}
	if st.explains {
		st.setAlone(costOfSet(set))
	}
	st.sent = set
	return nil
}

// firstSet waits until the set is complete. If the set is still incomplete when Options.FirstFrame
// has elapsed, firstSet returns the incomplete set. Unreachable clusters do not make a set
// incomplete.
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

// refusal returns the error for a call whose first set cannot be served. If the set can be served,
// the result is nil. Once the first set has been sent, the stream stays open even if a newer set
// has no endpoints.
func (st *getStream) refusal(set *federation.Set) error {
	if len(set.Endpoints) > 0 {
		return nil
	}
	service := st.target.service
	switch set.Reason {
	case federation.Undefined:
		return status.Errorf(codes.NotFound, "Service %s.%s not found", service.Name, service.Namespace)
	case federation.NoRemoteService:
		return status.Errorf(codes.FailedPrecondition,
			"Remote discovery service missing remote service name %s", st.name())
	case federation.NotLinked:
		return status.Errorf(codes.NotFound, "Remote cluster not found: %s", set.Cluster)
	case federation.External:
		return invalidAuthority(st.name())
	case federation.TooManyPorts:
		return status.Errorf(codes.ResourceExhausted,
			"%s: clients already use the maximum of %d undeclared ports of Service %s.%s: "+
				"declare the port in the Service",
			st.name(), federation.MaxUndeclaredPorts, service.Name, service.Namespace)
	case federation.Unknown:
		return status.Errorf(codes.Unavailable,
			"%s: the endpoints are unknown because a cluster has not synced", st.name())
	}
	return nil
}

// first implements producer.
func (st *getStream) first() []*wire.Frame {
	st.view.markServed()
	return st.step(nil, st.sent, false)
}

// next implements producer.
func (st *getStream) next(ctx context.Context) ([]*wire.Frame, error) {
	if st.isUpdate {
		st.server.metrics.propagation.observe(st.sent)
	}
	for {
		select {
		case <-st.done:
			return nil, st.endError(ctx)
		case <-st.emptyTimeout():
		case <-st.replaced:
		case <-st.otherTiers:
			st.otherTiers = nil // closed; tiersChanged sets the next channel
		case <-st.zoneChanged:
			st.updateZone()
		}
		if !st.pause() || !st.takeTurn() {
			return nil, st.endError(ctx)
		}
		if frames := st.produce(); len(frames) > 0 {
			return frames, nil
		}
	}
}

// produce returns the messages, if any, that bring the proxy up to date with the newest set. The
// stream's turn ends even if a panic occurs while the messages are encoded.
func (st *getStream) produce() []*wire.Frame {
	defer st.endTurn()
	st.heldBack = false // if newest has no set yet, another set follows
	set, replaced, ok := st.newest()
	st.replaced = replaced
	if !ok {
		return nil
	}
	isUpdate := set != st.sent && !st.viewChanged
	frames := st.advance(set)
	if len(frames) > 0 {
		st.isUpdate = isUpdate
	}
	return frames
}

// advance returns the messages, if any, that bring the proxy up to date with the given set, and
// stores the set as the last one sent.
//
// While a cluster is pending, an empty set is held back for up to Options.FirstFrame, because the
// pending cluster may have endpoints. Once this time has elapsed, the empty set is sent, because
// the proxy must not use outdated endpoints for long.
func (st *getStream) advance(set *federation.Set) []*wire.Frame {
	all := st.tiersChanged(set) || st.view.key.Client.Zone != st.sentZone
	if set == st.sent && !all {
		return nil
	}
	switch {
	case len(set.Endpoints) > 0 || set.Complete:
		st.emptySince = 0
	case st.emptySince == 0:
		st.emptySince = st.server.now()
		st.heldBack = true
		return nil
	case st.emptyFor() < st.server.opts.FirstFrame:
		st.heldBack = true
		return nil
	}
	return st.step(st.sent, set, all)
}

func (st *getStream) emptyFor() time.Duration { return time.Duration(st.server.now() - st.emptySince) }

// step returns the messages that take a proxy from the first set to the second, and stores the
// second set as the last one sent. The first set is nil if the proxy has not received a set yet. If
// the last argument is true, the messages contain every endpoint of the second set, including the
// endpoints that have not changed.
func (st *getStream) step(from, to *federation.Set, all bool) []*wire.Frame {
	st.sent = to
	st.sentZone = st.view.key.Client.Zone
	st.viewChanged = false
	st.heldSet.Store(to)
	switch {
	case st.explains:
		st.tiers, st.otherTiers = to.Tiers()
		st.setAlone(costOfSet(to))
		return st.view.messagesFor(st.view.enc.Explaining(st.tiers), from, to, all)
	case from != nil && from.Hinted && !to.Hinted && len(to.Endpoints) >= manyEndpoints:
		return st.view.messagesAfterHints(from, to)
	default:
		return st.view.messages(from, to, all)
	}
}

// tiersChanged reports whether the tiers of the set's endpoints have changed since the endpoints
// were sent. For clients that do not request tiers, the result is false.
func (st *getStream) tiersChanged(set *federation.Set) bool {
	if !st.explains {
		return false
	}
	var now federation.Tiers
	now, st.otherTiers = set.Tiers()
	return now != st.tiers
}

// emptyTimeout returns a channel that receives a value when an empty set has been held back for
// long enough. If no set is held back, the channel is nil.
func (st *getStream) emptyTimeout() <-chan time.Time {
	if !st.heldBack {
		return nil
	}
	return st.after(max(0, st.server.opts.FirstFrame-st.emptyFor()))
}

// newest returns the newest set for the client, from the view for the client's current key. If ok
// is false, the traffic policy of the service is changing, so the set must not be sent. Another set
// follows soon.
//
// If the client's node is known, the client's stream can use either of two views: the node's view,
// whose key contains the node, and the shared view, whose key contains no node. The newest set of a
// view says whether the client's stream should switch to the other view. If the newest set of each
// view says that the stream should switch, newest returns the set of the node's view. The two views
// can contradict each other if the set of one view is outdated, or if clients of the two views use
// different tiers.
func (st *getStream) newest() (set *federation.Set, replaced <-chan struct{}, ok bool) {
	for moves := 0; ; moves++ { // counts the switches between the views with and without a node
		set, replaced = st.view.get()
		byNode := st.view.key.Client.Node != ""
		node := st.client.Node
		if node == "" || (set.ByNode || set.HintedTo(node)) == byNode {
			return set, replaced, true
		}
		if byNode && moves >= 2 {
			return set, replaced, true // this set is correct too
		}
		st.hinted = set.HintedTo(node)
		if !st.switchView() {
			return set, replaced, false
		}
	}
}

func (st *getStream) updateZone() {
	if st.client.Node != "" {
		st.client.Zone, st.zoneChanged = st.server.dir.Zone(st.client.Node)
	}
	st.switchView()
}

// switchView switches to the view for the client's current key. If the view stays the same,
// switchView returns false.
func (st *getStream) switchView() bool {
	key := st.server.table.Key(st.target.service, st.target.port, st.client)
	if st.hinted {
		key.Client.Node = st.client.Node
	}
	old := st.view
	if old != nil {
		if old.key == key {
			return false
		}
		st.viewChanged = true
		defer st.server.getViews.release(old) // after the new watch has started
	}
	st.view = st.server.getViews.acquire(key)
	st.viewFits, st.viewCost = st.view.startWatch(st.server.table.Watch, st.server.viewMemory, costOfSet)
	if set, _ := st.view.get(); set.Reason == federation.TooManyPorts {
		// A set with the reason TooManyPorts never changes, even if clients stop using other
		// undeclared ports. If the view of such a set stayed in the cache, new streams with the
		// same key would always be refused. After the view has been removed from the cache, the
		// next stream with the same key requests a new set from the table.
		st.server.getViews.forget(st.view)
	}
	st.usedView.Store(st.view)
	return true
}

func (st *getStream) stalled() {
	if st.end(statusStalled) {
		m := st.server.metrics
		m.stalled.Inc()
		m.getOverflow.inc(st.target.service, st.name())
		st.server.log.Warn("stream ended: its proxy did not read updates", zap.String("service", st.name()))
		st.server.opts.Stalled(st.name())
	}
}

// close implements producer.
func (st *getStream) close() {
	if st.view != nil {
		st.server.getViews.release(st.view)
	}
	st.stream.close()
}

func (st *getStream) name() string { return st.target.authority(st.server.opts.ClusterDomain) }
