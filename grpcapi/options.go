package grpcapi

import (
	"cmp"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"isthmus/grpcapi/wire"
	"isthmus/internal/panics"
)

// Options are a Server's. Zero fields mean the default. Negative ones have a meaning only where they say so.
type Options struct {
	ClusterDomain string // the DNS domain of the cluster; default cluster.local

	Messages wire.Options // how endpoints are described to proxies

	Pace       time.Duration // the least time from the beginning of one message to the next change; default 50ms, negative: none
	Stall      time.Duration // ends a stream whose proxy does not take a message for this long; default 60s
	Request    time.Duration // how long a client may take to send a request, or to begin a connection; default 10s
	FirstFrame time.Duration // how long the first message waits for clusters that are pending; default 2s
	Drain      time.Duration // the time over which Drain spreads the ends of streams; default 6s, negative: at once

	ConnectionAge     time.Duration // when a proxy is made to use another connection; default 30m, negative: never
	ConcurrentStreams uint32        // how many calls a connection may have at a time; default 10,000

	// how many calls may be open at a time, of all connections, before further ones are refused;
	// default 150,000
	Streams int
	// how much memory views may take in all, by estimate, before calls that need more are refused;
	// default 2 GiB
	ViewBytes int

	Linger    time.Duration // how long an idle view is kept; default 30s, negative: not at all
	IdleViews int           // how many idle views are kept at most, of each RPC; default 1024
	IdleBytes int           // how much memory they take at most in all, by estimate, of each RPC; default 20 MiB

	// Stalled is called with what a stream is about that ends since its proxy takes nothing. It
	// must not block. Default: not called.
	Stalled func(destination string)

	// Supervisor counts and logs panics. Each ends the call that it comes from. Default: one that is not registered.
	Supervisor *panics.Supervisor

	Log        *zap.Logger           // default: none
	Registerer prometheus.Registerer // default: metrics are not exported
}

// withDefaults fills in the defaults.
func (o Options) withDefaults() Options {
	o.ClusterDomain = cmp.Or(o.ClusterDomain, "cluster.local")
	o.Pace = cmp.Or(o.Pace, 50*time.Millisecond)
	o.Stall = cmp.Or(o.Stall, time.Minute)
	o.Request = cmp.Or(o.Request, 10*time.Second)
	o.FirstFrame = cmp.Or(o.FirstFrame, 2*time.Second)
	o.Drain = cmp.Or(o.Drain, 6*time.Second)
	o.ConnectionAge = cmp.Or(o.ConnectionAge, 30*time.Minute)
	o.ConcurrentStreams = cmp.Or(o.ConcurrentStreams, 10_000)
	o.Streams = cmp.Or(o.Streams, 150_000)
	o.ViewBytes = cmp.Or(o.ViewBytes, 2<<30)
	o.Linger = cmp.Or(o.Linger, 30*time.Second)
	o.IdleViews = cmp.Or(o.IdleViews, 1024)
	o.IdleBytes = cmp.Or(o.IdleBytes, 20<<20)
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	if o.Stalled == nil {
		o.Stalled = func(string) {}
	}
	if o.Supervisor == nil {
		o.Supervisor = panics.New(o.Log)
	}
	if o.Registerer == nil {
		o.Registerer = prometheus.NewRegistry()
	}
	return o
}
