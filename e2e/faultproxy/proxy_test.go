package faultproxy_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"isthmus/e2e/faultproxy"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// echo is a server that sends back what it gets.
func echo(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				_, _ = io.Copy(conn, conn)
			}()
		}
	}()
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		<-done
	})
	return l.Addr().String()
}

func start(t *testing.T) *faultproxy.Proxy {
	t.Helper()
	p, err := faultproxy.Start(echo(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

func set(t *testing.T, p *faultproxy.Proxy, m faultproxy.Mode) {
	t.Helper()
	if err := p.Set(m); err != nil {
		t.Fatal(err)
	}
}

func dial(t *testing.T, p *faultproxy.Proxy) *net.TCPConn {
	t.Helper()
	conn, err := net.Dial("tcp", p.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn.(*net.TCPConn)
}

// ask sends bytes and expects them back, and returns how long that took.
func ask(t *testing.T, conn net.Conn, text []byte) time.Duration {
	t.Helper()
	began := time.Now()
	if _, err := conn.Write(text); err != nil {
		t.Fatal(err)
	}
	expect(t, conn, text)
	return time.Since(began)
}

func expect(t *testing.T, conn net.Conn, text []byte) {
	t.Helper()
	got := make([]byte, len(text))
	if err := conn.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(conn, got); err != nil || !bytes.Equal(got, text) {
		t.Fatalf("got %d bytes other than those sent: %v", len(got), err)
	}
}

// nothing expects that nothing comes for a while.
func nothing(t *testing.T, conn net.Conn) {
	t.Helper()
	if err := conn.SetReadDeadline(time.Now().Add(100 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if n, err := conn.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("read %d bytes, %v, though nothing should come", n, err)
	}
}

// TestForward: what is sent comes back whole, and the end of one direction leaves the other open.
func TestForward(t *testing.T) {
	p := start(t)
	conn := dial(t, p)
	text := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
	go func() {
		_, _ = conn.Write(text) // what fails here is missing below
		_ = conn.CloseWrite()
	}()
	if got, err := io.ReadAll(conn); err != nil || !bytes.Equal(got, text) {
		t.Errorf("%d bytes of %d came back: %v", len(got), len(text), err)
	}
	if n := p.Accepted(); n != 1 {
		t.Errorf("%d connections", n)
	}
}

func TestRefuse(t *testing.T) {
	p := start(t)
	open := dial(t, p)
	ask(t, open, []byte("before"))
	for range 2 { // setting it again changes nothing
		set(t, p, faultproxy.Mode{Refuse: true})
	}
	if _, err := net.Dial("tcp", p.Addr()); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("dial: %v", err)
	}
	ask(t, open, []byte("an open connection goes on"))
	set(t, p, faultproxy.Mode{})
	ask(t, dial(t, p), []byte("healed"))
}

func TestSilent(t *testing.T) {
	p := start(t)
	open := dial(t, p)
	ask(t, open, []byte("before"))
	set(t, p, faultproxy.Silent)
	fresh := dial(t, p)
	for _, conn := range []net.Conn{open, fresh} {
		if _, err := conn.Write([]byte("held back")); err != nil {
			t.Fatal(err)
		}
		nothing(t, conn)
	}
	set(t, p, faultproxy.Mode{})
	for _, conn := range []net.Conn{open, fresh} {
		expect(t, conn, []byte("held back"))
	}
}

// TestOneWay: one direction may be stopped while the other is not.
func TestOneWay(t *testing.T) {
	p := start(t)
	conn := dial(t, p)
	set(t, p, faultproxy.Mode{Down: faultproxy.Path{Stop: true}})
	if _, err := conn.Write([]byte("heard")); err != nil {
		t.Fatal(err)
	}
	nothing(t, conn)
	set(t, p, faultproxy.Mode{Up: faultproxy.Path{Stop: true}})
	expect(t, conn, []byte("heard"))
}

func TestSlow(t *testing.T) {
	p := start(t)
	conn := dial(t, p)
	ask(t, conn, []byte("before"))
	const delay = 60 * time.Millisecond
	set(t, p, faultproxy.Mode{Up: faultproxy.Path{Delay: delay}, Down: faultproxy.Path{Delay: delay}})
	if took := ask(t, conn, []byte("later")); took < 2*delay {
		t.Errorf("came back after %v", took)
	}
	const bytesEach = 10_000
	set(t, p, faultproxy.Mode{Down: faultproxy.Path{Rate: 100_000}})
	if took := ask(t, conn, make([]byte, bytesEach)); took < 80*time.Millisecond { // the last part waits for nothing
		t.Errorf("%d bytes came back after %v", bytesEach, took)
	}
}

func TestReset(t *testing.T) {
	p := start(t)
	conn := dial(t, p)
	ask(t, conn, []byte("before"))
	p.ResetAll()
	if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("read: %v", err)
	}
	ask(t, dial(t, p), []byte("a new connection"))
}

// TestNoTarget: without a target a connection is reset.
func TestNoTarget(t *testing.T) {
	away := start(t)
	set(t, away, faultproxy.Mode{Refuse: true})
	p, err := faultproxy.Start(away.Addr())
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("tcp", p.Addr())
	if err == nil { // else the reset was faster
		_, err = conn.Read(make([]byte, 1))
		conn.Close()
	}
	if !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("connect and read: %v", err)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	if err := p.Set(faultproxy.Mode{}); err == nil {
		t.Error("a closed proxy took a mode")
	}
}

// TestCloseWhileHeld: a proxy that holds much back can be closed, and what is not read does not fill its memory.
func TestCloseWhileHeld(t *testing.T) {
	p := start(t)
	set(t, p, faultproxy.Silent)
	conn := dial(t, p)
	if err := conn.SetWriteDeadline(time.Now().Add(500 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	n, err := conn.Write(make([]byte, 64<<20))
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("%d bytes were taken: %v", n, err)
	}
}
