package wire

import (
	"bytes"
	"net/netip"
	"strings"
	"testing"

	pb "github.com/linkerd/linkerd2-proxy-api/go/destination"
	"google.golang.org/protobuf/encoding/protowire"

	"isthmus/federation"
	"isthmus/grpcapi/internal/wiretest"
)

// TestLargeSets: several messages, none larger than a proxy accepts, each but the last
// so full that no further endpoint fits, and together the whole set.
func TestLargeSets(t *testing.T) {
	e := encoderFor(t, Options{H2Upgrade: true}, "")
	for _, tc := range []struct{ n, labelBytes, want int }{
		{9000, 500, 2}, {20_000, 0, 1}, {40_000, 100, 3}, {3, 3 << 20, 3}, {3, 5 << 20, 3}, {1, 5 << 20, 1}, {13, 300_000, 1}, {14, 300_000, 2},
	} {
		list := wiretest.Many(tc.n, tc.labelBytes)
		frames := e.Full(&federation.Set{Endpoints: list})
		if len(frames) != tc.want {
			t.Errorf("%v: %d messages", tc, len(frames))
		}
		p := proxy{}
		one := len(e.add(list[:1])[0].data.Materialize()) // about the size of one endpoint
		for i, u := range wiretest.Decode(t, NewCodec(), frames) {
			size := frames[i].data.Len()
			if size > maxMessage && len(u.GetAdd().Addrs) > 1 {
				t.Errorf("%v: message %d has %d bytes", tc, i, size)
			}
			if i < len(frames)-1 && size+one+8 <= maxMessage {
				t.Errorf("%v: message %d has only %d bytes, with %d for an address", tc, i, size, one)
			}
			p.Apply(u)
		}
		for a, ep := range p.Endpoints {
			if ep.MetricLabels["service"] != "simple-app-v1" {
				t.Fatalf("%v: %v has the labels %v", tc, a, ep.MetricLabels)
			}
		}
		if got := p.Addrs(); len(got) != tc.n || len(p.Faults) > 0 {
			t.Errorf("%v: %d addresses, faults %v", tc, len(got), p.Faults)
		}
	}
}

func TestLargeSteps(t *testing.T) {
	e := encoderFor(t, Options{H2Upgrade: true}, "")
	from, to := &federation.Set{Exists: true, Endpoints: wiretest.Many(400_000, 0)}, &federation.Set{Exists: true, Endpoints: wiretest.Many(1, 0)}
	frames := e.Step(from, to, false)
	if len(frames) != 2 { // two removes
		t.Fatalf("%d messages", len(frames))
	}
	p := proxy{Opened: true, Endpoints: map[netip.AddrPort]*pb.WeightedAddr{}}
	for _, ep := range from.Endpoints {
		p.Endpoints[ep.Addr] = nil
	}
	for i, u := range wiretest.Decode(t, NewCodec(), frames) {
		if size := frames[i].data.Len(); size > maxMessage {
			t.Errorf("message %d has %d bytes", i, size)
		}
		p.Apply(u)
	}
	if len(p.Endpoints) != 1 || len(p.Faults) > 0 {
		t.Errorf("%d left, faults %v", len(p.Endpoints), p.Faults)
	}
}

// at returns endpoints with nothing but an address.
func at(addrs ...string) []*federation.Endpoint {
	var list []*federation.Endpoint
	for _, a := range addrs {
		list = append(list, &federation.Endpoint{Addr: netip.MustParseAddrPort(a)})
	}
	return list
}

// TestSteps checks that a step is one message that adds endpoints, and then one that removes endpoints.
//
// Behaviours, PR-26, CS-10.
func TestSteps(t *testing.T) {
	e := encoderFor(t, Options{}, "")
	set := func(exists bool, addrs ...string) *federation.Set {
		return &federation.Set{Exists: exists, Complete: true, Endpoints: at(addrs...)}
	}
	for _, tc := range []struct {
		from, to *federation.Set
		all      bool
		want     string
	}{
		{set(true, "10.0.0.1:1"), set(true, "10.0.0.1:1"), false, ""},
		{set(true, "10.0.0.1:1"), set(true, "10.0.0.1:1"), true, "add 10.0.0.1:1"},
		{set(true, "10.0.0.1:1"), set(true, "10.0.0.2:1"), true, "add 10.0.0.2:1; remove 10.0.0.1:1"},
		{set(true, "10.0.0.1:1", "[2001:db8::94]:1"), set(true, "10.0.0.1:1"), false, "remove [2001:db8::94]:1"},
		{set(true, "10.0.0.1:1"), set(true), true, "no_endpoints(true)"},
		{set(true, "10.0.0.1:1"), set(false), false, "no_endpoints(false)"},
		{set(true), set(true), true, ""},
		{set(true), set(false), false, "no_endpoints(false)"},
		{set(false), set(true), false, "no_endpoints(true)"},
		{set(false), set(true, "10.0.0.1:1"), false, "add 10.0.0.1:1"},
	} {
		var got []string
		for _, u := range wiretest.Decode(t, NewCodec(), e.Step(tc.from, tc.to, tc.all)) {
			got = append(got, wiretest.Line(u))
		}
		if s := strings.Join(got, "; "); s != tc.want {
			t.Errorf("from %v (%v) to %v (%v), all=%v: got %q, want %q", tc.from.Endpoints, tc.from.Exists, tc.to.Endpoints, tc.to.Exists, tc.all, s, tc.want)
		}
	}
}

func TestNested(t *testing.T) {
	for _, n := range []int{0, 1, 127, 128, 129, 16383, 16384, 1 << 21} {
		body := strings.Repeat("y", n)
		got := nested([]byte("before"), 7, func(b []byte) []byte { return append(b, body...) })
		want := protowire.AppendString(protowire.AppendTag([]byte("before"), 7, protowire.BytesType), body)
		if !bytes.Equal(got, want) {
			t.Errorf("%d bytes are encoded wrongly", n)
		}
	}
}
