package main

import (
	"io"
	"net"
	"runtime"
	"testing"
	"time"
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

// TestListenerCloseConns: it closes connections that are open, whatever has been closed before.
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
	l.closeConns()
	for i, c := range clients {
		if _, err := c.Read(make([]byte, 1)); err != io.EOF {
			t.Errorf("connection %d: %v, want its end", i, err)
		}
	}
}

// TestListenerForgets: connections that are garbage are not tracked.
func TestListenerForgets(t *testing.T) {
	l := listen(t)
	accept := func() net.Conn {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		a, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	for range 10 {
		accept().Close()
	}
	kept := accept()
	defer kept.Close()
	deadline := time.Now().Add(time.Minute)
	for l.tracked() > 1 && time.Now().Before(deadline) {
		runtime.GC()
		time.Sleep(time.Millisecond) // cleanups run on a goroutine of the runtime
	}
	if n := l.tracked(); n != 1 {
		t.Errorf("%d connections are tracked, want the one that is kept", n)
	}
	if _, ok := kept.(*net.TCPConn); !ok {
		t.Errorf("a connection is a %T, which gRPC reads into a buffer of its own", kept)
	}
}

func (l *trackingListener) tracked() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.accepted)
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
