package proxy

import (
	"encoding/binary"
	"net/netip"

	pb "github.com/linkerd/linkerd2-proxy-api/go/destination"
	"github.com/linkerd/linkerd2-proxy-api/go/net"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// mostNested is how deeply messages may be nested in each other for a proxy to read them.
const mostNested = 100

// ProfileState is what a proxy knows from a GetProfile stream: the last message. The zero value knows nothing.
type ProfileState struct {
	last *pb.DestinationProfile
}

// Apply takes one message, which replaces the one before, and returns what was wrong with it.
func (s *ProfileState) Apply(p *pb.DestinationProfile) (faults []Fault) {
	s.last = p
	if nested(p.ProtoReflect(), mostNested) {
		faults = append(faults, TooDeep)
	}
	if p.Endpoint != nil {
		if _, ok := AddrPort(p.Endpoint.GetAddr()); !ok {
			faults = append(faults, BadAddress)
		}
	}
	return faults
}

// nested reports whether messages are nested in m more deeply than that.
func nested(m protoreflect.Message, deep int) (found bool) {
	m.Range(func(field protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case field.Message() == nil || field.IsMap(): // the maps of profiles hold texts
		case deep == 0:
			found = true
		case field.IsList():
			for i := 0; i < v.List().Len() && !found; i++ {
				found = nested(v.List().Get(i).Message(), deep-1)
			}
		default:
			found = nested(v.Message(), deep-1)
		}
		return !found
	})
	return found
}

// Profile returns the last message, not to be changed, or nil.
func (s *ProfileState) Profile() *pb.DestinationProfile { return s.last }

// JSON returns the profile as a tree of JSON values, nil before the first message. What makes no difference to a
// client is levelled: the endpoint's address is text, an endpoint of which only address and weight are known is left
// out, and so are a profile reference without a name and the kind of one that has a name.
func (s *ProfileState) JSON() (any, error) {
	if s.last == nil {
		return nil, nil
	}
	tree, err := jsonTree(s.last)
	if err != nil {
		return nil, err
	}
	if endpoint, ok := tree["endpoint"].(map[string]any); ok {
		delete(endpoint, "addr")
		delete(endpoint, "weight")
		if len(endpoint) == 0 {
			delete(tree, "endpoint")
		} else {
			if w := s.last.GetEndpoint().GetWeight(); w != 0 {
				endpoint["weight"] = float64(w)
			}
			if addr, ok := AddrPort(s.last.GetEndpoint().GetAddr()); ok {
				endpoint["addr"] = addr.String()
			}
		}
	}
	if ref, ok := tree["profileRef"].(map[string]any); ok {
		resource, _ := ref["resource"].(map[string]any)
		delete(resource, "kind")
		if resource["name"] == nil && ref["default"] == nil {
			delete(tree, "profileRef")
		}
	}
	return tree, nil
}

// AddrPort reads an address of the Destination API; false means that it holds none.
func AddrPort(a *net.TcpAddress) (netip.AddrPort, bool) {
	if a.GetPort() > 65535 {
		return netip.AddrPort{}, false
	}
	var ip netip.Addr
	switch v := a.GetIp().GetIp().(type) {
	case *net.IPAddress_Ipv4:
		ip = netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, v.Ipv4)))
	case *net.IPAddress_Ipv6:
		b := binary.BigEndian.AppendUint64(nil, v.Ipv6.GetFirst())
		ip = netip.AddrFrom16([16]byte(binary.BigEndian.AppendUint64(b, v.Ipv6.GetLast())))
	default:
		return netip.AddrPort{}, false
	}
	return netip.AddrPortFrom(ip, uint16(a.GetPort())), true
}
