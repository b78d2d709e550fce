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
	deadAfter    = 3 // failed probes in a row
	probeTimeout = 5 * time.Second
	probeAnswer  = 4 << 10 // largest response header, in bytes
)

// transport sends probes directly to the address, without a proxy. The transport does not reuse
// connections or follow redirects.
var transport = &http.Transport{
	DialContext:            (&net.Dialer{Timeout: probeTimeout}).DialContext,
	DisableKeepAlives:      true,
	DisableCompression:     true,
	MaxResponseHeaderBytes: probeAnswer,
}

// The get function probes an address with an HTTP GET request. The address is alive if the response
// has status 200.
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

// The shorten function converts the error of a failed probe to an error with a short message for
// users. The short message contains no text from the response.
func shorten(err error) error {
	var op *net.OpError
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("no response within %v", probeTimeout)
	case errors.As(err, &op):
		return op
	case errors.Is(err, io.EOF):
		return errors.New("the connection was closed without a response")
	}
	return errors.New("the response is not valid HTTP or is too long")
}

const perHost = time.Second // minimum time between the starts of two probes of the same IP

// probeKey identifies a probe. Gateways with the same probeKey share one health state.
type probeKey struct {
	ip   netip.Addr
	port uint16
	path string
}

type health struct {
	failures int // in a row
	failure  string
	since    time.Time // when the gateway became alive or dead; zero if unknown
}

// probed is the shared state of all probes with the same probeKey. Tracker.mu guards all fields.
type probed struct {
	health
	began time.Time // when the last probe began; zero if there was none
	left  time.Time // since when the key is not in use; zero while it is
}

func keyOf(ip netip.Addr, p cluster.Probe) probeKey { return probeKey{ip, p.Port, p.Path} }

func periodsOf(list []Address) map[probeKey]time.Duration {
	periods := make(map[probeKey]time.Duration)
	for _, a := range list {
		if !a.usable() || a.Probe == (cluster.Probe{}) {
			continue
		}
		key := keyOf(a.Addr.Addr(), a.Probe)
		period := max(a.Probe.Period, perHost)
		if other, ok := periods[key]; ok {
			period = min(period, other)
		}
		periods[key] = period
	}
	return periods
}

func (p *health) note(err error) {
	dead := p.failures >= deadAfter
	if err == nil {
		p.failures = 0
		p.failure = ""
	} else {
		p.failures, p.failure = min(p.failures+1, deadAfter), err.Error()
	}
	if now := p.failures >= deadAfter; p.since.IsZero() && (now || err == nil) || now != dead {
		p.since = time.Now()
	}
}
