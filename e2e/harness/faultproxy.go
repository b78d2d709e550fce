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

// FaultMode is the behavior of a FaultProxy. The zero FaultMode forwards all bytes without delay.
type FaultMode struct {
	Refuse bool      // refuse new connections, without any effect on open connections
	Up     FaultPath // from the clients to the target
	Down   FaultPath // from the target to the clients
}

// FaultPath is the treatment of the bytes in one direction.
type FaultPath struct {
	Stop  bool          // hold back all bytes, but still accept new connections
	Delay time.Duration // delay of each byte
	Rate  int           // bytes per second for each connection; 0 is unlimited
}

// Silent accepts connections but forwards nothing, not even on open connections.
var Silent = FaultMode{Up: FaultPath{Stop: true}, Down: FaultPath{Stop: true}}

// FaultProxy forwards TCP connections to one target and simulates faults of a network, a load
// balancer or a server. It can refuse, delay, throttle, stall and reset connections.
//
// Set immediately changes the behavior for new and open connections. The zero FaultMode ends the
// fault. ResetAll resets all open connections.
//
// A connection that survives a fault loses no bytes: the proxy forwards all held-back bytes in
// order when the fault ends, as after a short network partition. The buffer for held-back bytes is
// limited. When it is full, the proxy stops reading and the sender's window fills up.
//
// All methods are safe for concurrent use.
type FaultProxy struct {
	target string
	port   *Port // reserved until Close, because the proxy listens again after it has refused connections
	all    sync.WaitGroup

	mu       sync.Mutex
	mode     FaultMode
	changed  chan struct{} // closed and replaced when mode changes
	listener net.Listener  // nil while the proxy refuses connections
	pairs    map[*faultPair]struct{}
	closed   bool
}

// StartFaultProxy starts a FaultProxy on a free port of 127.0.0.1.
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

// Clusters and replicas use other port ranges below firstFaultPort.
const firstFaultPort, lastFaultPort = 30000, 32767

// Addr returns the address that clients connect to.
func (p *FaultProxy) Addr() string { return p.port.Addr() }

// Set changes the behavior of the proxy. It fails if the proxy refused connections and another
// process has taken the port since then.
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

// ResetAll resets all open connections on both sides.
func (p *FaultProxy) ResetAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.pairs {
		c.abort()
	}
}

// Close closes the proxy and all connections, and waits for its goroutines to end.
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

// serve accepts connections until l is closed. The caller holds p.mu unless p is not shared yet.
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

func (p *FaultProxy) enter(client *net.TCPConn) {
	c := &faultPair{proxy: p, client: client, ended: make(chan struct{})}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.mode.Refuse { // the connection was accepted while the listener was being closed
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

// now returns the mode and a channel that is closed when the mode changes.
func (p *FaultProxy) now() (FaultMode, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mode, p.changed
}

const (
	pieceBytes = 16 << 10
	mostPieces = 64 // maximum buffered in each direction, in addition to the socket buffers

	faultDialTimeout = 10 * time.Second
)

// faultPair is a connection from a client and the matching connection to the target.
type faultPair struct {
	proxy  *FaultProxy
	client *net.TCPConn

	mu     sync.Mutex
	server *net.TCPConn // nil until the target is connected
	over   bool
	ended  chan struct{} // closed when the pair has ended
}

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

// join stores the connection to the target. It returns false if the pair has already ended.
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

// shut closes a connection. Bytes that have been written are still delivered.
func shut(conn *net.TCPConn) { _ = conn.Close() }

func reset(conn *net.TCPConn) {
	_ = conn.SetLinger(0)
	shut(conn)
}

// piece is a chunk of received bytes with the time of arrival.
type piece struct {
	bytes []byte
	at    time.Time
}

// forward copies the bytes of one direction and forwards the end of the stream.
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
	_ = to.CloseWrite() // if this fails, the other direction detects the closed connection too
}

// read queues all received bytes. Any error except io.EOF ends the pair.
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

// deliver writes a piece when it is due, in parts if the rate is limited. It returns false if the
// pair has ended.
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

// await waits until bytes received at the given time may be forwarded in the current mode. It
// returns the rate limit.
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

// pause waits for d, but returns early if the mode changes or the pair ends.
func (c *faultPair) pause(d time.Duration) {
	_, changed := c.proxy.now()
	select {
	case <-time.After(d):
	case <-changed:
	case <-c.ended:
	}
}

// Intercept starts a server in front of another server until the test ends. The answer function
// responds to each request or forwards it.
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
			defer func() { _ = recover() }() // ReverseProxy panics when it aborts a response
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
