package harness

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync"
	"testing"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
)

// FaultMode is what a Proxy does. The zero Mode forwards everything as it comes.
type FaultMode struct {
	Refuse bool      // new connections are refused; those that are open are not touched
	Up     FaultPath // from clients to the target
	Down   FaultPath // from the target to clients
}

// FaultPath is what becomes of the bytes of one direction.
type FaultPath struct {
	Stop  bool          // none gets through; new connections are accepted all the same
	Delay time.Duration // they come later by this much
	Rate  int           // bytes per second of each connection; 0: as many as come
}

// Silent accepts connections and lets nothing through, on those that are open neither.
var Silent = FaultMode{Up: FaultPath{Stop: true}, Down: FaultPath{Stop: true}}

// FaultProxy stands between a client and a server and spoils their connections as a network, a load
// balancer or a server that hangs would: it refuses, falls silent, is slow, lets little through, or
// resets.
//
// It forwards TCP connections to one target. Set changes what it does with new connections and with open ones, at once.
// The zero FaultMode heals. ResetAll ends all open connections.
//
// A connection that lives on loses no bytes: what was held back arrives in order once the fault is over, as after a
// partition of the network that TCP has outlived. What is held back is bounded, and then fills the sender's windows.
//
// The methods may be called from several goroutines.
type FaultProxy struct {
	// fixed
	target string
	port   *Port          // reserved until Close, since it must get its own back after it has refused
	all    sync.WaitGroup // goroutines

	mu       sync.Mutex
	mode     FaultMode
	changed  chan struct{} // closed, and replaced, when mode is another
	listener net.Listener  // nil while refusing
	pairs    map[*faultPair]struct{}
	closed   bool
}

// StartFaultProxy returns a Proxy that listens at a free port of 127.0.0.1.
func StartFaultProxy(target string) (*FaultProxy, error) {
	reserved, err := ReservePort(firstFaultPort, lastFaultPort)
	if err != nil {
		return nil, fmt.Errorf("fault proxy for %s: %w", target, err)
	}
	l, err := net.Listen("tcp", reserved.Addr())
	if err != nil {
		return nil, errors.Join(fmt.Errorf("fault proxy for %s: %w", target, err), reserved.Release())
	}
	p := &FaultProxy{target: target, port: reserved, changed: make(chan struct{}), pairs: make(map[*faultPair]struct{})}
	p.serve(l)
	return p, nil
}

// Ports of fault proxies. Those of clusters and of gateways lie below.
const firstFaultPort, lastFaultPort = 30000, 32767

// Addr returns the address that clients connect to.
func (p *FaultProxy) Addr() string { return p.port.Addr() }

// Set changes what the Proxy does. It fails when another process has taken the port while it refused.
func (p *FaultProxy) Set(m FaultMode) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return errors.New("fault proxy: closed")
	}
	if m.Refuse && p.listener != nil {
		err := p.listener.Close()
		p.listener = nil
		if err != nil {
			return fmt.Errorf("fault proxy: refuse: %w", err)
		}
	}
	if !m.Refuse && p.listener == nil {
		l, err := net.Listen("tcp", p.port.Addr())
		if err != nil {
			return fmt.Errorf("fault proxy: %w", err)
		}
		p.serve(l)
	}
	p.mode = m
	close(p.changed)
	p.changed = make(chan struct{})
	return nil
}

// ResetAll ends all open connections by a reset on both sides.
func (p *FaultProxy) ResetAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.pairs {
		c.abort()
	}
}

// Close ends the proxy and all connections, and waits until its goroutines have ended.
func (p *FaultProxy) Close() error {
	p.mu.Lock()
	var err error
	if p.listener != nil {
		err = p.listener.Close()
		p.listener = nil
	}
	p.closed = true
	p.mu.Unlock()
	p.ResetAll()
	p.all.Wait()
	return errors.Join(err, p.port.Release())
}

// serve accepts connections until l is closed. p.mu is held, or p is not shared yet.
func (p *FaultProxy) serve(l net.Listener) {
	p.listener = l
	p.all.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return // closed
			}
			p.enter(conn.(*net.TCPConn))
		}
	})
}

// enter forwards a new connection.
func (p *FaultProxy) enter(client *net.TCPConn) {
	c := &faultPair{proxy: p, client: client, ended: make(chan struct{})}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.mode.Refuse { // accepted while the listener was being closed
		c.abort()
		return
	}
	p.pairs[c] = struct{}{}
	p.all.Go(func() {
		c.run(p.target)
		p.mu.Lock()
		delete(p.pairs, c)
		p.mu.Unlock()
	})
}

// now returns the mode, and what is closed once it is another.
func (p *FaultProxy) now() (FaultMode, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mode, p.changed
}

const (
	pieceBytes = 16 << 10
	mostPieces = 64 // held back in each direction, besides what the sockets hold

	faultDialTimeout = 10 * time.Second
)

