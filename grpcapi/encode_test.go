package grpcapi

import (
	"bytes"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	pb "github.com/linkerd/linkerd2-proxy-api/go/destination"
	"github.com/linkerd/linkerd2-proxy-api/go/net"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"isthmus/federation"
)

// TestTwin compares what is written byte by byte with what the generated code
// understands, for endpoints of every kind.
func TestTwin(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := Options{
			H2Upgrade: rapid.Bool().Draw(t, "h2"), ForceOpaqueTransport: rapid.Bool().Draw(t, "forced"),
			ZoneWeights: rapid.Bool().Draw(t, "weights"), TargetClusterLabel: rapid.Bool().Draw(t, "target"),
		}
		if rapid.Bool().Draw(t, "params") {
			o.MeshedHTTP2 = http2Params()
		}
		zone := rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "zone")
		list := rapid.SliceOfNDistinct(endpoints(), 1, 5, func(e *federation.Endpoint) netip.AddrPort { return e.Addr }).Draw(t, "endpoints")
		e, err := newEncoder(o)
		if err != nil {
			t.Fatal(err)
		}
		e.zone = zone
		var got, want proxy
		for _, f := range e.add(list) {
			u := &pb.Update{}
			if err := proto.Unmarshal(f.data.Materialize(), u); err != nil {
				t.Fatal(err)
			}
			got.apply(u)
		}
		all := &pb.WeightedAddrSet{}
		for _, ep := range list {
			all.Addrs = append(all.Addrs, twin(o, zone, ep))
		}
		want.apply(&pb.Update{Update: &pb.Update_Add{Add: all}})
		if !got.equal(&want) {
			t.Fatalf("got  %v\nwant %v", got.endpoints, want.endpoints)
		}
	})
}

func endpoints() *rapid.Generator[*federation.Endpoint] {
	text := rapid.OneOf(rapid.SampledFrom([]string{"", "a", "b"}), rapid.StringN(0, 200, -1))
	return rapid.Custom(func(t *rapid.T) *federation.Endpoint {
		ip := netip.AddrFrom4([4]byte(rapid.SliceOfN(rapid.Byte(), 4, 4).Draw(t, "v4")))
		if rapid.Bool().Draw(t, "six") {
			ip = netip.AddrFrom16([16]byte(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "v6"))).Unmap()
		}
		e := &federation.Endpoint{
			Addr:    netip.AddrPortFrom(ip, rapid.Uint16().Draw(t, "port")),
			Kind:    rapid.SampledFrom([]federation.Kind{federation.Address, federation.Pod, federation.Workload}).Draw(t, "kind"),
			Cluster: rapid.SampledFrom([]federation.ClusterName{"", "east"}).Draw(t, "cluster"),
			Zone:    text.Draw(t, "zone"), Authority: text.Draw(t, "authority"),
			Meshed: rapid.Bool().Draw(t, "meshed"), Opaque: rapid.Bool().Draw(t, "opaque"),
			InboundPort: rapid.SampledFrom([]uint16{0, 1, 4143, 65535}).Draw(t, "inbound"),
			Group:       rapid.SampledFrom([][]federation.Label{nil, labels("service", "x"), labels("service", "x", "target_cluster", "w")}).Draw(t, "group"),
			Labels:      labels("pod", text.Draw(t, "pod"), text.Draw(t, "name")+"!", "v"),
		}
		switch rapid.IntRange(0, 2).Draw(t, "identity") {
		case 1:
			e.Identity = federation.Identity{DNS: text.Draw(t, "dns"), ServerName: text.Draw(t, "sni")}
		case 2:
			e.Identity = federation.Identity{URI: text.Draw(t, "uri"), ServerName: text.Draw(t, "sni")}
		}
		return e
	})
}

