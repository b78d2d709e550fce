package main

import (
	"net"
	"sync"
)

// door is a listener that says when it has been closed, and can close the
// connections that it has accepted. gRPC's server waits for a connection on which
// nothing comes for two minutes, even when it is told to stop at once.
type door struct {
	net.Listener
	once   sync.Once
	closed chan struct{} // closed once the listener is

	mu   sync.Mutex
	open map[*visitor]struct{}
}

func newDoor(l net.Listener) *door {
	return &door{Listener: l, closed: make(chan struct{}), open: make(map[*visitor]struct{})}
}

// Accept implements net.Listener.
func (d *door) Accept() (net.Conn, error) {
	conn, err := d.Listener.Accept()
	if err != nil {
		return nil, err
	}
	v := &visitor{conn, d}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.open[v] = struct{}{}
	return v, nil
}

// Close closes the listener.
func (d *door) Close() error {
	err := d.Listener.Close()
	d.once.Do(func() { close(d.closed) })
	return err
}

// cut closes all connections that are open.
func (d *door) cut() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for v := range d.open {
		v.Conn.Close()
	}
}

// visitor is a connection that came by a door.
type visitor struct {
	net.Conn
	door *door
}

// Close closes the connection.
func (v *visitor) Close() error {
	v.door.mu.Lock()
	delete(v.door.open, v)
	v.door.mu.Unlock()
	return v.Conn.Close()
}
