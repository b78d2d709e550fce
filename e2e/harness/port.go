package harness

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
)

// Port is a reserved TCP port on 127.0.0.1 for a server that stops and starts. ReservePort never
// returns a reserved port, not even in another process. A UDP socket with the same number marks the
// port as reserved.
type Port struct {
	addr  string
	guard net.PacketConn
}

// ReservePort reserves a free port from first to last. The range should be below the ephemeral
// ports of the system (on Linux, from 32768). Otherwise an outgoing connection can use the port.
func ReservePort(first, last int) (*Port, error) {
	var failed error
	for range 100 {
		p, err := reservePort(fmt.Sprintf("127.0.0.1:%d", first+rand.IntN(last-first+1)))
		if err == nil {
			return p, nil
		}
		failed = err
	}
	return nil, fmt.Errorf("no free port from %d to %d: %w", first, last, failed)
}

func reservePort(addr string) (*Port, error) {
	guard, err := net.ListenPacket("udp", addr)
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, errors.Join(err, guard.Close())
	}
	return &Port{addr: addr, guard: guard}, l.Close()
}

// Addr returns the address as HOST:PORT.
func (p *Port) Addr() string { return p.addr }

// Release frees the port. Later calls have no effect, and neither have calls on a nil Port.
func (p *Port) Release() error {
	if p == nil {
		return nil
	}
	if err := p.guard.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("release of port %s: %w", p.addr, err)
	}
	return nil
}