// twin says in the generated structs what an endpoint looks like with all its
// labels.
func twin(o Options, zone string, ep *federation.Endpoint) *pb.WeightedAddr {
	a := &pb.WeightedAddr{Addr: tcp(ep.Addr), Weight: 10000, MetricLabels: map[string]string{}}
	if o.ZoneWeights && zone != "" && zone == ep.Zone {
		a.Weight = 100000
	}
	if o.TargetClusterLabel && ep.Cluster != "" {
		a.MetricLabels["target_cluster"] = string(ep.Cluster)
	}
	for _, l := range slices.Concat(ep.Group, ep.Labels) {
		a.MetricLabels[l.Name] = l.Value
	}
	if ep.Kind != federation.Address {
		a.MetricLabels["zone"] = ep.Zone
	}
	a.MetricLabels["zone_locality"] = "unknown"
	if zone != "" && ep.Zone != "" {
		a.MetricLabels["zone_locality"] = map[bool]string{true: "local", false: "remote"}[zone == ep.Zone]
	}
	if ep.Authority != "" {
		a.AuthorityOverride = &pb.AuthorityOverride{AuthorityOverride: ep.Authority}
	}
	id := &pb.TlsIdentity{}
	if ep.Identity.ServerName != "" {
		id.ServerName = &pb.TlsIdentity_DnsLikeIdentity{Name: ep.Identity.ServerName}
	}
	if ep.Identity.DNS != "" {
		id.Strategy = &pb.TlsIdentity_DnsLikeIdentity_{DnsLikeIdentity: &pb.TlsIdentity_DnsLikeIdentity{Name: ep.Identity.DNS}}
		a.TlsIdentity = id
	} else if ep.Identity.URI != "" {
		id.Strategy = &pb.TlsIdentity_UriLikeIdentity_{UriLikeIdentity: &pb.TlsIdentity_UriLikeIdentity{Uri: ep.Identity.URI}}
		a.TlsIdentity = id
	}
	hint := &pb.ProtocolHint{}
	if o.H2Upgrade || ep.Kind == federation.Workload {
		hint.Protocol = &pb.ProtocolHint_H2_{H2: &pb.ProtocolHint_H2{}}
	}
	switch ep.Kind {
	case federation.Address:
		if a.TlsIdentity == nil {
			return a
		}
		if hint.Protocol == nil {
			hint = nil
		}
	case federation.Pod:
		if !ep.Meshed {
			return a
		}
	}
	if ep.Kind != federation.Address {
		if ep.Opaque {
			hint.Protocol = &pb.ProtocolHint_Opaque_{Opaque: &pb.ProtocolHint_Opaque{}}
		}
		if ep.InboundPort > 0 && (ep.Opaque || o.ForceOpaqueTransport) {
			hint.OpaqueTransport = &pb.ProtocolHint_OpaqueTransport{InboundPort: uint32(ep.InboundPort)}
		}
	}
	a.ProtocolHint, a.Http2 = hint, o.MeshedHTTP2
	return a
}

func tcp(a netip.AddrPort) *net.TcpAddress {
	return &net.TcpAddress{Ip: ipAddress(a.Addr()), Port: uint32(a.Port())}
}

func ipAddress(ip netip.Addr) *net.IPAddress {
	b := ip.AsSlice()
	word := func(b []byte) (n uint64) {
		for _, x := range b {
			n = n<<8 + uint64(x)
		}
		return n
	}
	if len(b) == 4 {
		return &net.IPAddress{Ip: &net.IPAddress_Ipv4{Ipv4: uint32(word(b))}}
	}
	return &net.IPAddress{Ip: &net.IPAddress_Ipv6{Ipv6: &net.IPv6{First: word(b[:8]), Last: word(b[8:])}}}
}

// many are n endpoints with labels of that many bytes.
func many(n, labelBytes int) []*federation.Endpoint {
	list := make([]*federation.Endpoint, n)
	for i := range list {
		e := shop()
		e.Addr = netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}), 80)
		e.Labels = labels("pod", fmt.Sprintf("pod-%07d", i)+strings.Repeat("x", labelBytes))
		list[i] = e
	}
	return list
}

