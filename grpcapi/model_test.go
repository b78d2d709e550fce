package grpcapi

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	pb "github.com/linkerd/linkerd2-proxy-api/go/destination"

	"isthmus/federation"
	"isthmus/grpcapi/internal/wiretest"
	"isthmus/grpcapi/wire"
)

// TestModelProxy lets proxies receive a service while everything happens to it that
// can. Some are slow, some hang up again and again, and some ask for ports that are
// declared now and then. Each must end up with what the
// table publishes, and must never have lost an endpoint that was published all the
// time.
func TestModelProxy(t *testing.T) {
	seeds, o := uint64(60), Options{TargetClusterLabel: true}
	switch {
	case raceEnabled:
		// Functions that timers call in a bubble now and then crash Go's
		// race detector itself (Go 1.26): do without them here.
		seeds, o.Linger, o.Stall = 10, -1, 1000*time.Hour
	case testing.Short():
		seeds = 20
	}
	for seed := range seeds {
		synctest.Test(t, func(t *testing.T) {
			m := &model{world: newWorld(t, o), rand: rand.New(rand.NewPCG(seed, 1))}
			m.run(t)
			if t.Failed() {
				t.Logf("seed %d:\n%s", seed, strings.Join(m.log, "\n"))
			}
		})
		if t.Failed() {
			return
		}
	}
}

type model struct {
	*world
	rand    *rand.Rand
	log     []string
	clients []*client
}

// client is a proxy, with its connection.
type client struct {
	port  uint16
	node  string
	delay time.Duration // before it takes a message
	life  time.Duration // of one stream; zero: for ever

	mu     sync.Mutex
	proxy  wiretest.Proxy
	live   bool                          // a first message has come since it opened its stream
	since  []map[netip.AddrPort]struct{} // its endpoints after each message since the mark
	stable map[netip.AddrPort]struct{}   // what the table has published for it all the time since the mark
}

func (m *model) run(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	m.clients = []*client{
		{node: "n1"}, {node: "n2", delay: 20 * time.Millisecond}, {node: "n1", delay: 90 * time.Millisecond},
		{life: 130 * time.Millisecond}, {node: "n2", life: 700 * time.Millisecond, delay: 5 * time.Millisecond}, {node: "n3"},
		{port: 1000}, {port: 1000, node: "n1", delay: 90 * time.Millisecond}, {port: oddPort, node: "n2", life: 700 * time.Millisecond},
	}
	for _, c := range m.clients {
		c.port = cmp.Or(c.port, 80)
	}
	for c := range m.clusters {
		m.declare(c, 80)
	}
	for _, c := range m.clients {
		wg.Go(func() { m.stream(ctx, c) })
	}
	for range 6 {
		m.converge(t)
		for range 1 + m.rand.IntN(8) {
			m.change()
			synctest.Wait()
			m.narrow()
			time.Sleep(time.Duration(m.rand.IntN(80)) * time.Millisecond)
		}
		m.check(t)
	}
	for _, c := range []federation.ClusterName{"", "east", "north"} {
		m.link(c, federation.Ready)
		m.narrow()
	}
	m.define(true, "", "east", "north")
	m.narrow()
	m.offer("north", pods("10.9.9.9:80")...)
	m.narrow()
	m.converge(t)
	for i, c := range m.clients {
		if !c.live || len(c.proxy.Endpoints) == 0 {
			t.Errorf("client %d has nothing at the end", i)
		}
	}
	cancel()
	wg.Wait()
}

