package scenario

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"syscall"
)

// sink is an address of 127.0.0.1 behind which there is no API server.
type sink struct {
	addr  string
	close func() error
}

// deadSink is an address that refuses connections: it is taken, so that no other process gets it, and nothing listens.
func deadSink() (*sink, error) {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err != nil {
		return nil, fmt.Errorf("a dead address: %w", err)
	}
	syscall.CloseOnExec(fd)
	err = syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}})
	name, err2 := syscall.Getsockname(fd)
	bound, ok := name.(*syscall.SockaddrInet4)
	if err := errors.Join(err, err2); err != nil || !ok {
		return nil, errors.Join(fmt.Errorf("a dead address: %w", err), syscall.Close(fd))
	}
	return &sink{
		addr:  fmt.Sprintf("127.0.0.1:%d", bound.Port),
		close: sync.OnceValue(func() error { return syscall.Close(fd) }),
	}, nil
}

// silentSink is an address that accepts connections and never sends anything.
func silentSink() (*sink, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("a silent address: %w", err)
	}
	var mu sync.Mutex
	var conns []net.Conn
	accepting := make(chan struct{})
	go func() {
		defer close(accepting)
		for {
			conn, err := l.Accept()
			if err != nil {
				return // closed
			}
			mu.Lock()
			conns = append(conns, conn)
			mu.Unlock()
		}
	}()
	return &sink{addr: l.Addr().String(), close: sync.OnceValue(func() error {
		err := l.Close()
		<-accepting
		for _, conn := range conns {
			_ = conn.Close() // the other side may be gone
		}
		return err
	})}, nil
}
