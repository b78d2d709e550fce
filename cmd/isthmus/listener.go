package main

import (
	"net"
	"sync"
)

// trackingListener is a listener that reports that it has been closed, and can
// close the connections that it has accepted. gRPC's server waits ten seconds for a
// connection on which nothing comes, even when it is stopped at once.
type trackingListener struct {
	net.Listener
	once   sync.Once
	closed chan struct{} // closed once the listener is closed

	mu   sync.Mutex
	open map[*trackedConn]struct{} // under mu
}

func newTrackingListener(l net.Listener) *trackingListener {
	return &trackingListener{Listener: l, closed: make(chan struct{}), open: make(map[*trackedConn]struct{})}
}

// Accept implements net.Listener.
func (l *trackingListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &trackedConn{conn, l}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open[c] = struct{}{}
	return c, nil
}

// Close closes the listener.
func (l *trackingListener) Close() error {
	err := l.Listener.Close()
	l.once.Do(func() { close(l.closed) })
	return err
}

// closeConns closes all connections that are open.
func (l *trackingListener) closeConns() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.open {
		c.Conn.Close()
	}
}

// trackedConn is a connection that a trackingListener has accepted.
type trackedConn struct {
	net.Conn
	listener *trackingListener
}

// Close closes the connection.
func (c *trackedConn) Close() error {
	c.listener.mu.Lock()
	delete(c.listener.open, c)
	c.listener.mu.Unlock()
	return c.Conn.Close()
}
