package grpcapi

import (
	"cmp"
	"fmt"
	"time"

	pb "github.com/linkerd/linkerd2-proxy-api/go/destination"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"isthmus/grpcapi/wire"
)

// Options are a Server's. Zero fields mean the default.
type Options struct {
	ClusterDomain string // the DNS domain of the cluster; default cluster.local

	H2Upgrade            bool                  // hint that meshed pods accept HTTP/2
	ForceOpaqueTransport bool                  // send to every meshed endpoint through its proxy's inbound port
	ZoneWeights          bool                  // endpoints in the client's zone get ten times the weight
	TargetClusterLabel   bool                  // endpoints of linked clusters get the label target_cluster
	MeshedHTTP2          *pb.Http2ClientParams // for connections to meshed endpoints; nil: none

	Pace       time.Duration // the least time from the beginning of one message to the next change; default 50ms, negative: none
	Stall      time.Duration // ends a stream whose proxy does not take a message for this long; default 60s
	Request    time.Duration // how long a client may take to send a request, or to begin a connection; default 10s
	FirstFrame time.Duration // how long the first message waits for clusters that are pending; default 2s
	Drain      time.Duration // the time over which Drain spreads the ends of streams; default 6s, negative: at once

	ConnectionAge     time.Duration // when a proxy is made to use another connection; default 30m, negative: never
	ConcurrentStreams uint32        // how many calls a connection may have at a time; default 10,000

	ViewBytes int           // how much memory calls and views may take in all, by estimate, before calls that need more are refused; default 2 GiB
	Linger    time.Duration // how long an idle view is kept; default 30s, negative: not at all
	IdleViews int           // how many idle views are kept at most, of each RPC; default 1024
	IdleBytes int           // how much memory they take at most in all, by estimate, of each RPC; default 20 MiB

	// Stalled is called with what a stream is about that ends since its proxy takes nothing. It
	// must not block. Default: not called.
	Stalled func(destination string)

	Log        *zap.Logger           // default: none
	Registerer prometheus.Registerer // default: metrics are not exported
}

// validate fills in the defaults, and returns an error for values out of range.
func (o Options) validate() (Options, error) {
	o.ClusterDomain = cmp.Or(o.ClusterDomain, "cluster.local")
	o.Pace = cmp.Or(o.Pace, 50*time.Millisecond)
	o.Stall = cmp.Or(o.Stall, time.Minute)
	o.Request = cmp.Or(o.Request, 10*time.Second)
	o.FirstFrame = cmp.Or(o.FirstFrame, 2*time.Second)
	o.Drain = cmp.Or(o.Drain, 6*time.Second)
	o.ConnectionAge = cmp.Or(o.ConnectionAge, 30*time.Minute)
	o.ConcurrentStreams = cmp.Or(o.ConcurrentStreams, 10_000)
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
	if o.Registerer == nil {
		o.Registerer = prometheus.NewRegistry()
	}
	switch {
	case o.Stall < 0:
		return o, fmt.Errorf("stall timeout is negative: %v", o.Stall)
	case o.Request < 0:
		return o, fmt.Errorf("request timeout is negative: %v", o.Request)
	case o.FirstFrame < 0:
		return o, fmt.Errorf("first frame timeout is negative: %v", o.FirstFrame)
	case o.ViewBytes < 0:
		return o, fmt.Errorf("bytes of calls and views are negative: %d", o.ViewBytes)
	case o.IdleViews < 0:
		return o, fmt.Errorf("number of idle views is negative: %d", o.IdleViews)
	case o.IdleBytes < 0:
		return o, fmt.Errorf("bytes of idle views are negative: %d", o.IdleBytes)
	}
	return o, nil
}

// wire returns the options for encoding.
func (o Options) wire() wire.Options {
	return wire.Options{
		H2Upgrade: o.H2Upgrade, ForceOpaqueTransport: o.ForceOpaqueTransport, ZoneWeights: o.ZoneWeights,
		TargetClusterLabel: o.TargetClusterLabel, MeshedHTTP2: o.MeshedHTTP2,
	}
}
