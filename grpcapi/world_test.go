package grpcapi

import (
	"context"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	pb "github.com/linkerd/linkerd2-proxy-api/go/destination"
	"go.uber.org/zap/zaptest"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"isthmus/federation"
	"isthmus/grpcapi/internal/wiretest"
	"isthmus/grpcapi/wire"
)

// world is a server, and everything that it looks at.
type world struct {
	table    *federation.Table
	clusters map[federation.ClusterName]*cluster
	nodes    *nodes
	told     *destinations
	server   *Server
}

var web = wiretest.Web

const webAddr = "web.shop.svc.cluster.local:80"

// newWorld has the local cluster, east and north, all ready, and web, federated
// over them.
func newWorld(t testing.TB, o Options) *world {
	t.Helper()
	if o.Log == nil {
		o.Log = zaptest.NewLogger(t)
	}
	w := &world{
		table:    federation.NewTable(federation.Options{IPv6: true}),
		clusters: make(map[federation.ClusterName]*cluster),
		nodes:    &nodes{zones: make(map[string]*federation.Latest[string])},
		told:     &destinations{all: make(map[federation.ProfileKey]*destination)},
	}
	for _, c := range []federation.ClusterName{federation.Local, "east", "north"} {
		w.clusters[c] = &cluster{shares: make(map[federation.ServiceID]federation.Share)}
		w.link(c, federation.Ready)
	}
	w.define(true, federation.Local, "east", "north")
	var err error
	if w.server, err = New(w.table, directory{w.nodes, w.told}, o); err != nil {
		t.Fatal(err)
	}
	if bubble := time.Now().Year() < 2020; bubble {
		t.Cleanup(func() { time.Sleep(2 * workerLinger) }) // workers have to end before their bubble
	}
	return w
}

// define makes web a service with these members.
func (w *world) define(federated bool, clusters ...federation.ClusterName) {
	d := &federation.Definition{Federated: federated}
	for _, c := range clusters {
		d.Members = append(d.Members, federation.Member{Cluster: c, Service: web})
	}
	w.table.Define(web, d)
}

func (w *world) link(c federation.ClusterName, s federation.LinkState) {
	if s == federation.Ready {
		w.table.Link(c, s, w.clusters[c])
	} else {
		w.table.Link(c, s, nil)
	}
}

// offer makes these the endpoints of web in a cluster.
func (w *world) offer(c federation.ClusterName, eps ...*federation.Endpoint) {
	w.share(c, federation.Share{State: federation.Present, Slices: []*federation.Slice{sliceOf(c, eps...)}})
}

func (w *world) share(c federation.ClusterName, s federation.Share) {
	w.clusters[c].put(web, s)
	w.table.Changed(c, web, time.Now())
}

func sliceOf(c federation.ClusterName, eps ...*federation.Endpoint) *federation.Slice {
	s := &federation.Slice{}
	for _, e := range eps {
		e := *e
		e.Cluster = c
		s.Endpoints = append(s.Endpoints, &e)
	}
	slices.SortFunc(s.Endpoints, func(a, b *federation.Endpoint) int { return a.Addr.Compare(b.Addr) })
	return s
}

// pod is a meshed pod's endpoint.
func pod(addr string) *federation.Endpoint {
	return &federation.Endpoint{
		Addr: netip.MustParseAddrPort(addr), Kind: federation.Pod, Twin: "shop/" + addr,
		Group:  []federation.Label{{Name: "namespace", Value: "shop"}, {Name: "service", Value: "web"}},
		Labels: []federation.Label{{Name: "pod", Value: "web-" + addr}},
		Meshed: true, InboundPort: 4143,
	}
}

func pods(addrs ...string) []*federation.Endpoint {
	var list []*federation.Endpoint
	for _, a := range addrs {
		list = append(list, pod(a))
	}
	return list
}

// cluster is a federation.Source.
type cluster struct {
	mu     sync.Mutex
	shares map[federation.ServiceID]federation.Share
}

func (c *cluster) put(id federation.ServiceID, s federation.Share) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.shares[id] = s
}

func (c *cluster) State(id federation.ServiceID) federation.ServiceState { return c.read(id).State }

func (c *cluster) Reader(id federation.ServiceID, _ uint16) federation.Reader {
	return reader{c, id}
}

func (c *cluster) read(id federation.ServiceID) federation.Share {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.shares[id]
}

type reader struct {
	c  *cluster
	id federation.ServiceID
}

func (r reader) Read() federation.Share { return r.c.read(r.id) }

// directory is a Directory.
type directory struct {
	*nodes
	*destinations
}

// nodes know their zones.
type nodes struct {
	mu     sync.Mutex
	zones  map[string]*federation.Latest[string]
	cursed string
}

func (n *nodes) node(name string) *federation.Latest[string] {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.zones[name] == nil {
		n.zones[name] = &federation.Latest[string]{}
	}
	return n.zones[name]
}

// Zone panics for the cursed node.
func (n *nodes) Zone(node string) (string, <-chan struct{}) {
	l := n.node(node)
	n.mu.Lock()
	defer n.mu.Unlock()
	if node == n.cursed {
		panic("cursed node")
	}
	return l.Get()
}

func (n *nodes) curse(node string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cursed = node
}

func (n *nodes) move(node, zone string) { n.node(node).Set(zone) }

// caller is a proxy without a network: the transport of its stream, and what came
// out of it.
type caller struct {
	ctx    context.Context
	cancel context.CancelFunc
	done   chan struct{} // closed when the handler has returned
	err    error         // its result

	profile bool          // a GetProfile, not a Get
	gate    chan struct{} // nil: messages are taken at once; else one per value, all once it is closed

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
		return serve(c.ctx, w.server.newProfile(token{Namespace: namespace}.of(key), c, c))
	}, with)
}

// serve serves a stream whose request has been received.
func serve(ctx context.Context, src source) error {
	return src.common().server.serve(ctx, func() (source, error) { return src, nil })
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
