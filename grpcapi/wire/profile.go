package wire

import (
	"cmp"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	pb "github.com/linkerd/linkerd2-proxy-api/go/destination"
	"github.com/linkerd/linkerd2-proxy-api/go/http_types"
	"github.com/linkerd/linkerd2-proxy-api/go/meta"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"isthmus/federation"
)

// profileEndpoint is the number of that field of DestinationProfile: its value has an encoder
// of its own, as in Update.
const profileEndpoint protowire.Number = 6

// defaultBudget is Linkerd's default retry budget.
func defaultBudget() *federation.RetryBudget {
	return &federation.RetryBudget{Ratio: 0.2, MinPerSecond: 10, TTL: 10 * time.Second}
}

// marshal encodes a message, the same bytes for the same message.
func marshal(m proto.Message) []byte {
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		panic(fmt.Sprintf("a profile can't be encoded: %v", err)) // only a text that is not UTF-8 could not be: see valid
	}
	return b
}

// valid returns a text as valid UTF-8: proxies reject anything else.
func valid(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

// Profile encodes a profile as one message, with the routing if it is a service's.
// For a destination without a profile the message is empty.
func (e *Encoder) Profile(p *federation.Profile, r *Routing) *Frame {
	var parts mem.BufferSlice
	switch {
	case p.Endpoint != nil:
		parts = mem.BufferSlice{mem.SliceBuffer(e.endpointProfile(p.Endpoint))}
	case p.Reason == federation.Resolved:
		parts = mem.BufferSlice{r.data(), mem.SliceBuffer(marshal(serviceProfile(p)))}
	}
	return &Frame{parts}
}

// endpointProfile encodes an endpoint's profile. As in Linkerd's controller the label zone is
// always empty: the zone is not sent here.
func (e *Encoder) endpointProfile(ep *federation.Endpoint) []byte {
	b := marshal(&pb.DestinationProfile{RetryBudget: retryBudget(defaultBudget()), OpaqueProtocol: ep.Opaque})
	return nested(b, profileEndpoint, func(b []byte) []byte {
		b = nested(b, addrAddr, func(b []byte) []byte { return appendTCP(b, ep.Addr) })
		b = appendNumber(b, addrWeight, weight)
		var room [labelRoom]federation.Label
		for _, l := range appendOwn(room[:0], ep) {
			b = appendLabel(b, addrLabels, l.Name, l.Value)
		}
		if ep.Kind != federation.Address {
			b = appendLabel(b, addrLabels, "zone", "")
		}
		return e.appendPeer(b, ep)
	})
}

// serviceProfile returns the fields of a service's profile that are not part of the routing.
func serviceProfile(p *federation.Profile) *pb.DestinationProfile {
	return &pb.DestinationProfile{
		OpaqueProtocol: p.Opaque, FullyQualifiedName: valid(p.Name),
		ParentRef: resource(&meta.Resource{
			Group: "core", Kind: "Service", Name: valid(p.Service.Name), Namespace: valid(p.Service.Namespace), Port: uint32(p.Port),
		}),
	}
}

// routing returns the fields that come from a ServiceProfile.
func routing(sp *federation.ServiceProfile, port uint16) *pb.DestinationProfile {
	d := &pb.DestinationProfile{RetryBudget: retryBudget(cmp.Or(sp.Budget, defaultBudget()))}
	for i := range sp.Routes {
		d.Routes = append(d.Routes, route(&sp.Routes[i]))
	}
	for _, o := range sp.Overrides {
		d.DstOverrides = append(d.DstOverrides, &pb.WeightedDst{Authority: valid(withPort(o.Authority, port)), Weight: o.Weight})
	}
	if sp.Name != "" {
		d.ProfileRef = resource(&meta.Resource{Group: "linkerd.io", Kind: "ServiceProfile", Name: valid(sp.Name), Namespace: valid(sp.Namespace)})
	}
	return d
}

func resource(r *meta.Resource) *meta.Metadata {
	return &meta.Metadata{Kind: &meta.Metadata_Resource{Resource: r}}
}

// withPort adds the port to an authority without one.
func withPort(authority string, port uint16) string {
	if _, _, err := net.SplitHostPort(authority); err == nil {
		return authority
	}
	return net.JoinHostPort(authority, strconv.Itoa(int(port)))
}

func route(r *federation.Route) *pb.Route {
	to := &pb.Route{Condition: requestMatch(&r.Condition), MetricsLabels: map[string]string{"route": labelText(r.Name)}, IsRetryable: r.Retryable}
	for i := range r.Classes {
		to.ResponseClasses = append(to.ResponseClasses, &pb.ResponseClass{
			Condition: responseMatch(&r.Classes[i].Condition), IsFailure: r.Classes[i].Failure,
		})
	}
	if r.Timeout != 0 {
		to.Timeout = durationpb.New(r.Timeout)
	}
	return to
}

// labelText returns a text as a label may have it.
func labelText(s string) string {
	if s = valid(s); federation.PlainLabel(s) {
		return s
	}
	return strings.NewReplacer("\"", "\uFFFD", "\\", "\uFFFD", "\n", "\uFFFD").Replace(s)
}

func requestMatch(m *federation.Match) *pb.RequestMatch {
	switch m.Kind {
	case federation.MatchMethod:
		return &pb.RequestMatch{Match: &pb.RequestMatch_Method{Method: httpMethod(strings.ToUpper(m.Text))}}
	case federation.MatchPath:
		return &pb.RequestMatch{Match: &pb.RequestMatch_Path{Path: &pb.PathMatch{Regex: valid(m.Text)}}}
	}
	sub := make([]*pb.RequestMatch, len(m.Sub))
	for i := range m.Sub {
		sub[i] = requestMatch(&m.Sub[i])
	}
	switch {
	case m.Kind == federation.MatchAny:
		return &pb.RequestMatch{Match: &pb.RequestMatch_Any{Any: &pb.RequestMatch_Seq{Matches: sub}}}
	case m.Kind == federation.MatchNot && len(sub) > 0:
		return &pb.RequestMatch{Match: &pb.RequestMatch_Not{Not: sub[0]}}
	case m.Kind == federation.MatchNot:
		return &pb.RequestMatch{Match: &pb.RequestMatch_Not{Not: &pb.RequestMatch{}}}
	}
	return &pb.RequestMatch{Match: &pb.RequestMatch_All{All: &pb.RequestMatch_Seq{Matches: sub}}}
}

func responseMatch(m *federation.Match) *pb.ResponseMatch {
	if m.Kind == federation.MatchStatus {
		return &pb.ResponseMatch{Match: &pb.ResponseMatch_Status{Status: &pb.HttpStatusRange{Min: m.Min, Max: m.Max}}}
	}
	sub := make([]*pb.ResponseMatch, len(m.Sub))
	for i := range m.Sub {
		sub[i] = responseMatch(&m.Sub[i])
	}
	switch {
	case m.Kind == federation.MatchAny:
		return &pb.ResponseMatch{Match: &pb.ResponseMatch_Any{Any: &pb.ResponseMatch_Seq{Matches: sub}}}
	case m.Kind == federation.MatchNot && len(sub) > 0:
		return &pb.ResponseMatch{Match: &pb.ResponseMatch_Not{Not: sub[0]}}
	case m.Kind == federation.MatchNot:
		return &pb.ResponseMatch{Match: &pb.ResponseMatch_Not{Not: &pb.ResponseMatch{}}}
	}
	return &pb.ResponseMatch{Match: &pb.ResponseMatch_All{All: &pb.ResponseMatch_Seq{Matches: sub}}}
}

func httpMethod(name string) *http_types.HttpMethod {
	if n, ok := http_types.HttpMethod_Registered_value[name]; ok {
		return &http_types.HttpMethod{Type: &http_types.HttpMethod_Registered_{Registered: http_types.HttpMethod_Registered(n)}}
	}
	return &http_types.HttpMethod{Type: &http_types.HttpMethod_Unregistered{Unregistered: valid(name)}}
}

func retryBudget(b *federation.RetryBudget) *pb.RetryBudget {
	return &pb.RetryBudget{RetryRatio: b.Ratio, MinRetriesPerSecond: b.MinPerSecond, Ttl: durationpb.New(b.TTL)}
}
