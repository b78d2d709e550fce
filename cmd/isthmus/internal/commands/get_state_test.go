package commands

import (
	"encoding/binary"
	"net/netip"

	pb "github.com/linkerd/linkerd2-proxy-api/go/destination"
	pbnet "github.com/linkerd/linkerd2-proxy-api/go/net"
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