// stream keeps one stream after the other open.
func (m *model) stream(ctx context.Context, c *client) {
	for ctx.Err() == nil {
		c.mu.Lock()
		c.proxy.Reopen()
		c.live = false
		c.mu.Unlock()
		life, stop := context.WithCancel(ctx)
		if c.life > 0 {
			// Not context.WithTimeout, for the same reason.
			go func() {
				select {
				case <-time.After(c.life):
					stop()
				case <-life.Done():
				}
			}()
		}
		conn := &connection{ctx: life, client: c}
		st := m.server.newGet(target{service: web, port: c.port}, token{Node: c.node}, conn, &caller{cancel: stop})
		_ = serve(life, st) // refused, or hung up
		stop()
		select {
		case <-ctx.Done():
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// connection brings messages to a client.
type connection struct {
	ctx    context.Context
	client *client
}

func (w *connection) SendMsg(msg any) error {
	c := w.client
	select {
	case <-w.ctx.Done():
		return w.ctx.Err()
	case <-time.After(c.delay):
	}
	u := &pb.Update{}
	if err := wiretest.Unmarshal(wire.NewCodec(), msg, u); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.proxy.Apply(u)
	c.live = true
	now := make(map[netip.AddrPort]struct{})
	for a := range c.proxy.Endpoints {
		now[a] = struct{}{}
	}
	c.since = append(c.since, now)
	return nil
}

// change does one random thing.
func (m *model) change() {
	all := []federation.ClusterName{"", "east", "north"}
	c := all[m.rand.IntN(3)]
	switch n := m.rand.IntN(24); {
	case n >= 20:
		ports := [][]uint16{{80}, {80, 1000}, {80, oddPort}, {1000}}[m.rand.IntN(4)]
		m.note("declare %v %v", c, ports)
		m.declare(c, ports...)
	case n < 9:
		eps := m.endpoints()
		m.note("offer %v %d", c, len(eps))
		m.offer(c, eps...)
	case n < 11:
		s := federation.Share{State: federation.ServiceState(m.rand.IntN(3)), NodeLocal: m.rand.IntN(2) == 0}
		s.Slices = []*federation.Slice{sliceOf(c, m.endpoints()...), sliceOf(c, m.endpoints()...)}
		m.note("share %v state=%v local=%v", c, s.State, s.NodeLocal)
		m.share(c, s)
	case n < 14:
		s := federation.LinkState(m.rand.IntN(4))
		m.note("link %v %v", c, s)
		m.link(c, s)
	case n < 16:
		node, zone := fmt.Sprintf("n%d", 1+m.rand.IntN(3)), []string{"", "a", "b"}[m.rand.IntN(3)]
		m.note("node %v in %v", node, zone)
		m.nodes.move(node, zone)
	case n < 17:
		m.note("undefine")
		m.table.Define(web, nil)
	case n < 18:
		m.note("mirror of %v", c)
		m.define(false, c)
	default:
		m.rand.Shuffle(3, func(i, j int) { all[i], all[j] = all[j], all[i] })
		all = all[:1+m.rand.IntN(3)]
		m.note("federated %v", all)
		m.define(true, all...)
	}
}

func (m *model) note(format string, args ...any) { m.log = append(m.log, fmt.Sprintf(format, args...)) }

// endpoints returns some of a few addresses, with a few different descriptions.
func (m *model) endpoints() []*federation.Endpoint {
	var list []*federation.Endpoint
	hinted := m.rand.IntN(3) == 0
	for i := range 6 {
		if m.rand.IntN(2) == 0 {
			continue
		}
		e := pod(fmt.Sprintf("10.0.0.%d:80", i))
		e.Opaque = m.rand.IntN(4) == 0
		e.Zone = []string{"", "a", "b"}[m.rand.IntN(3)]
		e.Node = fmt.Sprintf("n%d", 1+m.rand.IntN(3))
		if hinted {
			e.Hints = &federation.Hints{[]string{"a", "b"}[m.rand.IntN(2)]}
		}
		list = append(list, e)
	}
	return list
}

// published returns what the table publishes for a client now.
func (m *model) published(c *client) (*federation.Set, federation.Key) {
	client := federation.Client{Node: c.node}
	if c.node != "" {
		client.Zone, _ = m.nodes.Zone(c.node)
	}
	exact := func() federation.Key {
		key := m.table.Key(web, c.port, client)
		key.Port = c.port // also if it shares the view of any port
		return key
	}
	for {
		key := exact()
		w := m.table.Watch(key)
		set, _ := w.Get()
		again := exact()
		w.Close()
		if key == again {
			return set, key
		}
	}
}

// narrow removes from the stable endpoints what the table does not publish any more.
func (m *model) narrow() {
	for _, c := range m.clients {
		set, _ := m.published(c)
		has := make(map[netip.AddrPort]struct{})
		for _, e := range set.Endpoints {
			has[e.Addr] = struct{}{}
		}
		c.mu.Lock()
		for a := range c.stable {
			if _, ok := has[a]; !ok {
				delete(c.stable, a)
			}
		}
		c.mu.Unlock()
	}
}

// converge gives the clients time, and compares them with the table. It sets the
// mark.
func (m *model) converge(t *testing.T) {
	time.Sleep(5 * time.Second)
	for _, c := range m.clients { // one that hangs up often may just be opening its stream
		for range 1000 {
			synctest.Wait()
			c.mu.Lock()
			live := c.live
			c.mu.Unlock()
			if live || c.life == 0 {
				break
			}
			time.Sleep(time.Millisecond)
		}
	}
	m.check(t)
	for i, c := range m.clients {
		set, key := m.published(c)
		c.mu.Lock()
		if unknown := len(set.Endpoints) == 0 && (!set.Complete || set.Reason == federation.Unknown); c.live && !unknown {
			var want wiretest.Proxy
			for _, u := range wiretest.Decode(t, wire.NewCodec(), m.server.getViews.create(key).fullFrames(set)) {
				want.Apply(u)
			}
			if !c.proxy.Equal(&want) {
				t.Errorf("client %d has %v (exists: %v), the table %v (exists: %v)", i, c.proxy.Endpoints, c.proxy.Exists, want.Endpoints, want.Exists)
			}
		}
		c.since, c.stable = nil, make(map[netip.AddrPort]struct{})
		for _, e := range set.Endpoints {
			if _, ok := c.proxy.Endpoints[e.Addr]; ok {
				c.stable[e.Addr] = struct{}{}
			}
		}
		c.mu.Unlock()
	}
	m.note("-- mark")
}

// check checks what has happened since the mark.
func (m *model) check(t *testing.T) {
	synctest.Wait()
	for i, c := range m.clients {
		c.mu.Lock()
		for a := range c.stable {
			if at := slices.IndexFunc(c.since, func(has map[netip.AddrPort]struct{}) bool { _, ok := has[a]; return !ok }); at >= 0 {
				t.Errorf("client %d lost %v after message %d, which was there all the time", i, a, at)
			}
		}
		if len(c.proxy.Faults) > 0 {
			t.Errorf("client %d: %v", i, c.proxy.Faults)
		}
		c.mu.Unlock()
	}
}

// raceEnabled reports whether the race detector is on.
var raceEnabled = func() bool {
	info, _ := debug.ReadBuildInfo()
	return slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}()
