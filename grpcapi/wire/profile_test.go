package wire

import (
	"net/netip"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	pb "github.com/linkerd/linkerd2-proxy-api/go/destination"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"

	"isthmus/federation"
	"isthmus/grpcapi/internal/wiretest"
)

const (
	budgetText = ` retry_budget{retry_ratio:0.2 min_retries_per_second:10 ttl{seconds:10}} `
	webText    = budgetText + `fully_qualified_name:"web.shop.svc.cluster.local"
		parent_ref{resource{group:"core" kind:"Service" name:"web" namespace:"shop" port:80}} `
	refText = `profile_ref{resource{group:"linkerd.io" kind:"ServiceProfile" name:"web.shop.svc.cluster.local" namespace:"shop"}} `
)

func checkProfile(t *testing.T, o Options, p *federation.Profile, text string) {
	t.Helper()
	want, got := &pb.DestinationProfile{}, &pb.DestinationProfile{}
	if err := prototext.Unmarshal([]byte(text), want); err != nil {
		t.Fatal(err)
	}
	e := encoderFor(t, o, "")
	if err := proto.Unmarshal(encodeProfile(&e, p), got); err != nil {
		t.Fatal(err)
	}
	if !proto.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

// encodeProfile encodes a profile for a proxy that has received no routes before.
func encodeProfile(e *Encoder, p *federation.Profile) []byte {
	return e.Profile(p, NewRoutings(anySize).Of(p.Routes, p.Port)).data.Materialize()
}

// TestGoldenServiceProfiles compares whole messages with those of the
// reference. The numbers are those of its own test cases.
//
// Behaviours: SP-08.
func TestGoldenServiceProfiles(t *testing.T) {
	type M = federation.Match
	method := func(name string) M { return M{Kind: federation.MatchMethod, Text: name} }
	path := func(regex string) M { return M{Kind: federation.MatchPath, Text: regex} }
	status := func(low, high uint32) M { return M{Kind: federation.MatchStatus, Min: low, Max: high} }
	all := func(sub ...M) M { return M{Sub: sub} }
	anyOf := func(sub ...M) M { return M{Kind: federation.MatchAny, Sub: sub} }
	not := func(m M) M { return M{Kind: federation.MatchNot, Sub: []M{m}} }
	sp := func(routes ...federation.Route) *federation.ServiceProfile {
		return &federation.ServiceProfile{Namespace: "shop", Name: "web.shop.svc.cluster.local", Routes: routes}
	}
	for name, tc := range map[string]struct {
		sp   *federation.ServiceProfile
		want string // beside what all have
	}{
		"golden: default": {nil, ``},
		"SP-01 all kinds of conditions": {sp(
			federation.Route{
				Name: "route1", Condition: all(not(path("/public/.*")), method("GET")), Retryable: true,
				Classes: []federation.ResponseClass{
					{Condition: anyOf(status(500, 0), status(400, 499)), Failure: true}, {Condition: status(200, 299)},
				},
			},
			federation.Route{Name: "route2", Condition: anyOf(path("/private/.*"), method("purge"))},
		), refText + `
			routes{condition{all{matches{not{path{regex:"/public/.*"}}} matches{method{registered:GET}}}} is_retryable:true metrics_labels{key:"route" value:"route1"}
				response_classes{condition{any{matches{status{min:500}} matches{status{min:400 max:499}}}} is_failure:true}
				response_classes{condition{status{min:200 max:299}}}}
			routes{condition{any{matches{path{regex:"/private/.*"}} matches{method{unregistered:"PURGE"}}}} metrics_labels{key:"route" value:"route2"}}`},
		"SP-09 timeout": {sp(federation.Route{Name: "r", Condition: path("/"), Timeout: 200 * time.Millisecond}),
			refText + `routes{condition{path{regex:"/"}} metrics_labels{key:"route" value:"r"} timeout{nanos:200000000}}`},
		"text that is no UTF-8": {sp(federation.Route{Name: "a\xffb", Condition: anyOf(path("\xff"), method("\xff"))}),
			refText + `routes{condition{any{matches{path{regex:"\uFFFD"}} matches{method{unregistered:"\uFFFD"}}}} metrics_labels{key:"route" value:"a\uFFFDb"}}`},
		"name that would forge metrics": {sp(federation.Route{Name: "r\"} 1\n", Condition: path("/")}),
			refText + `routes{condition{path{regex:"/"}} metrics_labels{key:"route" value:"r\uFFFD} 1\uFFFD"}}`},
		"overrides": {&federation.ServiceProfile{Overrides: []federation.Override{
			{Authority: "a.shop.svc.cluster.local", Weight: 5000}, {Authority: "b.shop.svc.cluster.local:8080", Weight: 1},
		}}, `dst_overrides{authority:"a.shop.svc.cluster.local:80" weight:5000} dst_overrides{authority:"b.shop.svc.cluster.local:8080" weight:1}`},
	} {
		t.Run(name, func(t *testing.T) {
			p := wiretest.WebProfile()
			p.Routes = tc.sp
			checkProfile(t, Options{H2Upgrade: true}, p, webText+tc.want)
		})
	}
	t.Run("retry budget", func(t *testing.T) {
		p := wiretest.WebProfile()
		p.Routes = &federation.ServiceProfile{Budget: &federation.RetryBudget{Ratio: 0.5, MinPerSecond: 3, TTL: 7500 * time.Millisecond}}
		checkProfile(t, Options{}, p, strings.Replace(webText, budgetText, `retry_budget{retry_ratio:0.5 min_retries_per_second:3 ttl{seconds:7 nanos:500000000}}`, 1))
	})
	t.Run("undeclared port", func(t *testing.T) {
		checkProfile(t, Options{}, &federation.Profile{Reason: federation.NoPort}, ``)
	})
}

// TestGoldenEndpointProfiles likewise.
func TestGoldenEndpointProfiles(t *testing.T) {
	namespaced := func(e *federation.Endpoint) *federation.Endpoint {
		e.Common.Group, e.Common.Labels = nil, append(wiretest.Labels("namespace", "simple-app"), e.Common.Labels...)
		return e
	}
	meshed := func(change func(*federation.Endpoint)) *federation.Endpoint {
		e := namespaced(wiretest.Shop())
		change(e)
		return e
	}
	unmeshed := func(e *federation.Endpoint) {
		e.Meshed, e.Common.Identity, e.InboundPort = false, federation.Identity{}, 0
	}
	none := func(*federation.Endpoint) {}
	vm := func(opaque bool) *federation.Endpoint {
		return &federation.Endpoint{
			Addr: netip.MustParseAddrPort("200.1.1.1:8989"), Kind: federation.Workload, Opaque: opaque, Meshed: true, InboundPort: 4143,
			Common: &federation.Common{
				Labels:   wiretest.Labels("external_workload", "vm", "namespace", "ns"),
				Identity: federation.Identity{URI: "spiffe://root/vm", ServerName: "vm.example"},
			},
		}
	}
	bare := func(addr string, opaque bool) *federation.Endpoint {
		return &federation.Endpoint{Addr: netip.MustParseAddrPort(addr), Opaque: opaque}
	}
	podLabels := label("namespace", "simple-app") + shopLabels + label("zone", "")
	vmText := func(hint string) string {
		return `endpoint{addr{ip{ipv4:3355508993} port:8989} weight:10000 ` + label("external_workload", "vm") + label("namespace", "ns") + label("zone", "") +
			`tls_identity{uri_like_identity{uri:"spiffe://root/vm"} server_name{name:"vm.example"}} ` + chart2 + `protocol_hint{` + hint + `}}`
	}
	o := Options{H2Upgrade: true, MeshedHTTP2: wiretest.HTTP2Params(), TargetClusterLabel: true, ZoneWeights: true}
	for _, tc := range []struct {
		name string
		ep   *federation.Endpoint
		want string // beside the budget
	}{
		{"golden: P-09 pod", meshed(none), `endpoint{` + shopAddr + podLabels + shopID + chart2 + `protocol_hint{h2{}}}`},
		{"pod in a zone, which is not sent", meshed(func(e *federation.Endpoint) { e.Zone = "a" }), `endpoint{` + shopAddr + podLabels + shopID + chart2 + `protocol_hint{h2{}}}`},
		{"golden: P-11, P-12 pod that is not running yet", bare("10.23.0.27:5678", false), `endpoint{` + shopAddr + `}`},
		{"P-17 unmeshed pod, opaque", meshed(func(e *federation.Endpoint) { unmeshed(e); e.Opaque = true }), `opaque_protocol:true endpoint{` + shopAddr + podLabels + `}`},
		{"P-22, P-24 opaque external workload", vm(true), `opaque_protocol:true ` + vmText(`opaque{} opaque_transport{inbound_port:4143}`)},
	} {
		t.Run(tc.name, func(t *testing.T) { checkProfile(t, o, &federation.Profile{Endpoint: tc.ep}, budgetText+tc.want) })
	}
	t.Run("forced opaque transport", func(t *testing.T) {
		checkProfile(t, Options{H2Upgrade: true, ForceOpaqueTransport: true}, &federation.Profile{Endpoint: meshed(none)},
			budgetText+`endpoint{`+shopAddr+podLabels+shopID+`protocol_hint{h2{} opaque_transport{inbound_port:4143}}}`)
	})
}

// TestLargeRouting: no profile is larger than proxies accept. Each ServiceProfile that
// is too large for that is reported once, and encoded as the default.
func TestLargeRouting(t *testing.T) {
	routes := func(bytes int) *federation.ServiceProfile {
		sp := wiretest.ServiceProfile("a")
		sp.Routes[0].Condition.Text = strings.Repeat("x", bytes)
		return sp
	}
	var reported []int
	e, rs := encoderFor(t, Options{}, ""), NewRoutings(func(_ *federation.ServiceProfile, bytes int) { reported = append(reported, bytes) })
	rest := len(marshal(routing(routes(3<<20), 80))) - 3<<20
	size := func(sp *federation.ServiceProfile, opaque bool) int {
		p := wiretest.WebProfile()
		p.Routes, p.Opaque = sp, opaque
		return e.Profile(p, rs.Of(sp, 80)).data.Len()
	}
	fits, large := routes(maxRouting-rest), routes(maxRouting-rest+1)
	if n := size(fits, true); n <= maxRouting || n > 4<<20 || len(reported) > 0 {
		t.Errorf("%d bytes, reported %v", n, reported)
	}
	held := rs.Of(large, 80)
	for _, opaque := range []bool{false, true} {
		if n, want := size(large, opaque), size(nil, opaque); n != want {
			t.Errorf("%d bytes in place of the default's %d", n, want)
		}
	}
	if !slices.Equal(reported, []int{maxRouting + 1}) {
		t.Errorf("reported %v", reported)
	}
	runtime.KeepAlive(held)
}

// TestLongestNames: a profile of a service with the longest names has room for a
// routing of the largest size.
func TestLongestNames(t *testing.T) {
	long := strings.Repeat("x", 63)
	p := wiretest.WebProfile()
	p.Opaque, p.Port, p.Service = true, 65535, federation.ServiceID{Namespace: long, Name: long}
	p.Name = long + "." + long + ".svc." + strings.Repeat("x", 253)
	if n := len(marshal(serviceProfile(p))); n > maxProfile-maxRouting {
		t.Errorf("%d bytes beside the routing", n)
	}
}