// TestLargeSets: several messages, none larger than a proxy takes, each but the last
// so full that nothing more goes in, and together the whole set.
func TestLargeSets(t *testing.T) {
	e := encoderFor(t, Options{H2Upgrade: true}, "")
	for _, tc := range []struct{ n, labelBytes, want int }{
		{9000, 500, 2}, {20_000, 0, 1}, {40_000, 100, 3}, {3, 3 << 20, 3}, {3, 5 << 20, 3}, {1, 5 << 20, 1}, {13, 300_000, 1}, {14, 300_000, 2},
	} {
		list := many(tc.n, tc.labelBytes)
		frames := e.full(&federation.Set{Endpoints: list})
		if len(frames) != tc.want {
			t.Errorf("%v: %d messages", tc, len(frames))
		}
		p := proxy{}
		one := len(e.add(list[:1])[0].data.Materialize()) // about what one takes
		for i, u := range decode(t, frames) {
			size := frames[i].data.Len()
			if size > maxMessage && len(u.GetAdd().Addrs) > 1 {
				t.Errorf("%v: message %d has %d bytes", tc, i, size)
			}
			if i < len(frames)-1 && size+one+8 <= maxMessage {
				t.Errorf("%v: message %d has only %d bytes, with %d for an address", tc, i, size, one)
			}
			p.apply(u)
		}
		for a, ep := range p.endpoints {
			if ep.MetricLabels["service"] != "simple-app-v1" {
				t.Fatalf("%v: %v ends up with the labels %v", tc, a, ep.MetricLabels)
			}
		}
		if got := p.addrs(); len(got) != tc.n || len(p.faults) > 0 {
			t.Errorf("%v: %d addresses, faults %v", tc, len(got), p.faults)
		}
	}
}

func TestLargeSteps(t *testing.T) {
	e := encoderFor(t, Options{H2Upgrade: true}, "")
	from, to := &federation.Set{Exists: true, Endpoints: many(400_000, 0)}, &federation.Set{Exists: true, Endpoints: many(1, 0)}
	frames := e.step(from, to, false)
	if len(frames) != 2 { // two removes
		t.Fatalf("%d messages", len(frames))
	}
	p := proxy{opened: true, endpoints: map[netip.AddrPort]*pb.WeightedAddr{}}
	for _, ep := range from.Endpoints {
		p.endpoints[ep.Addr] = nil
	}
	for i, u := range decode(t, frames) {
		if size := frames[i].data.Len(); size > maxMessage {
			t.Errorf("message %d has %d bytes", i, size)
		}
		p.apply(u)
	}
	if len(p.endpoints) != 1 || len(p.faults) > 0 {
		t.Errorf("%d left, faults %v", len(p.endpoints), p.faults)
	}
}

func TestSteps(t *testing.T) {
	e := encoderFor(t, Options{}, "")
	set := func(exists bool, addrs ...string) *federation.Set {
		return &federation.Set{Exists: exists, Complete: true, Endpoints: sliceOf("", pods(addrs...)...).Endpoints}
	}
	for _, tc := range []struct {
		from, to *federation.Set
		all      bool
		want     string
	}{
		{set(true, "10.0.0.1:1"), set(true, "10.0.0.1:1"), false, ""},
		{set(true, "10.0.0.1:1"), set(true, "10.0.0.1:1"), true, "add 10.0.0.1:1"},
		{set(true, "10.0.0.1:1"), set(true, "10.0.0.2:1"), true, "add 10.0.0.2:1; remove 10.0.0.1:1"},
		{set(true, "10.0.0.1:1"), set(true), true, "no_endpoints(true)"},
		{set(true, "10.0.0.1:1"), set(false), false, "no_endpoints(false)"},
		{set(true), set(true), true, ""},
		{set(true), set(false), false, "no_endpoints(false)"},
		{set(false), set(true), false, "no_endpoints(true)"},
		{set(false), set(true, "10.0.0.1:1"), false, "add 10.0.0.1:1"},
	} {
		var got []string
		for _, u := range decode(t, e.step(tc.from, tc.to, tc.all)) {
			got = append(got, line(u))
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
			t.Errorf("%d bytes are framed wrongly", n)
		}
	}
}
