package grpcapi

import (
	"context"
	"sync"
	"time"

	pb "github.com/linkerd/linkerd2-proxy-api/go/destination"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"isthmus/grpcapi/internal/wiretest"
	"isthmus/grpcapi/wire"
)

// caller is a proxy without a network: the transport of its stream, and the messages
// that it has received.
type caller struct {
	ctx    context.Context
	cancel context.CancelFunc
	done   chan struct{} // closed when the handler has returned
	err    error         // its result

	profile  bool          // a GetProfile, not a Get
	explains bool          // of a Get: it has the metadata that asks for tiers
	gate     chan struct{} // nil: messages are taken at once; else one per value, all once it is closed

	mu       sync.Mutex
	messages []received
	status   *status.Status // written from outside
}

// received is an update of a Get, or a profile of a GetProfile.
type received struct {
	update  *pb.Update
	profile *pb.DestinationProfile
	frame   *wire.Frame
	at      time.Time
}

// get opens a stream and returns at once. node may be empty.
func (w *world) get(authority, node string, with ...func(*caller)) *caller {
	return newCaller(func(c *caller) error {
		to, err := parseAuthority(authority, w.server.opts.ClusterDomain)
		if err != nil {
			return err
		}
		st := w.server.newGet(to, token{Node: node}, c, c)
		st.explains = c.explains
		return serve(c.ctx, st)
	}, with)
}

// getProfile opens a GetProfile stream likewise.
func (w *world) getProfile(authority, namespace string, with ...func(*caller)) *caller {
	return newCaller(func(c *caller) error {
		c.profile = true
		key, err := parseDestination(authority, w.server.opts.ClusterDomain)
		if err != nil {
			return err
		}
		return serve(c.ctx, w.server.newProfile(token{Namespace: namespace}.addNamespace(key), c, c))
	}, with)
}

// serve serves a stream whose request has been received.
func serve(ctx context.Context, p producer) error {
	return p.common().server.serve(ctx, p)
}

func newCaller(run func(*caller) error, with []func(*caller)) *caller {
	ctx, cancel := context.WithCancel(context.Background())
	c := &caller{ctx: ctx, cancel: cancel, done: make(chan struct{})}
	for _, f := range with {
		f(c)
	}
	go func() {
		defer close(c.done)
		c.err = run(c)
	}()
	return c
}

// gated streams take a message for each value that is sent to the gate.
func gated(c *caller) { c.gate = make(chan struct{}) }

func (c *caller) SendMsg(m any) error {
	if c.gate != nil {
		select {
		case <-c.gate:
		case <-c.ctx.Done():
			return c.ctx.Err()
		}
	}
	f := m.(*wire.Frame)
	r := received{update: &pb.Update{}, frame: f, at: time.Now()}
	var to proto.Message = r.update
	if c.profile {
		r.update, r.profile = nil, &pb.DestinationProfile{}
		to = r.profile
	}
	if err := wiretest.Unmarshal(wire.NewCodec(), f, to); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.messages = append(c.messages, r)
	return nil
}

func (c *caller) WriteStatus(s *status.Status) error {
	c.mu.Lock()
	c.status = s
	c.mu.Unlock()
	c.cancel()
	return nil
}

// take returns the messages since the last take.
func (c *caller) take() []received {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := c.messages
	c.messages = nil
	return m
}

// hangUp ends the stream as its client and waits.
func (c *caller) hangUp() {
	c.cancel()
	<-c.done
}
