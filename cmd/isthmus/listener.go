package main

import (
	"net"
	"runtime"
	"sync"
	"weak"
)

// trackingListener is a listener that reports that it has been closed, and can
// close the connections that it has accepted. gRPC's server waits ten seconds for a
// connection on which nothing comes, even when it is stopped at once.
//
// Connections are not wrapped, since gRPC reads only a *net.TCPConn into buffers of a pool,
// which it takes when there is something to read: any other would have 4 KiB for as long as it
// is open. So they are tracked until they are garbage, and not until they are closed.
type trackingListener struct {
	net.Listener
	once   sync.Once
	closed chan struct{} // closed once the listener is closed

	mu       sync.Mutex
	accepted map[weak.Pointer[net.TCPConn]]struct{} // under mu
}

func newTrackingListener(l net.Listener) *trackingListener {
	return &trackingListener{Listener: l, closed: make(chan struct{}), accepted: make(map[weak.Pointer[net.TCPConn]]struct{})}
}

// Accept implements net.Listener.
func (l *trackingListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	if tcp, ok := conn.(*net.TCPConn); ok { // as all of a listener for TCP are
		at := weak.Make(tcp)
		l.mu.Lock()
		defer l.mu.Unlock()
		l.accepted[at] = struct{}{}
		runtime.AddCleanup(tcp, l.forget, at)
	}
	return conn, nil
}

func (l *trackingListener) forget(conn weak.Pointer[net.TCPConn]) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.accepted, conn)
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
	for at := range l.accepted {
		if conn := at.Value(); conn != nil {
			conn.Close() // which fails if it is closed
		}
	}
}
