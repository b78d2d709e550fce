package harness

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"time"
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

// FaultProxy stands between a client and a server and spoils their connections as a network, a load balancer or a server
// that hangs would: it refuses, falls silent, is slow, lets little through, or resets.
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
