package client

import (
	"encoding/binary"
	"net/netip"
	"strings"
	"testing"

	pb "github.com/linkerd/linkerd2-proxy-api/go/destination"
	pbnet "github.com/linkerd/linkerd2-proxy-api/go/net"
	"google.golang.org/protobuf/types/known/durationpb"
)

func tcp(s string) *pbnet.TcpAddress {
	a := netip.MustParseAddrPort(s)
	if a.Addr().Is4() {
		b := a.Addr().As4()
		return &pbnet.TcpAddress{Port: uint32(a.Port()), Ip: &pbnet.IPAddress{Ip: &pbnet.IPAddress_Ipv4{Ipv4: binary.BigEndian.Uint32(b[:])}}}
	}
	b := a.Addr().As16()
	return &pbnet.TcpAddress{Port: uint32(a.Port()), Ip: &pbnet.IPAddress{Ip: &pbnet.IPAddress_Ipv6{
		Ipv6: &pbnet.IPv6{First: binary.BigEndian.Uint64(b[:8]), Last: binary.BigEndian.Uint64(b[8:])}}}}
}

func add(addrs ...string) *pb.Update {
	set := &pb.WeightedAddrSet{}
	for _, a := range addrs {
		set.Addrs = append(set.Addrs, &pb.WeightedAddr{Addr: tcp(a), Weight: 10000})
	}
	return &pb.Update{Update: &pb.Update_Add{Add: set}}
}

func remove(addrs ...string) *pb.Update {
	set := &pb.AddrSet{}
	for _, a := range addrs {
		set.Addrs = append(set.Addrs, tcp(a))
	}
	return &pb.Update{Update: &pb.Update_Remove{Remove: set}}
}

func none(exists bool) *pb.Update {
	return &pb.Update{Update: &pb.Update_NoEndpoints{NoEndpoints: &pb.NoEndpoints{Exists: exists}}}
}

func TestGetState(t *testing.T) {
	const a, b, c = "10.0.0.1:80", "10.0.0.2:80", "[fd00::1]:80"
	for _, x := range []struct {
		name   string
		in     []*pb.Update
		want   string // addresses
		exists bool
		fault  string // of the last message
	}{
		{"nothing", nil, "", false, ""},
		{"add", []*pb.Update{add(b, a, c)}, a + " " + b + " " + c, true, ""},
		{"adds upsert", []*pb.Update{add(a), add(a, b)}, a + " " + b, true, ""},
		{"remove", []*pb.Update{add(a, b), remove(a)}, b, true, ""},
		{"remove of what is not there", []*pb.Update{add(a), remove(b)}, a, true, ""},
		{"all removed", []*pb.Update{add(a), remove(a)}, "", true, ""},
		{"remove first", []*pb.Update{remove(a)}, "", false, "a remove before any add"},
		{"empty add", []*pb.Update{add(a), add()}, a, true, "an add without addresses"},
		{"empty add first", []*pb.Update{add(), remove(a)}, "", false, "a remove before any add"},
		{"none", []*pb.Update{add(a), none(true)}, "", true, ""},
		{"gone", []*pb.Update{add(a), none(false)}, "", false, ""},
		{"back", []*pb.Update{none(false), add(a)}, a, true, ""},
		{"nothing in it", []*pb.Update{add(a), {}}, a, true, "neither add, remove nor no_endpoints"},
		{"bad address", []*pb.Update{{Update: &pb.Update_Add{Add: &pb.WeightedAddrSet{Addrs: []*pb.WeightedAddr{{}, {Addr: tcp(a)}}}}}}, a, true, "port 0"},
		{"no IP", []*pb.Update{{Update: &pb.Update_Add{Add: &pb.WeightedAddrSet{Addrs: []*pb.WeightedAddr{{Addr: &pbnet.TcpAddress{Port: 1}}}}}}}, "", true, "without IP"},
		{"bad address removed", []*pb.Update{add(a, b), {Update: &pb.Update_Remove{Remove: &pb.AddrSet{Addrs: []*pbnet.TcpAddress{nil, tcp(a)}}}}}, b, true, "port 0"},
	} {
		t.Run(x.name, func(t *testing.T) {
			var s getState
			var fault error
			for _, u := range x.in {
				fault = s.apply(u)
			}
			var got []string
			for _, e := range s.list() {
				got = append(got, e.Address.String())
			}
			if strings.Join(got, " ") != x.want || s.exists != x.exists {
				t.Errorf("%v, exists %t", got, s.exists)
			}
			if (fault == nil) != (x.fault == "") || fault != nil && !strings.Contains(fault.Error(), x.fault) {
				t.Errorf("fault %v, want %q", fault, x.fault)
			}
		})
	}
}

// full is an add with every field.
func full() *pb.Update {
	dns := func(s string) *pb.TlsIdentity_DnsLikeIdentity { return &pb.TlsIdentity_DnsLikeIdentity{Name: s} }
	return &pb.Update{Update: &pb.Update_Add{Add: &pb.WeightedAddrSet{
		MetricLabels: map[string]string{"service": "web", "zone": "overridden"},
		Addrs: []*pb.WeightedAddr{{
			Addr: tcp("10.0.0.1:80"), Weight: 10000,
			MetricLabels:      map[string]string{"pod": "web-1", "zone": "west-1a", "zone_locality": "remote", "target_cluster": "east"},
			TlsIdentity:       &pb.TlsIdentity{Strategy: &pb.TlsIdentity_DnsLikeIdentity_{DnsLikeIdentity: dns("web.id")}, ServerName: dns("web.sni")},
			ProtocolHint:      &pb.ProtocolHint{Protocol: &pb.ProtocolHint_H2_{H2: &pb.ProtocolHint_H2{}}, OpaqueTransport: &pb.ProtocolHint_OpaqueTransport{InboundPort: 4143}},
			AuthorityOverride: &pb.AuthorityOverride{AuthorityOverride: "web.east:80"},
			Http2:             &pb.Http2ClientParams{KeepAlive: &pb.Http2ClientParams_KeepAlive{Interval: durationpb.New(10e9), WhileIdle: true}},
		}, {
			Addr: tcp("[fd00::1]:80"), Weight: 1,
			MetricLabels: map[string]string{"external_workload": "vm-1"},
			TlsIdentity:  &pb.TlsIdentity{Strategy: &pb.TlsIdentity_UriLikeIdentity_{UriLikeIdentity: &pb.TlsIdentity_UriLikeIdentity{Uri: "spiffe://vm"}}},
			ProtocolHint: &pb.ProtocolHint{Protocol: &pb.ProtocolHint_Opaque_{Opaque: &pb.ProtocolHint_Opaque{}}},
		}, {
			Addr: tcp("10.0.0.2:80"), Weight: 10000, ProtocolHint: &pb.ProtocolHint{}, MetricLabels: map[string]string{"zone": "", "zone_locality": "unknown"},
		}},
	}}}
}
