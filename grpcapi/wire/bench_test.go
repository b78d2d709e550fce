package wire

import (
	"fmt"
	"strings"
	"testing"

	"isthmus/federation"
	"isthmus/grpcapi/internal/wiretest"
)

// BenchmarkEncodeFull encodes a set's first messages, once for all streams.
func BenchmarkEncodeFull(b *testing.B) {
	for _, n := range []int{50, 1000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			list := wiretest.Many(n, 0)
			for _, e := range list {
				e.Common = wiretest.Shop().Common
			}
			e := encoderFor(b, Options{H2Upgrade: true, ForceOpaqueTransport: true, TargetClusterLabel: true, MeshedHTTP2: wiretest.HTTP2Params()}, "")
			set := &federation.Set{Endpoints: list}
			b.ReportAllocs()
			for b.Loop() {
				e.Full(set)
			}
		})
	}
}

// BenchmarkGetProfileEncode encodes a profile, once for all streams.
func BenchmarkGetProfileEncode(b *testing.B) {
	for name, p := range map[string]*federation.Profile{
		"service": wiretest.WebProfile(), "routes": wiretest.WebProfile(strings.Fields(strings.Repeat("route ", 20))...), "endpoint": {Endpoint: wiretest.Shop()},
	} {
		b.Run(name, func(b *testing.B) {
			e := encoderFor(b, Options{H2Upgrade: true, MeshedHTTP2: wiretest.HTTP2Params()}, "")
			b.ReportAllocs()
			for b.Loop() { // each time as if its ServiceProfile were new
				e.Profile(p, NewRoutings(anySize).Of(p.Routes, p.Port))
			}
		})
	}
}
