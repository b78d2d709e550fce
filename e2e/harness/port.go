package harness

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
)

// Port is a TCP port of 127.0.0.1 that is reserved for a server that comes and goes. No other
// caller of ReservePort gets it, in any process. A UDP socket of the same number, on which nothing
// is received, shows them that.
type Port struct {
	addr  string
	guard net.PacketConn
}

// ReservePort returns a port, from first to last, on which no server listens and that is not
// reserved. Choose a range below the ports that systems hand out by themselves (32768 and up on
// Linux): a connection could otherwise take the port meanwhile.
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

// Addr returns the address, as HOST:PORT.
func (p *Port) Addr() string { return p.addr }

// Release gives the port back. Releasing it again changes nothing. A nil Port is no port.
func (p *Port) Release() error {
	if p == nil {
		return nil
	}
	if err := p.guard.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("release of port %s: %w", p.addr, err)
	}
	return nil
}
