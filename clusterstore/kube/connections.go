package kube

import (
	"context"
	"net"
	"sync"
)

// dialFunc connects, as [net.Dialer.DialContext] does.
type dialFunc func(ctx context.Context, network, address string) (net.Conn, error)

// connections are the open ones of a client. net/http closes those that are idle. One whose last
// request has just been cancelled is not idle yet, and one that is still being made for such a
// request becomes idle later: they would stay open for IdleConnTimeout.
type connections struct {
	mu     sync.Mutex
	open   map[*connection]struct{}
	closed bool
}

// connection is one that leaves connections once it is closed.
type connection struct {
	net.Conn
	of *connections
}

// counted returns dial, with each connection in c while it is open.
func (c *connections) counted(dial dialFunc) dialFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		made, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.closed {
			_ = made.Close()
			return nil, net.ErrClosed
		}
		if c.open == nil {
			c.open = make(map[*connection]struct{})
		}
		one := &connection{made, c}
		c.open[one] = struct{}{}
		return one, nil
	}
}

func (c *connection) Close() error {
	c.of.mu.Lock()
	delete(c.of.open, c)
	c.of.mu.Unlock()
	return c.Conn.Close()
}

// close closes all that are open, and those that are being made.
func (c *connections) close() {
	c.mu.Lock()
	open := c.open
	c.open, c.closed = nil, true
	c.mu.Unlock()
	for one := range open {
		_ = one.Conn.Close()
	}
}
