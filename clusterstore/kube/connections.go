package kube

import (
	"context"
	"net"
)

// dialFunc connects, as [net.Dialer.DialContext] does.
type dialFunc func(ctx context.Context, network, address string) (net.Conn, error)

// closedWith returns dial, whose connections are closed when ctx ends. net/http closes those that are idle. One whose last
// request has just been cancelled is not idle yet, and one that is still being made for such a
// request becomes idle later: they would stay open for IdleConnTimeout.
func closedWith(ctx context.Context, dial dialFunc) dialFunc {
	return func(request context.Context, network, address string) (net.Conn, error) {
		made, err := dial(request, network, address)
		if err != nil {
			return nil, err
		}
		return connection{made, context.AfterFunc(ctx, func() { _ = made.Close() })}, nil
	}
}

// connection is one that the context forgets once it is closed.
type connection struct {
	net.Conn
	forget func() bool
}

func (c connection) Close() error {
	c.forget()
	return c.Conn.Close()
}
