package proxy

import (
	"encoding/binary"
	"net/netip"

	pb "github.com/linkerd/linkerd2-proxy-api/go/destination"
	"github.com/linkerd/linkerd2-proxy-api/go/net"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// mostNested is the maximum nesting depth of messages that a proxy can read.
const mostNested = 100

// ProfileState is the state that a proxy derives from a GetProfile stream: the last message. The
// zero value is an empty state.
type ProfileState struct {
	last *pb.DestinationProfile
}

// Apply replaces the state with a message and returns the faults in the message.
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

// nested reports whether m contains messages nested deeper than the given depth.
func nested(m protoreflect.Message, deep int) (found bool) {
	m.Range(func(field protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case field.Message() == nil || field.IsMap(): // the maps in profiles only contain strings
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

// Profile returns the last message, or nil. The caller must not change the message.
func (s *ProfileState) Profile() *pb.DestinationProfile { return s.last }

// JSON returns the profile as a tree of JSON values, or nil before the first message. The tree is
// normalized: differences without any effect on clients are removed. The endpoint's address is a
// string. An endpoint that only contains an address and a weight is omitted. The kind of a profile
// reference is omitted, and so is a profile reference without a name.
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

// AddrPort converts an address of the Destination API. It returns false if the address is missing
// or invalid.
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
