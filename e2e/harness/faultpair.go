package harness

import (
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

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
