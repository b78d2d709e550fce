package main

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	pb "github.com/linkerd/linkerd2-proxy-api/go/destination"
	pbnet "github.com/linkerd/linkerd2-proxy-api/go/net"
	"google.golang.org/protobuf/encoding/protojson"
)

// fold is what a proxy holds after the messages of one Get stream. Its zero
// value is a proxy that has heard nothing.
type fold struct {
	known, exists bool
	endpoints     map[netip.AddrPort]endpoint
}

// endpoint is what a proxy is told about one address, in the form that
// "isthmus get -o json" prints.
type endpoint struct {
	Address     netip.AddrPort    `json:"address"`
	Weight      uint32            `json:"weight"`
	Labels      map[string]string `json:"labels,omitempty"`
	Identity    *identity         `json:"identity,omitempty"`
	Protocol    string            `json:"protocol,omitempty"`
	InboundPort uint32            `json:"inboundPort,omitempty"`
	Authority   string            `json:"authority,omitempty"`
	HTTP2       json.RawMessage   `json:"http2,omitempty"`
}

type identity struct {
	DNS        string `json:"dns,omitempty"`
	URI        string `json:"uri,omitempty"`
	ServerName string `json:"serverName,omitempty"`
}

// apply folds one message in, as a proxy does: the first add replaces what it
// held, a remove before that is ignored, an empty add is dropped. The error
// says what a server must not send; what could be used of the message was.
func (f *fold) apply(u *pb.Update) error {
	switch u := u.GetUpdate().(type) {
	case *pb.Update_Add:
		return f.add(u.Add)
	case *pb.Update_Remove:
		return f.remove(u.Remove)
	case *pb.Update_NoEndpoints:
		f.known, f.exists, f.endpoints = true, u.NoEndpoints.GetExists(), nil
		return nil
	}
	return fmt.Errorf("a message that is neither add, remove nor no_endpoints")
}

func (f *fold) heard() bool { return f.known }

func (f *fold) add(set *pb.WeightedAddrSet) error {
	if len(set.GetAddrs()) == 0 {
		return fmt.Errorf("an add without addresses: a proxy drops it")
	}
	if f.endpoints == nil {
		f.endpoints = make(map[netip.AddrPort]endpoint, len(set.GetAddrs()))
	}
	f.known, f.exists = true, true
	var bad error
	for _, w := range set.GetAddrs() {
		e, err := describe(w, set.GetMetricLabels())
		if err != nil {
			bad = err
			continue
		}
		f.endpoints[e.Address] = e
	}
	return bad
}

func (f *fold) remove(set *pb.AddrSet) error {
	if !f.known {
		return fmt.Errorf("a remove before any add: a proxy ignores it")
	}
	var bad error
	for _, a := range set.GetAddrs() {
		addr, err := addrPort(a)
		if err != nil {
			bad = err
			continue
		}
		delete(f.endpoints, addr)
	}
	return bad
}

// list returns the endpoints by address; it is never nil.
func (f *fold) list() []endpoint {
	list := make([]endpoint, 0, len(f.endpoints))
	for _, e := range f.endpoints {
		list = append(list, e)
	}
	slices.SortFunc(list, func(a, b endpoint) int { return a.Address.Compare(b.Address) })
	return list
}

// describe returns what an add says about one address; group are the labels of
// the whole add.
func describe(w *pb.WeightedAddr, group map[string]string) (endpoint, error) {
	addr, err := addrPort(w.GetAddr())
	if err != nil {
		return endpoint{}, err
	}
	e := endpoint{
		Address:     addr,
		Weight:      w.GetWeight(),
		Labels:      make(map[string]string),
		InboundPort: w.GetProtocolHint().GetOpaqueTransport().GetInboundPort(),
		Authority:   w.GetAuthorityOverride().GetAuthorityOverride(),
	}
	maps.Copy(e.Labels, group)
	maps.Copy(e.Labels, w.GetMetricLabels())
	if t := w.GetTlsIdentity(); t != nil {
		e.Identity = &identity{
			DNS:        t.GetDnsLikeIdentity().GetName(),
			URI:        t.GetUriLikeIdentity().GetUri(),
			ServerName: t.GetServerName().GetName(),
		}
	}
	switch w.GetProtocolHint().GetProtocol().(type) {
	case *pb.ProtocolHint_H2_:
		e.Protocol = "h2"
	case *pb.ProtocolHint_Opaque_:
		e.Protocol = "opaque"
	}
	if w.GetHttp2() != nil {
		if e.HTTP2, err = protojson.Marshal(w.GetHttp2()); err != nil {
			return endpoint{}, fmt.Errorf("HTTP/2 parameters of %v: %w", addr, err)
		}
	}
	return e, nil
}

// addrPort reads an address.
func addrPort(a *pbnet.TcpAddress) (netip.AddrPort, error) {
	if a.GetPort() == 0 || a.GetPort() > 65535 {
		return netip.AddrPort{}, fmt.Errorf("an address with port %d", a.GetPort())
	}
	var ip netip.Addr
	switch x := a.GetIp().GetIp().(type) {
	case *pbnet.IPAddress_Ipv4:
		ip = netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, x.Ipv4)))
	case *pbnet.IPAddress_Ipv6:
		b := binary.BigEndian.AppendUint64(nil, x.Ipv6.GetFirst())
		ip = netip.AddrFrom16([16]byte(binary.BigEndian.AppendUint64(b, x.Ipv6.GetLast())))
	default:
		return netip.AddrPort{}, fmt.Errorf("an address without IP")
	}
	return netip.AddrPortFrom(ip, uint16(a.GetPort())), nil
}
