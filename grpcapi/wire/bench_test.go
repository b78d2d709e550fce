package wire

import (
	"fmt"
	"strings"
	"testing"

	pb "github.com/linkerd/linkerd2-proxy-api/go/destination"
	"google.golang.org/protobuf/proto"

	"isthmus/federation"
	"isthmus/grpcapi/internal/wiretest"
)

// BenchmarkEncodeFull encodes a set's first messages, once for all streams.
func BenchmarkEncodeFull(b *testing.B) {
	for _, n := range []int{50, 1000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			e, set := encoderFor(b, benchOptions, ""), benchSet(n)
			b.ReportAllocs()
			for b.Loop() {
				e.Full(set)
			}
		})
	}
}

// BenchmarkEncodeGenerated is BenchmarkEncodeFull by the generated code.
func BenchmarkEncodeGenerated(b *testing.B) {
	for _, n := range []int{50, 1000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			set := benchSet(n)
			b.ReportAllocs()
			var buffer []byte
			for b.Loop() {
				all := &pb.WeightedAddrSet{}
				for _, ep := range set.Endpoints {
					all.Addrs = append(all.Addrs, reference(benchOptions, "", ep))
				}
				buffer = marshalInto(buffer[:0], &pb.Update{Update: &pb.Update_Add{Add: all}})
			}
		})
	}
}

var benchOptions = Options{H2Upgrade: true, ForceOpaqueTransport: true, TargetClusterLabel: true, MeshedHTTP2: wiretest.HTTP2Params()}

func benchSet(n int) *federation.Set {
	list := wiretest.Many(n, 0)
	for _, e := range list {
		e.Common = wiretest.Shop().Common
	}
	return &federation.Set{Endpoints: list}
}

func marshalInto(buffer []byte, m proto.Message) []byte {
	b, err := proto.MarshalOptions{}.MarshalAppend(buffer, m)
	if err != nil {
		panic(err)
	}
	return b
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
