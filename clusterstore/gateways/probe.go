package gateways

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"time"

	"isthmus/clusterstore/cluster"
)

const (
	deadAfter   = 3 // failures in a row
	probeTake   = 5 * time.Second
	probeAnswer = 4 << 10 // bytes that are read of an answer's header
)

// probed is what a prober asks. Gateways of one address and probe share one.
type probed struct {
	ip    netip.Addr
	probe cluster.Probe
}

// health is what is known by probing.
type health struct {
	failures int // in a row
	failure  string
	since    time.Time // of being alive or dead; zero: not known yet
}

// prober probes. All under Tracker.mu.
type prober struct {
	cancel context.CancelFunc // fixed
	health
}

// gone is what was known of an address when it was probed last.
type gone struct {
	health
	at time.Time
}

// remember keeps what a prober that has been cancelled knows, for some time: an address that
// comes back, or is probed in another way, is not unknown. t.mu is held.
func (t *Tracker) remember(ip netip.Addr, p *prober) {
	maps.DeleteFunc(t.gone, func(_ netip.Addr, g gone) bool { return time.Since(g.at) > rememberFor })
	if len(t.gone) == mostRemembered {
		delete(t.gone, slices.MinFunc(slices.Collect(maps.Keys(t.gone)), func(a, b netip.Addr) int { return t.gone[a].at.Compare(t.gone[b].at) }))
	}
	t.gone[ip] = gone{p.health, time.Now()}
}

// startProber starts to probe. What is known of the address by a probe that is needed no more
// stays until this one shows otherwise. t.mu is held.
func (t *Tracker) startProber(ctx context.Context, running *sync.WaitGroup, key probed) {
	ctx, cancel := context.WithCancel(ctx)
	p := &prober{cancel: cancel}
	if g := t.gone[key.ip]; time.Since(g.at) <= rememberFor {
		p.health = g.health
	}
	t.probers[key] = p
	running.Go(func() {
		for ctx.Err() == nil {
			began := time.Now()
			err := t.probe(ctx, key)
			if ctx.Err() != nil {
				return
			}
			t.note(p, err)
			wait := time.NewTimer(max(key.probe.Period-time.Since(began), 0))
			select {
			case <-wait.C:
			case <-ctx.Done():
			}
			wait.Stop()
		}
	})
}

// probe probes once.
func (t *Tracker) probe(ctx context.Context, key probed) error {
	ctx, cancel := context.WithTimeout(ctx, probeTake)
	defer cancel()
	began := time.Now()
	defer func() { t.cfg.Probed(time.Since(began)) }()
	return t.cfg.Probe(ctx, key.ip, key.probe)
}

// note notes a probe's result.
func (t *Tracker) note(p *prober, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	dead := p.failures >= deadAfter
	if err == nil {
		p.failures, p.failure = 0, ""
	} else {
		p.failures, p.failure = min(p.failures+1, deadAfter), err.Error()
	}
	if now := p.failures >= deadAfter; p.since.IsZero() && (now || err == nil) || now != dead {
		p.since = time.Now()
	}
	t.publish()
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
