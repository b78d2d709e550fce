package sim

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"isthmus/e2e/harness/kube"
	"isthmus/e2e/proxy"
)

// client is a proxy with one subscription, which it opens again whenever it ends.
type client struct {
	// fixed
	kind    proxy.Kind
	service string // it asks for
	zone    string // it is in
	stream  *proxy.Stream

	wanted  atomic.Bool // it should be open
	stalled bool
	held    []netip.AddrPort // when it was last right, of those on offer that it must always hold
	marked  bool             // it was open then
	faults  int              // of the stream's that are known
}

// clients are all clients, on some connections.
type clients struct {
	addr  string // of the gateway
	all   []*client
	links []*proxy.Exchange
	opens atomic.Int64
	keep  sync.WaitGroup
}

// connect returns clients, none so far, with connections for them.
func connect(addr string, connections int) (*clients, error) {
	cs := &clients{addr: addr}
	for range connections {
		conn, err := proxy.Dial(addr)
		if err != nil {
			return nil, errors.Join(err, cs.close())
		}
		link := &proxy.Exchange{}
		link.Set(conn)
		cs.links = append(cs.links, link)
	}
	return cs, nil
}

// cut ends a connection and all streams on it. A new one takes its place.
func (cs *clients) cut(i int) error {
	fresh, err := proxy.Dial(cs.addr)
	if err != nil {
		return err
	}
	return cs.links[i].Set(fresh).Close()
}

// newClients makes clients of any services and zones, none of them open.
func newClients(w *world, addr string) (*clients, error) {
	cs, err := connect(addr, max(1, w.cfg.Clients/20))
	if err != nil {
		return nil, err
	}
	for i := range w.cfg.Clients {
		kind, node := proxy.Get, pick(w, []string{"", "node-1", "node-2", "node-3"})
		if w.chance(5) {
			kind = proxy.GetProfile
		}
		cs.all = append(cs.all, newClient(cs.links[i%len(cs.links)], kind, anyAuthority(w), node, w.zones[node]))
	}
	return cs, nil
}

func newClient(conn *proxy.Exchange, kind proxy.Kind, service, node, zone string) *client {
	return &client{kind: kind, service: service, zone: zone, stream: proxy.NewStream(proxy.Config{
		Conn:      conn,
		Kind:      kind,
		Authority: fmt.Sprintf("%s:%d", fullName(service), kube.ServicePort),
		Token:     fmt.Sprintf(`{"ns":%q,"nodeName":%q}`, namespace, node),
	})}
}

// anyAuthority returns the name of a Service to subscribe to.
func anyAuthority(w *world) string {
	s := pick(w, w.services)
	switch n := w.rng.IntN(10); {
	case n < 6:
		return federatedName(s)
	case n < 8:
		return s
	}
	return mirrorName(s, pick(w, mirrored(w, s)))
}

func (c *client) view() view { return view{c.service, c.zone} }

// base is the service that a client's Service is made of.
func (c *client) base() string {
	s, _, _ := strings.Cut(c.service, "-")
	return s
}

// start opens all clients, which are then kept open until ctx ends.
func (cs *clients) start(ctx context.Context) {
	for _, c := range cs.all {
		c.wanted.Store(true)
		cs.keep.Go(func() { cs.hold(ctx, c) })
	}
}

// hold opens the stream again when it has ended, as proxies do: soon, and then less and less often.
func (cs *clients) hold(ctx context.Context, c *client) {
	const least, most = 20 * time.Millisecond, 200 * time.Millisecond
	pause := least
	for ctx.Err() == nil {
		changed, now := c.stream.Changed(), c.stream.Status()
		var again <-chan time.Time
		switch {
		case now.Phase == proxy.Open:
			if now.First != nil {
				pause = least
			}
		case c.wanted.Load() && !final(now.Err):
			again = time.After(pause)
			pause = min(2*pause, most)
		}
		select {
		case <-ctx.Done():
		case <-changed:
		case <-again:
			cs.open(ctx, c)
		}
	}
}

// open opens the stream if that is still wanted.
func (cs *clients) open(ctx context.Context, c *client) {
	if c.wanted.Load() && c.stream.Open(ctx) == nil {
		cs.opens.Add(1)
	}
}

// final reports whether a proxy does not try again.
func final(err error) bool {
	code := status.Code(err)
	return err != nil && (code == codes.InvalidArgument || code == codes.FailedPrecondition)
}

// stop ends all streams, whose keepers end because their context has.
func (cs *clients) stop() error {
	for _, c := range cs.all {
		c.wanted.Store(false)
		c.stream.Close()
	}
	cs.keep.Wait()
	return cs.close()
}

func (cs *clients) close() error {
	var errs []error
	for _, l := range cs.links {
		errs = append(errs, l.Set(nil).Close())
	}
	return errors.Join(errs...)
}

// clientSteps are what clients do.
func clientSteps(cs *clients) []step {
	return []step{
		{"reconnect", 8, func(w *world, _ *cluster, _ string) string {
			c := pick(w, cs.all)
			c.stream.Close() // and the keeper opens it again
			return c.service
		}},
		{"leave or come", 4, func(w *world, _ *cluster, _ string) string {
			c := pick(w, cs.all)
			on := !c.wanted.Load()
			c.wanted.Store(on)
			c.stream.Close() // or wakes the keeper
			return c.service + map[bool]string{false: " leaves", true: " comes"}[on]
		}},
		{"stop or go on reading", 5, func(w *world, _ *cluster, _ string) string {
			c := pick(w, cs.all)
			c.stall(!c.stalled)
			return fmt.Sprintf("%s stalled=%v", c.service, c.stalled)
		}},
		{"cut a connection", 1, func(w *world, _ *cluster, _ string) string {
			i := w.rng.IntN(len(cs.links))
			w.err = errors.Join(w.err, cs.cut(i))
			return fmt.Sprintf("connection %d", i)
		}},
	}
}

func (c *client) stall(on bool) {
	c.stalled = on
	if on {
		c.stream.Stall()
	} else {
		c.stream.Unstall()
	}
}
