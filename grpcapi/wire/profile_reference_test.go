package wire

import (
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	pb "github.com/linkerd/linkerd2-proxy-api/go/destination"
	"github.com/linkerd/linkerd2-proxy-api/go/http_types"
	"github.com/linkerd/linkerd2-proxy-api/go/meta"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"pgregory.net/rapid"

	"isthmus/federation"
	"isthmus/grpcapi/internal/wiretest"
)

func TestProfileReference(t *testing.T) { rapid.Check(t, compareProfiles) }

func FuzzProfile(f *testing.F) { f.Fuzz(rapid.MakeFuzz(compareProfiles)) }

// compareProfiles compares our encoding with that of the generated code, for
// profiles of every kind.
func compareProfiles(t *rapid.T) {
	o := Options{H2Upgrade: rapid.Bool().Draw(t, "h2"), ForceOpaqueTransport: rapid.Bool().Draw(t, "forced")}
	if rapid.Bool().Draw(t, "params") {
		o.MeshedHTTP2 = wiretest.HTTP2Params()
	}
	p := &federation.Profile{
		Service: federation.ServiceID{Namespace: names().Draw(t, "namespace"), Name: names().Draw(t, "service")},
		Port:    rapid.Uint16().Draw(t, "port"), Name: names().Draw(t, "fqn"), Opaque: rapid.Bool().Draw(t, "opaque"),
	}
	switch rapid.IntRange(0, 3).Draw(t, "kind") {
	case 0:
		p = &federation.Profile{Reason: rapid.SampledFrom([]federation.ProfileReason{
			federation.NoService, federation.NoPort, federation.NoAddress, federation.NoInstance, federation.Ambiguous}).Draw(t, "reason")}
	case 1:
		p = &federation.Profile{Endpoint: endpoints().Draw(t, "endpoint")}
		if c := p.Endpoint.Common; c != nil {
			c.Group = nil
		}
	case 2:
		p.Routes = serviceProfiles().Draw(t, "routes")
	}
	enc, err := NewEncoder(o)
	if err != nil {
		t.Fatal(err)
	}
	got := &pb.DestinationProfile{}
	if err := proto.Unmarshal(encodeProfile(&enc, p), got); err != nil {
		t.Fatal(err)
	}
	if want := profileReference(o, p); !proto.Equal(got, want) {
		t.Fatalf("got  %v\nwant %v", got, want)
	}
}

// names generates names as Kubernetes objects have them, and some that are not UTF-8.
func names() *rapid.Generator[string] {
	return rapid.OneOf(rapid.SampledFrom([]string{"", "a", "web.shop", "\xff"}), rapid.StringN(0, 200, -1))
}

func serviceProfiles() *rapid.Generator[*federation.ServiceProfile] {
	return rapid.Custom(func(t *rapid.T) *federation.ServiceProfile {
		sp := &federation.ServiceProfile{
			Namespace: names().Draw(t, "namespace"), Name: names().Draw(t, "name"),
			Routes: rapid.SliceOfN(routes(), 0, 4).Draw(t, "routes"),
		}
		if rapid.Bool().Draw(t, "budget") {
			sp.Budget = &federation.RetryBudget{
				Ratio: rapid.Float32().Draw(t, "ratio"), MinPerSecond: rapid.Uint32().Draw(t, "min"), TTL: durations().Draw(t, "ttl"),
			}
		}
		authority := rapid.OneOf(names(), rapid.SampledFrom([]string{"web.shop:80", "web.shop:", "fd00::1", "[fd00::1]:80"}))
		for range rapid.IntRange(0, 3).Draw(t, "overrides") {
			sp.Overrides = append(sp.Overrides, federation.Override{Authority: authority.Draw(t, "authority"), Weight: rapid.Uint32().Draw(t, "weight")})
		}
		return sp
	})
}

func durations() *rapid.Generator[time.Duration] {
	return rapid.OneOf(rapid.SampledFrom([]time.Duration{0, 1, time.Second, 1500 * time.Millisecond, -1}),
		rapid.Map(rapid.Int64(), func(n int64) time.Duration { return time.Duration(n) }))
}

func routes() *rapid.Generator[federation.Route] {
	return rapid.Custom(func(t *rapid.T) federation.Route {
		r := federation.Route{
			Name: names().Draw(t, "name"), Condition: matches(false, 5).Draw(t, "condition"),
			Retryable: rapid.Bool().Draw(t, "retryable"), Timeout: durations().Draw(t, "timeout"),
		}
		for range rapid.IntRange(0, 3).Draw(t, "classes") {
			r.Classes = append(r.Classes, federation.ResponseClass{Condition: matches(true, 5).Draw(t, "response"), Failure: rapid.Bool().Draw(t, "failure")})
		}
		return r
	})
}

// matches generates conditions on requests or on responses, of at most that depth.
func matches(responses bool, depth int) *rapid.Generator[federation.Match] {
	kinds := []federation.MatchKind{federation.MatchMethod, federation.MatchPath}
	if responses {
		kinds = []federation.MatchKind{federation.MatchStatus}
	}
	if depth > 0 {
		kinds = append(kinds, federation.MatchAll, federation.MatchAny, federation.MatchNot)
	}
	return rapid.Custom(func(t *rapid.T) federation.Match {
		m := federation.Match{Kind: rapid.SampledFrom(kinds).Draw(t, "kind")}
		switch m.Kind {
		case federation.MatchMethod, federation.MatchPath:
			m.Text = rapid.OneOf(names(), rapid.SampledFrom([]string{"GET", "get", "Trace", "PURGE", "/a/.*"})).Draw(t, "text")
		case federation.MatchStatus:
			m.Min, m.Max = rapid.Uint32().Draw(t, "min"), rapid.Uint32().Draw(t, "max")
		case federation.MatchNot:
			m.Sub = []federation.Match{matches(responses, depth-1).Draw(t, "sub")}
		default:
			m.Sub = rapid.SliceOfN(matches(responses, depth-1), 0, 3).Draw(t, "sub")
		}
		return m
	})
}

