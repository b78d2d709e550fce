package wire

import (
	"cmp"
	"fmt"
	"net"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"
	"weak"

	pb "github.com/linkerd/linkerd2-proxy-api/go/destination"
	"github.com/linkerd/linkerd2-proxy-api/go/http_types"
	"github.com/linkerd/linkerd2-proxy-api/go/meta"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"isthmus/federation"
)

// maxProfile is the maximum size, in bytes, of a message that proxies accept. A profile must fit
// into a single message.
const maxProfile = 4 << 20

// maxRouting is the maximum size of an encoded Routing, in bytes. The rest of maxProfile is
// reserved for a profile's other fields, which are numbers and names of limited length.
const maxRouting = maxProfile - 1<<10

// Routing is the part of a service port's encoded profile that comes from a ServiceProfile: routes,
// retry budget and traffic splits. A Routing can be large, and is often the same for clients in
// different namespaces. Each Routing is encoded only once, when it is first needed, and all
// messages share its bytes.
type Routing struct {
	profile *federation.ServiceProfile
	data    func() mem.SliceBuffer
}

// ServiceProfile returns the ServiceProfile that the Routing is derived from, or nil for the
// default Routing.
func (r *Routing) ServiceProfile() *federation.ServiceProfile { return r.profile }

// routingKey identifies a Routing. The port is the default for overrides that do not specify a
// port.
type routingKey struct {
	profile *federation.ServiceProfile
	port    uint16
}

// Routings is a cache that lets all profiles with the same Routing share one copy. The cache stores
// only weak pointers, so callers need not release a Routing. All methods are safe for concurrent
// use.
type Routings struct {
	tooLarge func(*federation.ServiceProfile, int) // fixed, as is plain
	plain    *Routing                              // the default, for services without a ServiceProfile

	mu  sync.Mutex
	all map[routingKey]weak.Pointer[Routing]
}

// NewRoutings returns an empty cache. If the encoded Routing of a ServiceProfile might make a
// profile larger than proxies accept, the profile contains the default Routing instead. The
// tooLarge function is called once for each Routing that is too large. Its arguments are the
// ServiceProfile and the size of the encoded Routing.
func NewRoutings(tooLarge func(sp *federation.ServiceProfile, bytes int)) *Routings {
	b := marshal(routing(&federation.ServiceProfile{}, 0))
	return &Routings{
		tooLarge: tooLarge,
		plain:    &Routing{data: func() mem.SliceBuffer { return b }},
		all:      make(map[routingKey]weak.Pointer[Routing]),
	}
}

// Of returns the Routing of a ServiceProfile. If sp is nil, Of returns the default Routing. As long
// as a Routing is referenced, calls with the same pointer and port return the same Routing.
func (rs *Routings) Of(sp *federation.ServiceProfile, port uint16) *Routing {
	if sp == nil {
		return rs.plain
	}
	k := routingKey{sp, port}
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if r := rs.all[k].Value(); r != nil {
		return r
	}
	r := &Routing{sp, sync.OnceValue(func() mem.SliceBuffer { return rs.encode(k) })}
	w := weak.Make(r)
	rs.all[k] = w
	runtime.AddCleanup(r, func(k routingKey) { rs.forget(k, w) }, k)
	return r
}

func (rs *Routings) forget(k routingKey, w weak.Pointer[Routing]) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if rs.all[k] == w {
		delete(rs.all, k)
	}
}

// encode encodes a Routing. If the Routing is too large for proxies, the result is the encoded
// default Routing.
func (rs *Routings) encode(k routingKey) mem.SliceBuffer {
	b := marshal(routing(k.profile, k.port))
	if len(b) > maxRouting {
		rs.tooLarge(k.profile, len(b))
		return rs.plain.data()
	}
	return b
}

func defaultBudget() *federation.RetryBudget {
	return &federation.RetryBudget{Ratio: 0.2, MinPerSecond: 10, TTL: 10 * time.Second}
}

