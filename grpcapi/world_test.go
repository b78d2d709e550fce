package grpcapi

import (
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap/zaptest"

	"isthmus/federation"
	"isthmus/grpcapi/internal/wiretest"
)

// world is a server, with its table and its directory.
type world struct {
	table    *federation.Table
	clusters map[federation.ClusterName]*cluster
	nodes    *nodes
	profiles *destinations
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
		Addr: netip.MustParseAddrPort(addr), Kind: federation.Pod, Twin: "shop/web-" + addr,
		Common: &federation.Common{Group: []federation.Label{{Name: "namespace", Value: "shop"}, {Name: "service", Value: "web"}}},
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
	declared []uint16 // the ports of all services; nil: the shares are for any port as they are
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

// declare sets the ports of all services.
func (w *world) declare(c federation.ClusterName, ports ...uint16) {
	to := w.clusters[c]
	to.mu.Lock()
	to.declared = ports
	to.mu.Unlock()
	w.table.Changed(c, web, time.Now())
}

// Declares reports whether there is a Service that declares the port.
func (c *cluster) Declares(id federation.ServiceID, port uint16) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.shares[id].State == federation.Present && (c.declared == nil || slices.Contains(c.declared, port))
}

// at returns the share at a port. Its endpoints have the port 80 if it is declared, and
// else the one asked for.
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
