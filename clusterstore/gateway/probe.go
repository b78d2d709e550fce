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

// perHost is how far apart the probes of one IP begin at least.
const perHost = time.Second

// probeKey is what is probed. Gateways that have it in common share its health.
type probeKey struct {
	ip   netip.Addr
	port uint16
	path string
}

// health is what is known by probing.
type health struct {
	failures int // in a row
	failure  string
	since    time.Time // of being alive or dead; zero: not known yet
}

// probed is the state of a probeKey. It is remembered for some time after it is needed no more: a
// name may have other addresses each time. All under Tracker.mu.
type probed struct {
	health
	began time.Time // when it was probed last; zero: never
	left  time.Time // since when it is not needed; zero: it is
}

func keyOf(ip netip.Addr, p cluster.Probe) probeKey { return probeKey{ip, p.Port, p.Path} }

// periodsOf returns what is to be probed of a list, and how often.
func periodsOf(list []Address) map[probeKey]time.Duration {
	periods := make(map[probeKey]time.Duration)
	for _, a := range list {
		if !a.usable() || a.Probe == (cluster.Probe{}) {
			continue
		}
		key, period := keyOf(a.Addr.Addr(), a.Probe), max(a.Probe.Period, perHost)
		if other, ok := periods[key]; ok {
			period = min(period, other)
		}
		periods[key] = period
	}
	return periods
}

// note notes a probe's result.
func (p *health) note(err error) {
	dead := p.failures >= deadAfter
	if err == nil {
		p.failures, p.failure = 0, ""
	} else {
		p.failures, p.failure = min(p.failures+1, deadAfter), err.Error()
	}
	if now := p.failures >= deadAfter; p.since.IsZero() && (now || err == nil) || now != dead {
		p.since = time.Now()
	}
}