// faultPair is a client's connection and the one to the target that goes with it.
type faultPair struct {
	proxy  *FaultProxy
	client *net.TCPConn

	mu     sync.Mutex
	server *net.TCPConn // nil: there is none yet
	over   bool
	ended  chan struct{} // closed when over
}

// run forwards both ways until the connection has ended.
func (c *faultPair) run(target string) {
	conn, err := net.DialTimeout("tcp", target, faultDialTimeout)
	if err != nil {
		c.abort()
		return
	}
	server := conn.(*net.TCPConn)
	if !c.join(server) {
		return
	}
	var both sync.WaitGroup
	both.Go(func() { c.forward(c.client, server, func(m FaultMode) FaultPath { return m.Up }) })
	both.Go(func() { c.forward(server, c.client, func(m FaultMode) FaultPath { return m.Down }) })
	both.Wait()
	c.end(shut)
}

// join notes the connection to the target; not ok: all is over already.
func (c *faultPair) join(server *net.TCPConn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		reset(server)
		return false
	}
	c.server = server
	return true
}

// abort ends both connections by a reset, unless they have ended.
func (c *faultPair) abort() { c.end(reset) }

func (c *faultPair) end(finish func(*net.TCPConn)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return
	}
	c.over = true
	close(c.ended)
	finish(c.client)
	if c.server != nil {
		finish(c.server)
	}
}

// shut ends a connection; what has been written to it still arrives.
func shut(conn *net.TCPConn) { _ = conn.Close() } // fails if it has ended already

// reset ends a connection at once.
func reset(conn *net.TCPConn) {
	_ = conn.SetLinger(0)
	shut(conn)
}

// piece is some bytes, and when they came.
type piece struct {
	bytes []byte
	at    time.Time
}

// forward carries one direction until its end, which it passes on.
func (c *faultPair) forward(from, to *net.TCPConn, of func(FaultMode) FaultPath) {
	pieces := make(chan piece, mostPieces)
	var reading sync.WaitGroup
	defer reading.Wait()
	reading.Go(func() { c.read(from, pieces) })
	for p := range pieces {
		if !c.deliver(to, p, of) {
			c.abort()
			return
		}
	}
	_ = to.CloseWrite() // fails if that side has ended, which the other direction finds too
}

// read takes what comes until there is no more. An end that is no orderly one ends the pair.
func (c *faultPair) read(from *net.TCPConn, into chan<- piece) {
	defer close(into)
	for {
		buffer := make([]byte, pieceBytes)
		n, err := from.Read(buffer)
		if n > 0 {
			select {
			case into <- piece{buffer[:n], time.Now()}:
			case <-c.ended:
				return
			}
		}
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			c.abort()
			return
		}
	}
}

// deliver writes a piece when it is due, and in parts if the rate is limited; not ok: the connection has ended.
func (c *faultPair) deliver(to *net.TCPConn, p piece, of func(FaultMode) FaultPath) bool {
	for rest := p.bytes; len(rest) > 0; {
		rate, ok := c.await(p.at, of)
		if !ok {
			return false
		}
		n := len(rest)
		if rate > 0 {
			n = min(n, max(1, rate/50))
		}
		if _, err := to.Write(rest[:n]); err != nil {
			return false
		}
		if rest = rest[n:]; rate > 0 {
			c.pause(time.Duration(n) * time.Second / time.Duration(rate))
		}
	}
	return true
}

// await returns when bytes that came at some time may go on, by the mode at that time, and at which rate.
func (c *faultPair) await(came time.Time, of func(FaultMode) FaultPath) (rate int, ok bool) {
	for {
		mode, changed := c.proxy.now()
		path := of(mode)
		var ready <-chan time.Time
		if !path.Stop {
			left := time.Until(came.Add(path.Delay))
			if left <= 0 {
				return path.Rate, true
			}
			ready = time.After(left)
		}
		select {
		case <-ready:
		case <-changed:
		case <-c.ended:
			return 0, false
		}
	}
}

// pause waits, unless the mode changes or the connection ends.
func (c *faultPair) pause(d time.Duration) {
	_, changed := c.proxy.now()
	select {
	case <-time.After(d):
	case <-changed:
	case <-c.ended:
	}
}

// Intercept starts a server in front of another one, until the test ends: answer answers requests, or forwards them.
func Intercept(
	t testing.TB,
	target *url.URL,
	transport http.RoundTripper,
	answer func(w http.ResponseWriter, r *http.Request, forward http.HandlerFunc),
) *httptest.Server {
	proxy := &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport:     transport,
		FlushInterval: -1,
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer(w, r, func(w http.ResponseWriter, r *http.Request) {
			defer func() { _ = recover() }() // how a ReverseProxy ends an answer that breaks off
			proxy.ServeHTTP(w, r)
		})
	}))
	t.Cleanup(func() {
		server.Listener.Close()
		server.CloseClientConnections()
		server.Close()
		utilnet.CloseIdleConnectionsFor(transport)
	})
	return server
}
