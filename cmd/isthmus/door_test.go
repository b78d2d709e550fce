package main

import (
	"io"
	"net"
	"testing"
)

// TestDoor: it says that it is closed when it is, also if it is closed twice.
func TestDoor(t *testing.T) {
	d := openDoor(t)
	select {
	case <-d.closed:
		t.Fatal("closed")
	default:
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	<-d.closed
	if c, err := net.Dial("tcp", d.Addr().String()); err == nil {
		c.Close()
		t.Error("somebody listens still")
	}
	if err := d.Close(); err == nil {
		t.Error("closed twice without an error")
	}
}

// TestDoorCuts: connections that are open are closed, those that are not are
// forgotten.
func TestDoorCuts(t *testing.T) {
	d := openDoor(t)
	var clients, accepted []net.Conn
	for range 3 {
		c, err := net.Dial("tcp", d.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		a, err := d.Accept()
		if err != nil {
			t.Fatal(err)
		}
		clients, accepted = append(clients, c), append(accepted, a)
	}
	if err := accepted[0].Close(); err != nil {
		t.Error(err)
	}
	if n := len(d.open); n != 2 {
		t.Errorf("%d connections are known, want 2", n)
	}
	d.cut()
	for i, c := range clients {
		if _, err := c.Read(make([]byte, 1)); err != io.EOF {
			t.Errorf("connection %d: %v, want its end", i, err)
		}
	}
	for _, a := range accepted[1:] {
		a.Close()
	}
	if n := len(d.open); n != 0 {
		t.Errorf("%d connections are known, want none", n)
	}
}

func openDoor(t *testing.T) *door {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	d := newDoor(l)
	t.Cleanup(func() { d.Close() })
	return d
}
