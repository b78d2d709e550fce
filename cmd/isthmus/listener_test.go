package main

import (
	"io"
	"net"
	"testing"
)

// TestListener: it reports that it has been closed, and may be closed twice.
func TestListener(t *testing.T) {
	l := listen(t)
	select {
	case <-l.closed:
		t.Fatal("closed")
	default:
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	<-l.closed
	if c, err := net.Dial("tcp", l.Addr().String()); err == nil {
		c.Close()
		t.Error("the address is still listened on")
	}
	if err := l.Close(); err == nil {
		t.Error("closed twice without an error")
	}
}

// TestListenerCloseConns: it closes connections that are open, and forgets those that
// are closed.
func TestListenerCloseConns(t *testing.T) {
	l := listen(t)
	var clients, accepted []net.Conn
	for range 3 {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		a, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		clients, accepted = append(clients, c), append(accepted, a)
	}
	if err := accepted[0].Close(); err != nil {
		t.Error(err)
	}
	if n := len(l.open); n != 2 {
		t.Errorf("%d connections are tracked, want 2", n)
	}
	l.closeConns()
	for i, c := range clients {
		if _, err := c.Read(make([]byte, 1)); err != io.EOF {
			t.Errorf("connection %d: %v, want its end", i, err)
		}
	}
	for _, a := range accepted[1:] {
		a.Close()
	}
	if n := len(l.open); n != 0 {
		t.Errorf("%d connections are tracked, want none", n)
	}
}

func listen(t *testing.T) *trackingListener {
	t.Helper()
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := newTrackingListener(tcp)
	t.Cleanup(func() { l.Close() })
	return l
}