// profileReference returns a profile as the generated struct.
func profileReference(o Options, p *federation.Profile) *pb.DestinationProfile {
	if p.Reason != federation.Resolved {
		return &pb.DestinationProfile{}
	}
	d := &pb.DestinationProfile{RetryBudget: budgetReference(&federation.RetryBudget{Ratio: 0.2, MinPerSecond: 10, TTL: 10 * time.Second})}
	if p.Endpoint != nil {
		d.OpaqueProtocol, d.Endpoint = p.Endpoint.Opaque, reference(o, "", p.Endpoint)
		delete(d.Endpoint.MetricLabels, "zone_locality")
		if p.Endpoint.Kind != federation.Address {
			d.Endpoint.MetricLabels["zone"] = ""
		}
		return d
	}
	resource := func(r *meta.Resource) *meta.Metadata {
		return &meta.Metadata{Kind: &meta.Metadata_Resource{Resource: r}}
	}
	d.FullyQualifiedName, d.OpaqueProtocol = valid(p.Name), p.Opaque
	d.ParentRef = resource(&meta.Resource{Group: "core", Kind: "Service", Name: valid(p.Service.Name), Namespace: valid(p.Service.Namespace), Port: uint32(p.Port)})
	sp := p.Routes
	if sp == nil {
		return d
	}
	if sp.Name != "" {
		d.ProfileRef = resource(&meta.Resource{Group: "linkerd.io", Kind: "ServiceProfile", Name: valid(sp.Name), Namespace: valid(sp.Namespace)})
	}
	if sp.Budget != nil {
		d.RetryBudget = budgetReference(sp.Budget)
	}
	for _, x := range sp.Overrides {
		a := x.Authority
		if _, _, err := net.SplitHostPort(a); err != nil {
			a = net.JoinHostPort(a, strconv.Itoa(int(p.Port)))
		}
		d.DstOverrides = append(d.DstOverrides, &pb.WeightedDst{Authority: valid(a), Weight: x.Weight})
	}
	for _, r := range sp.Routes {
		route := &pb.Route{Condition: requestReference(r.Condition), MetricsLabels: map[string]string{"route": valid(r.Name)}, IsRetryable: r.Retryable}
		for _, c := range r.Classes {
			route.ResponseClasses = append(route.ResponseClasses, &pb.ResponseClass{Condition: responseReference(c.Condition), IsFailure: c.Failure})
		}
		if r.Timeout != 0 {
			route.Timeout = durationpb.New(r.Timeout)
		}
		d.Routes = append(d.Routes, route)
	}
	return d
}

func valid(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

func budgetReference(b *federation.RetryBudget) *pb.RetryBudget {
	return &pb.RetryBudget{RetryRatio: b.Ratio, MinRetriesPerSecond: b.MinPerSecond, Ttl: durationpb.New(b.TTL)}
}

func requestReference(m federation.Match) *pb.RequestMatch {
	var sub []*pb.RequestMatch
	for _, s := range m.Sub {
		sub = append(sub, requestReference(s))
	}
	switch m.Kind {
	case federation.MatchAll:
		return &pb.RequestMatch{Match: &pb.RequestMatch_All{All: &pb.RequestMatch_Seq{Matches: sub}}}
	case federation.MatchAny:
		return &pb.RequestMatch{Match: &pb.RequestMatch_Any{Any: &pb.RequestMatch_Seq{Matches: sub}}}
	case federation.MatchNot:
		return &pb.RequestMatch{Match: &pb.RequestMatch_Not{Not: sub[0]}}
	case federation.MatchPath:
		return &pb.RequestMatch{Match: &pb.RequestMatch_Path{Path: &pb.PathMatch{Regex: valid(m.Text)}}}
	}
	name := strings.ToUpper(m.Text)
	for n, known := range http_types.HttpMethod_Registered_name {
		if known == name {
			return &pb.RequestMatch{Match: &pb.RequestMatch_Method{Method: &http_types.HttpMethod{Type: &http_types.HttpMethod_Registered_{Registered: http_types.HttpMethod_Registered(n)}}}}
		}
	}
	return &pb.RequestMatch{Match: &pb.RequestMatch_Method{Method: &http_types.HttpMethod{Type: &http_types.HttpMethod_Unregistered{Unregistered: valid(name)}}}}
}

func responseReference(m federation.Match) *pb.ResponseMatch {
	var sub []*pb.ResponseMatch
	for _, s := range m.Sub {
		sub = append(sub, responseReference(s))
	}
	switch m.Kind {
	case federation.MatchAll:
		return &pb.ResponseMatch{Match: &pb.ResponseMatch_All{All: &pb.ResponseMatch_Seq{Matches: sub}}}
	case federation.MatchAny:
		return &pb.ResponseMatch{Match: &pb.ResponseMatch_Any{Any: &pb.ResponseMatch_Seq{Matches: sub}}}
	case federation.MatchNot:
		return &pb.ResponseMatch{Match: &pb.ResponseMatch_Not{Not: sub[0]}}
	}
	return &pb.ResponseMatch{Match: &pb.ResponseMatch_Status{Status: &pb.HttpStatusRange{Min: m.Min, Max: m.Max}}}
}
