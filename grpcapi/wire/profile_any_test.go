package wire

import (
	"testing"
	"time"

	pb "github.com/linkerd/linkerd2-proxy-api/go/destination"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"isthmus/federation"
	"isthmus/grpcapi/internal/wiretest"
)

func TestAnyProfile(t *testing.T) { rapid.Check(t, checkAnyProfile) }

func FuzzProfile(f *testing.F) { f.Fuzz(rapid.MakeFuzz(checkAnyProfile)) }

// checkAnyProfile encodes a profile of any kind, and checks that proxies can decode it, with
// all its parts, and that an endpoint is encoded as by the generated code.
func checkAnyProfile(t *rapid.T) {
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
	routes, overrides := 0, 0
	if p.Routes != nil && p.Endpoint == nil {
		routes, overrides = len(p.Routes.Routes), len(p.Routes.Overrides)
	}
	if len(got.Routes) != routes || len(got.DstOverrides) != overrides || got.FullyQualifiedName != valid(p.Name) {
		t.Fatalf("%v for a profile with %d routes and %d overrides", got, routes, overrides)
	}
	if p.Endpoint == nil {
		return
	}
	want := reference(o, "", p.Endpoint)
	delete(want.MetricLabels, "zone_locality")
	if p.Endpoint.Kind != federation.Address {
		want.MetricLabels["zone"] = ""
	}
	if !proto.Equal(got.Endpoint, want) || got.OpaqueProtocol != p.Endpoint.Opaque {
		t.Fatalf("got  %v\nwant %v", got.Endpoint, want)
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
