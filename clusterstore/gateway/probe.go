package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"time"

	"isthmus/clusterstore/cluster"
)

const (
	deadAfter   = 3 // failures in a row
	probeTake   = 5 * time.Second
	probeAnswer = 4 << 10 // bytes that are read of an answer's header
)

// probe probes once.
func (t *Tracker) probe(ctx context.Context, ip netip.Addr, probe cluster.Probe) error {
	ctx, cancel := context.WithTimeout(ctx, probeTake)
	defer cancel()
	began := time.Now()
	defer func() { t.cfg.Probed(time.Since(began)) }()
	return t.cfg.Probe(ctx, ip, probe)
}

// transport sends probes: to the address itself, without proxy or connections that are used
// again. It follows no redirects.
var transport = &http.Transport{
	DialContext:            (&net.Dialer{Timeout: probeTake}).DialContext,
	DisableKeepAlives:      true,
	DisableCompression:     true,
	MaxResponseHeaderBytes: probeAnswer,
}

// get is alive if GET is answered by 200. The answer's body is not read.
func get(ctx context.Context, ip netip.Addr, probe cluster.Probe) error {
	url := "http://" + net.JoinHostPort(ip.String(), strconv.Itoa(int(probe.Port))) + probe.Path
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	r.Header.Set("User-Agent", "isthmus")
	answer, err := transport.RoundTrip(r)
	if err != nil {
		return shorten(err)
	}
	_ = answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("answers %d, not 200", answer.StatusCode)
	}
	return nil
}

// shorten returns the error without what the answer's text may have put into it.
func shorten(err error) error {
	var op *net.OpError
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("no answer within %v", probeTake)
	case errors.As(err, &op):
		return op
	case errors.Is(err, io.EOF):
		return errors.New("closes the connection without an answer")
	}
	return errors.New("what it answers is no HTTP, or too long")
}
