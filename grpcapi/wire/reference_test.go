package wire

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	pb "github.com/linkerd/linkerd2-proxy-api/go/destination"
	"github.com/linkerd/linkerd2-proxy-api/go/net"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"isthmus/federation"
	"isthmus/grpcapi/internal/wiretest"
)

// TestEndpointReference compares the encoding with that of the generated code, for all kinds of
// endpoints.
func TestEndpointReference(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := Options{
			H2Upgrade: rapid.Bool().Draw(t, "h2"), ForceOpaqueTransport: rapid.Bool().Draw(t, "forced"),
			ZoneWeights: rapid.Bool().Draw(t, "weights"), TargetClusterLabel: rapid.Bool().Draw(t, "target"),
		}
		if rapid.Bool().Draw(t, "params") {
			o.MeshedHTTP2 = wiretest.HTTP2Params()
		}
		zone := rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "zone")
		address := func(e *federation.Endpoint) netip.AddrPort { return e.Addr }
		list := rapid.SliceOfNDistinct(endpoints(), 1, 5, address).Draw(t, "endpoints")
		e, err := NewEncoder(o)
		if err != nil {
			t.Fatal(err)
		}
		e = e.InZone(zone)
		var got, want proxy
		for _, f := range e.add(list) {
			u := &pb.Update{}
			if err := proto.Unmarshal(f.data.Materialize(), u); err != nil {
				t.Fatal(err)
			}
			got.Apply(u)
		}
		all := &pb.WeightedAddrSet{}
		for _, ep := range list {
			all.Addrs = append(all.Addrs, reference(o, zone, ep))
		}
		want.Apply(&pb.Update{Update: &pb.Update_Add{Add: all}})
		if !got.Equal(&want) {
			t.Fatalf("got  %v\nwant %v", got.Endpoints, want.Endpoints)
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
			Addr: netip.AddrPortFrom(ip, rapid.Uint16().Draw(t, "port")),
			Kind: rapid.SampledFrom([]federation.Kind{federation.Address, federation.Pod, federation.Workload}).
				Draw(t, "kind"),
			Cluster: rapid.SampledFrom([]federation.ClusterName{"", "east"}).Draw(t, "cluster"),
			Zone:    text.Draw(t, "zone"),
			Meshed:  rapid.Bool().Draw(t, "meshed"), Opaque: rapid.Bool().Draw(t, "opaque"),
			InboundPort: rapid.SampledFrom([]uint16{0, 1, 4143, 65535}).Draw(t, "inbound"),
		}
		common := federation.Common{
			Group: rapid.SampledFrom([][]federation.Label{
				nil,
				wiretest.Labels("service", "x"),
				wiretest.Labels("service", "x", "target_cluster", "w"),
			}).
				Draw(t, "group"),
			Labels:    wiretest.Labels("pod", text.Draw(t, "pod"), text.Draw(t, "name")+"!", "v"),
			Authority: text.Draw(t, "authority"),
		}
		if e.Kind != federation.Address && rapid.Bool().Draw(t, "named") {
			e.Twin, common.Labels = "shop/"+strings.ReplaceAll(common.Labels[0].Value, "/", "")+"x", common.Labels[1:]
		}
		switch rapid.IntRange(0, 2).Draw(t, "identity") {
		case 1:
			common.Identity = federation.Identity{DNS: text.Draw(t, "dns"), ServerName: text.Draw(t, "sni")}
		case 2:
			common.Identity = federation.Identity{URI: text.Draw(t, "uri"), ServerName: text.Draw(t, "sni")}
		}
		if !rapid.Bool().Draw(t, "nothing in common") {
			e.Common = &common
		}
		return e
	})
}

// reference returns an endpoint with all its labels, as the generated struct.
func reference(o Options, zone string, ep *federation.Endpoint) *pb.WeightedAddr {
	a := &pb.WeightedAddr{Addr: tcp(ep.Addr), Weight: 10000, MetricLabels: map[string]string{}}
	if o.ZoneWeights && zone != "" && zone == ep.Zone && ep.Kind != federation.Address {
		a.Weight = 100000
	}
	if o.TargetClusterLabel && ep.Cluster != "" {
		a.MetricLabels["target_cluster"] = string(ep.Cluster)
	}
	common := ep.Common.Get()
	for _, l := range slices.Concat(common.Group, common.Labels) {
		a.MetricLabels[l.Name] = l.Value
	}
	if ep.Twin != "" {
		a.MetricLabels[map[federation.Kind]string{
			federation.Pod:      "pod",
			federation.Workload: "external_workload",
		}[ep.Kind]] = ep.Twin[strings.LastIndex(ep.Twin, "/")+1:]
	}
	if ep.Kind != federation.Address {
		a.MetricLabels["zone"] = ep.Zone
	}
	a.MetricLabels["zone_locality"] = "unknown"
	if zone != "" && ep.Zone != "" && ep.Kind != federation.Address {
		a.MetricLabels["zone_locality"] = map[bool]string{true: "local", false: "remote"}[zone == ep.Zone]
	}
	if common.Authority != "" {
		a.AuthorityOverride = &pb.AuthorityOverride{AuthorityOverride: common.Authority}
	}
	id := &pb.TlsIdentity{}
	if common.Identity.ServerName != "" {
		id.ServerName = &pb.TlsIdentity_DnsLikeIdentity{Name: common.Identity.ServerName}
	}
	if common.Identity.DNS != "" {
		id.Strategy = &pb.TlsIdentity_DnsLikeIdentity_{
			DnsLikeIdentity: &pb.TlsIdentity_DnsLikeIdentity{Name: common.Identity.DNS},
		}
		a.TlsIdentity = id
	} else if common.Identity.URI != "" {
		id.Strategy = &pb.TlsIdentity_UriLikeIdentity_{
			UriLikeIdentity: &pb.TlsIdentity_UriLikeIdentity{Uri: common.Identity.URI},
		}
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

// BenchmarkEncodeFull encodes the first messages of a set.
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

// BenchmarkEncodeGenerated is BenchmarkEncodeFull with the generated code.
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

var benchOptions = Options{
	H2Upgrade:            true,
	ForceOpaqueTransport: true,
	TargetClusterLabel:   true,
	MeshedHTTP2:          wiretest.HTTP2Params(),
}

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

// BenchmarkGetProfileEncode encodes a profile.
func BenchmarkGetProfileEncode(b *testing.B) {
	for name, p := range map[string]*federation.Profile{
		"service":  wiretest.WebProfile(),
		"routes":   wiretest.WebProfile(strings.Fields(strings.Repeat("route ", 20))...),
		"endpoint": {Endpoint: wiretest.Shop()},
	} {
		b.Run(name, func(b *testing.B) {
			e := encoderFor(b, Options{H2Upgrade: true, MeshedHTTP2: wiretest.HTTP2Params()}, "")
			b.ReportAllocs()
			for b.Loop() { // each time like a new ServiceProfile
				e.Profile(p, NewRoutings(anySize).Of(p.Routes, p.Port))
			}
		})
	}
}
