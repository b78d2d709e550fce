package wire

import (
	pb "github.com/linkerd/linkerd2-proxy-api/go/destination"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"isthmus/federation"
)

// Options change how endpoints are described to proxies. Zero fields are off.
type Options struct {
	H2Upgrade            bool                  // hint that meshed pods accept HTTP/2
	ForceOpaqueTransport bool                  // send to every meshed endpoint through its proxy's inbound port
	ZoneWeights          bool                  // endpoints in the client's zone get ten times the weight
	TargetClusterLabel   bool                  // endpoints of linked clusters get the label target_cluster
	MeshedHTTP2          *pb.Http2ClientParams // for connections to meshed endpoints; nil: none
}

// Encoder encodes messages for the clients of one zone. It is immutable, and safe for
// concurrent use.
type Encoder struct {
	zone    string           // the client's; empty: unknown
	tiers   federation.Tiers // see Explaining; zero: for proxies
	options Options
	http2   []byte // the encoded field of MeshedHTTP2; nil: none
}

// NewEncoder returns an Encoder for clients whose zone is not known. It returns an
// error if the HTTP/2 parameters can't be encoded, and does not keep them.
func NewEncoder(o Options) (Encoder, error) {
	e := Encoder{options: o}
	e.options.MeshedHTTP2 = nil
	if o.MeshedHTTP2 != nil {
		params, err := proto.Marshal(o.MeshedHTTP2)
		if err != nil {
			return e, err
		}
		e.http2 = protowire.AppendBytes(protowire.AppendTag(nil, addrHTTP2, protowire.BytesType), params)
	}
	return e, nil
}

// InZone returns an Encoder for clients of that zone; empty: not known.
func (e Encoder) InZone(zone string) Encoder {
	e.zone = zone
	return e
}

// Explaining returns an Encoder for a client that is no proxy, and that wants to know why
// it gets the endpoints: they have the labels isthmus_tier and isthmus_standing, unless
// clients of the service simply get everything.
func (e Encoder) Explaining(t federation.Tiers) Encoder {
	e.tiers = t
	return e
}
