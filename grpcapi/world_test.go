package grpcapi

import (
	"context"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	pb "github.com/linkerd/linkerd2-proxy-api/go/destination"
	"go.uber.org/zap/zaptest"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"isthmus/federation"
	"isthmus/grpcapi/internal/wiretest"
	"isthmus/grpcapi/wire"
)

// world is a server with a table and a directory.
type world struct {
	table    *federation.Table
	clusters map[federation.ClusterName]*cluster
	nodes    *nodes
	profiles *destinations
	server   *Server
}

var web = wiretest.Web

const webAddr = "web.shop.svc.cluster.local:80"

// newWorld returns a world in which the local cluster, east and north are ready, and web is
// federated over them.
func newWorld(t testing.TB, o Options) *world {
	t.Helper()
	if o.Log == nil {
		o.Log = zaptest.NewLogger(t)
	}
	w := &world{
		table:    federation.NewTable(federation.Options{IPv6: true}),
		clusters: make(map[federation.ClusterName]*cluster),
		nodes:    &nodes{zones: make(map[string]*federation.Latest[string])},
		profiles: &destinations{all: make(map[federation.ProfileKey]*destination)},
	}
	for _, c := range []federation.ClusterName{federation.Local, "east", "north"} {
		w.clusters[c] = &cluster{shares: make(map[federation.ServiceID]federation.Share)}
		w.link(c, federation.Ready)
	}
	w.define(true, federation.Local, "east", "north")
	var err error
	if w.server, err = New(w.table, directory{w.nodes, w.profiles}, o); err != nil {
		t.Fatal(err)
	}
	return w
}

// define defines web with the given members.
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

// offer sets the endpoints of web in a cluster.
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

// pod returns the endpoint of a meshed Pod.
func pod(addr string) *federation.Endpoint {
	return &federation.Endpoint{
		Addr: netip.MustParseAddrPort(addr), Kind: federation.Pod, Twin: "shop/web-" + addr,
		Common: &federation.Common{
			Group: []federation.Label{{Name: "namespace", Value: "shop"}, {Name: "service", Value: "web"}},
		},
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
	mu       sync.Mutex
	shares   map[federation.ServiceID]federation.Share
	declared []uint16 // the ports of all services; if nil, shares apply to any port
}

func (c *cluster) put(id federation.ServiceID, s federation.Share) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.shares[id] = s
}

func (c *cluster) State(id federation.ServiceID) federation.ServiceState { return c.read(id).State }

func (c *cluster) Reader(id federation.ServiceID, port uint16) federation.Reader {
	return reader{c, id, port}
}

// declare sets the declared ports of all services.
func (w *world) declare(c federation.ClusterName, ports ...uint16) {
	to := w.clusters[c]
	to.mu.Lock()
	to.declared = ports
	to.mu.Unlock()
	w.table.Changed(c, web, time.Now())
}

// Declares reports whether a Service declares the port.
func (c *cluster) Declares(id federation.ServiceID, port uint16) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.shares[id].State == federation.Present && (c.declared == nil || slices.Contains(c.declared, port))
}

// at returns the share of a port. The share's endpoints have port 80 if the port is declared, and
// otherwise the given port.
func (c *cluster) at(s federation.Share, id federation.ServiceID, port uint16) federation.Share {
	if s.State != federation.Present || c.Declares(id, port) {
		return s
	}
	s.Undeclared = true
	var all []*federation.Slice
	for _, old := range s.Slices {
		now := &federation.Slice{}
		for _, e := range old.Endpoints {
			at := *e
			at.Addr = netip.AddrPortFrom(e.Addr.Addr(), port)
			now.Endpoints = append(now.Endpoints, &at)
		}
		all = append(all, now)
	}
	s.Slices = all
	return s
}

func (c *cluster) read(id federation.ServiceID) federation.Share {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.shares[id]
}

type reader struct {
	c    *cluster
	id   federation.ServiceID
	port uint16
}

func (r reader) Read() federation.Share { return r.c.at(r.c.read(r.id), r.id, r.port) }

type directory struct {
	*nodes
	*destinations
}

// nodes stores the zone of each node.
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

