package scenario

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"sync/atomic"
	"time"

	"isthmus/e2e/poll"
)

// answering is an HTTP server that plays a Linkerd gateway's probe: it answers GET /ready.
type answering struct {
	code   atomic.Int64
	asked  atomic.Int64 // how often
	server http.Server
	ended  chan error
}

// startAnswering starts a server. Another run on this machine may have the address for the length of a case: then it waits.
func startAnswering(ctx context.Context, addr netip.AddrPort, code int) (*answering, error) {
	var l net.Listener
	err := poll.Until(ctx, time.Minute, 100*time.Millisecond, func() (err error) {
		l, err = net.Listen("tcp", addr.String())
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("a server at %s: %w", addr, err)
	}
	s := &answering{ended: make(chan error, 1)}
	s.code.Store(int64(code))
	s.server.Handler, s.server.ReadHeaderTimeout = s, 10*time.Second
	go func() { s.ended <- s.server.Serve(l) }()
	return s, nil
}

// ServeHTTP refuses what no probe would send: its caller takes the answer for that of a dead gateway.
func (s *answering) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.asked.Add(1)
	switch {
	case r.Method == http.MethodGet && r.URL.RequestURI() == "/elsewhere":
		w.WriteHeader(http.StatusOK)
	case r.Method != http.MethodGet || r.URL.RequestURI() != "/ready":
		w.WriteHeader(http.StatusNotFound)
	case r.Header.Get("Authorization") != "" || r.Header.Get("Cookie") != "" || r.ContentLength > 0:
		w.WriteHeader(http.StatusBadRequest)
	default:
		code := int(s.code.Load())
		if code >= 300 && code < 400 { // which probes must not follow
			w.Header().Set("Location", "/elsewhere")
		}
		w.WriteHeader(code)
	}
}

func (s *answering) close() error {
	err := s.server.Close()
	if ended := <-s.ended; !errors.Is(ended, http.ErrServerClosed) {
		err = errors.Join(err, ended)
	}
	return err
}
