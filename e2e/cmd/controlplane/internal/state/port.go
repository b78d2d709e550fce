package state

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"strings"
)

// Ports are picked below those that systems hand out by themselves (32768 and
// up on Linux) and those of NodePorts. A connection could otherwise take the
// port of a cluster that is down, or even connect to itself.
const firstPort, lastPort = 20000, 29999

// Listen binds the cluster's port: the one of last time, or a free one. It remembers the port, and makes the folder if need be. Once it has
// a port, it fails while another process serves the folder.
func (d Dir) Listen(host net.IP) (net.Listener, error) {
	if err := os.MkdirAll(string(d), 0o700); err != nil {
		return nil, err
	}
	port, err := d.port()
	if err != nil {
		return nil, err
	}
	if port != 0 {
		listener, err := listen(host, port)
		if err != nil {
			return nil, fmt.Errorf("the port of %s: %w: does another process serve that folder?", d, err)
		}
		return listener, nil
	}
	listener, err := listenAny(host)
	if err != nil {
		return nil, err
	}
	port = listener.Addr().(*net.TCPAddr).Port
	if err := writeFile(d.path("port"), []byte(strconv.Itoa(port)+"\n")); err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	return listener, nil
}

// port returns the port of last time, 0 if there is none.
func (d Dir) port() (int, error) {
	text, err := os.ReadFile(d.path("port"))
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	port, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return 0, fmt.Errorf("%s: %w", d.path("port"), err)
	}
	return port, nil
}

func listen(host net.IP, port int) (net.Listener, error) {
	return net.Listen("tcp", net.JoinHostPort(host.String(), strconv.Itoa(port)))
}

func listenAny(host net.IP) (net.Listener, error) {
	const tries = 100
	var err error
	for range tries {
		var listener net.Listener
		if listener, err = listen(host, firstPort+rand.IntN(lastPort-firstPort+1)); err == nil {
			return listener, nil
		}
	}
	return nil, fmt.Errorf("no free port after %d tries: %w", tries, err)
}