// destinations holds the profiles of a Directory. By default, services do not exist and addresses
// are not assigned to a known object.
type destinations struct {
	mu     sync.Mutex
	all    map[federation.ProfileKey]*destination
	cursed federation.ProfileKey
}

type destination struct {
	federation.Latest[*federation.Profile]
	watches int // number of open watches
	opened  int // number of watches ever opened
}

func (d *destinations) at(k federation.ProfileKey) *destination {
	if d.all[k] == nil {
		p := &federation.Profile{Reason: federation.NoService}
		if k.Addr.IsValid() {
			p = &federation.Profile{Endpoint: &federation.Endpoint{Addr: k.Addr}}
		}
		d.all[k] = &destination{}
		d.all[k].Set(p)
	}
	return d.all[k]
}

// Profile panics for the cursed destination.
func (d *destinations) Profile(k federation.ProfileKey) *federation.Watch[*federation.Profile] {
	d.mu.Lock()
	defer d.mu.Unlock()
	if k == d.cursed {
		panic("cursed destination")
	}
	x := d.at(k)
	x.watches++
	x.opened++
	return federation.NewWatch(&x.Latest, func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		x.watches--
	})
}

// put publishes a profile of a destination.
func (d *destinations) put(k federation.ProfileKey, p *federation.Profile) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.at(k).Set(p)
}

// open returns the number of open watches.
func (d *destinations) open() (n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, x := range d.all {
		n += x.watches
	}
	return n
}

var webKey = federation.ProfileKey{Service: web, Port: 80}

// with returns a changed copy of a profile.
func with(p *federation.Profile, change func(*federation.Profile)) *federation.Profile {
	p = new(*p)
	change(p)
	return p
}

func opaque(p *federation.Profile) { p.Opaque = true }

func rejected(p *federation.Profile) { p.Rejected, p.Routes = true, nil }

func endpointProfile(e *federation.Endpoint) *federation.Profile {
	return &federation.Profile{Endpoint: e}
}

// profileViews checks the numbers of all profile views and of idle ones, and that each has one
// watch.
func (w *world) profileViews(t *testing.T, all, idle int) {
	t.Helper()
	synctest.Wait()
	if a, i, _ := w.server.profileViews.count(); a != all || i != idle {
		t.Fatalf("%d views, %d of them idle; want %d, %d", a, i, all, idle)
	}
	if n := w.profiles.open(); n != all {
		t.Fatalf("%d watches, want %d", n, all)
	}
}

func addrKey(addr string) federation.ProfileKey {
	return federation.ProfileKey{Addr: netip.MustParseAddrPort(addr)}
}

// lines formats messages.
func lines(messages []received) string {
	var all []string
	for _, m := range messages {
		if m.profile != nil {
			all = append(all, wiretest.ProfileLine(m.profile))
		} else {
			all = append(all, wiretest.Line(m.update))
		}
	}
	return strings.Join(all, "; ")
}

// caller is a proxy without a network. A caller is the transport of its stream and stores the
// received messages.
type caller struct {
	ctx    context.Context
	cancel context.CancelFunc
	done   chan struct{} // closed when the handler has returned
	err    error         // returned by the handler

	profile  bool          // whether the call is a GetProfile
	explains bool          // whether a Get has the metadata that requests tiers
	gate     chan struct{} // if nil, messages are received at once; otherwise, one per value, and all once closed

	mu       sync.Mutex
	messages []received
	status   *status.Status // set by WriteStatus
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
		st := newGetStream(w.server, to, token{Node: node}, c, c)
		st.explains = c.explains
		return serve(c.ctx, st)
	}, with)
}

// getProfile opens a GetProfile stream and returns at once.
func (w *world) getProfile(authority, namespace string, with ...func(*caller)) *caller {
	return newCaller(func(c *caller) error {
		c.profile = true
		key, err := parseDestination(authority, w.server.opts.ClusterDomain)
		if err != nil {
			return err
		}
		return serve(c.ctx, newProfileStream(w.server, token{Namespace: namespace}.addNamespace(key), c, c))
	}, with)
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

// gated makes a stream read one message for each value sent to the gate.
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

// hangUp ends the stream like its client, and waits for the handler.
func (c *caller) hangUp() {
	c.cancel()
	<-c.done
}
