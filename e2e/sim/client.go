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

// client is a proxy with one subscription. It subscribes again whenever the stream ends.
type client struct {
	// These fields never change.
	kind    proxy.Kind
	service string // the Service that it subscribes to
	zone    string // the zone of its node
	stream  *proxy.Stream

	wanted  atomic.Bool // the stream should be open
	stalled bool
	held    []netip.AddrPort // endpoints held at the last mark, of those that it must keep
	marked  bool             // the stream was open at the last mark
	faults  int              // faults of the stream that were already reported
}

// clients are all clients, which share some connections.
type clients struct {
	addr  string // of Isthmus
	all   []*client
	links []*proxy.Exchange
	opens atomic.Int64
	keep  sync.WaitGroup
}

// connect returns an empty set of clients with connections to addr.
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

// cut closes a connection with all its streams, and replaces it with a new one.
func (cs *clients) cut(i int) error {
	fresh, err := proxy.Dial(cs.addr)
	if err != nil {
		return err
	}
	return cs.links[i].Set(fresh).Close()
}

// newClients makes clients of random Services and zones. No stream is open yet.
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

// anyAuthority returns the name of a random Service.
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

// base returns the service that the client's Service is made of.
func (c *client) base() string {
	s, _, _ := strings.Cut(c.service, "-")
	return s
}

// start opens the streams of all clients, and keeps them open until ctx ends.
func (cs *clients) start(ctx context.Context) {
	for _, c := range cs.all {
		c.wanted.Store(true)
		cs.keep.Go(func() { cs.hold(ctx, c) })
	}
}

// hold opens the stream again after it has ended, with back-off, as a proxy does.
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

// open opens the stream if it is still wanted.
func (cs *clients) open(ctx context.Context, c *client) {
	if c.wanted.Load() && c.stream.Open(ctx) == nil {
		cs.opens.Add(1)
	}
}

// final reports whether a proxy does not retry after the error.
func final(err error) bool {
	code := status.Code(err)
	return err != nil && (code == codes.InvalidArgument || code == codes.FailedPrecondition)
}

// stop ends all streams. The context of start must have ended, which ends hold.
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

// clientSteps returns the steps of clients.
func clientSteps(cs *clients) []step {
	return []step{
		{"reconnect", 8, func(w *world, _ *cluster, _ string) string {
			c := pick(w, cs.all)
			c.stream.Close() // hold opens it again
			return c.service
		}},
		{"unsubscribe or subscribe", 4, func(w *world, _ *cluster, _ string) string {
			c := pick(w, cs.all)
			on := !c.wanted.Load()
			c.wanted.Store(on)
			c.stream.Close() // if the client leaves; otherwise hold wakes up
			return c.service + map[bool]string{false: " unsubscribes", true: " subscribes"}[on]
		}},
		{"stop or resume reading", 5, func(w *world, _ *cluster, _ string) string {
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