func marshal(m proto.Message) []byte {
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		// Encoding can fail only because of invalid UTF-8, which validUTF8 replaces.
		panic(fmt.Sprintf("cannot encode a profile: %v", err))
	}
	return b
}

func serviceProfile(p *federation.Profile) *pb.DestinationProfile {
	return &pb.DestinationProfile{
		OpaqueProtocol:     p.Opaque,
		FullyQualifiedName: validUTF8(p.Name),
		ParentRef: resource(&meta.Resource{
			Group:     "core",
			Kind:      "Service",
			Name:      validUTF8(p.Service.Name),
			Namespace: validUTF8(p.Service.Namespace),
			Port:      uint32(p.Port),
		}),
	}
}

func routing(sp *federation.ServiceProfile, port uint16) *pb.DestinationProfile {
	d := &pb.DestinationProfile{RetryBudget: retryBudget(cmp.Or(sp.Budget, defaultBudget()))}
	for i := range sp.Routes {
		d.Routes = append(d.Routes, route(&sp.Routes[i]))
	}
	for _, o := range sp.Overrides {
		d.DstOverrides = append(d.DstOverrides, &pb.WeightedDst{
			Authority: validUTF8(withPort(o.Authority, port)),
			Weight:    o.Weight,
		})
	}
	if sp.Name != "" {
		d.ProfileRef = resource(&meta.Resource{
			Group:     "linkerd.io",
			Kind:      "ServiceProfile",
			Name:      validUTF8(sp.Name),
			Namespace: validUTF8(sp.Namespace),
		})
	}
	return d
}

func resource(r *meta.Resource) *meta.Metadata {
	return &meta.Metadata{Kind: &meta.Metadata_Resource{Resource: r}}
}

func withPort(authority string, port uint16) string {
	if _, _, err := net.SplitHostPort(authority); err == nil {
		return authority
	}
	return net.JoinHostPort(authority, strconv.Itoa(int(port)))
}

func route(r *federation.Route) *pb.Route {
	to := &pb.Route{
		Condition:     requestMatch(&r.Condition),
		MetricsLabels: map[string]string{"route": labelText(r.Name)},
		IsRetryable:   r.Retryable,
	}
	for i := range r.Classes {
		to.ResponseClasses = append(to.ResponseClasses, &pb.ResponseClass{
			Condition: responseMatch(&r.Classes[i].Condition),
			IsFailure: r.Classes[i].Failure,
		})
	}
	if r.Timeout != 0 {
		to.Timeout = durationpb.New(r.Timeout)
	}
	return to
}

func labelText(s string) string {
	s = validUTF8(s)
	if federation.PlainLabel(s) {
		return s
	}
	return strings.NewReplacer("\"", "\uFFFD", "\\", "\uFFFD", "\n", "\uFFFD").Replace(s)
}

func requestMatch(m *federation.Match) *pb.RequestMatch {
	switch m.Kind {
	case federation.MatchMethod:
		return &pb.RequestMatch{Match: &pb.RequestMatch_Method{Method: httpMethod(strings.ToUpper(m.Text))}}
	case federation.MatchPath:
		return &pb.RequestMatch{Match: &pb.RequestMatch_Path{Path: &pb.PathMatch{Regex: validUTF8(m.Text)}}}
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
	n, ok := http_types.HttpMethod_Registered_value[name]
	if !ok {
		return &http_types.HttpMethod{Type: &http_types.HttpMethod_Unregistered{Unregistered: validUTF8(name)}}
	}
	registered := http_types.HttpMethod_Registered(n)
	return &http_types.HttpMethod{Type: &http_types.HttpMethod_Registered_{Registered: registered}}
}

func retryBudget(b *federation.RetryBudget) *pb.RetryBudget {
	return &pb.RetryBudget{RetryRatio: b.Ratio, MinRetriesPerSecond: b.MinPerSecond, Ttl: durationpb.New(b.TTL)}
}
