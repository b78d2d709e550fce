package wire

import (
	"bytes"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
	"weak"

	pb "github.com/linkerd/linkerd2-proxy-api/go/destination"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"

	"isthmus/federation"
	"isthmus/grpcapi/internal/wiretest"
)

// TestServiceProfile checks a ServiceProfile with all fields. Text that proxies would reject, or
// would write to their metrics unescaped, is replaced.
func TestServiceProfile(t *testing.T) {
	type M = federation.Match
	method := func(name string) M { return M{Kind: federation.MatchMethod, Text: name} }
	path := func(regex string) M { return M{Kind: federation.MatchPath, Text: regex} }
	status := func(low, high uint32) M { return M{Kind: federation.MatchStatus, Min: low, Max: high} }
	anyOf := func(sub ...M) M { return M{Kind: federation.MatchAny, Sub: sub} }
	not := func(sub ...M) M { return M{Kind: federation.MatchNot, Sub: sub} }
	p, want := wiretest.WebProfile(), &pb.DestinationProfile{}
	p.Routes = &federation.ServiceProfile{
		Namespace: "shop",
		Name:      "web",
		Budget:    &federation.RetryBudget{Ratio: 0.5, MinPerSecond: 3, TTL: 7500 * time.Millisecond},
		Overrides: []federation.Override{{Authority: "a.shop", Weight: 5000}, {Authority: "b.shop:8080", Weight: 1}},
		Routes: []federation.Route{
			{
				Name:      "r\"} 1\n",
				Condition: M{Sub: []M{not(path("\xff")), method("GET")}},
				Retryable: true,
				Timeout:   200 * time.Millisecond,
			},
			{Name: "a\xffb", Condition: anyOf(not(), method("\xff")), Classes: []federation.ResponseClass{
				{Condition: anyOf(status(500, 0), status(400, 499)), Failure: true},
				{Condition: M{Sub: []M{not(status(200, 299)), not()}}},
			}},
		},
	}
	err := prototext.Unmarshal([]byte(`fully_qualified_name:"web.shop.svc.cluster.local"
		parent_ref{resource{group:"core" kind:"Service" name:"web" namespace:"shop" port:80}}
		profile_ref{resource{group:"linkerd.io" kind:"ServiceProfile" name:"web" namespace:"shop"}}
		retry_budget{retry_ratio:0.5 min_retries_per_second:3 ttl{seconds:7 nanos:500000000}}
		dst_overrides{authority:"a.shop:80" weight:5000} dst_overrides{authority:"b.shop:8080" weight:1}
		routes{metrics_labels{key:"route" value:"r\uFFFD} 1\uFFFD"} is_retryable:true timeout{nanos:200000000}
			condition{all{matches{not{path{regex:"\uFFFD"}}} matches{method{registered:GET}}}}}
		routes{metrics_labels{key:"route" value:"a\uFFFDb"} 
			condition{any{matches{not{}} matches{method{unregistered:"\uFFFD"}}}}
			response_classes{condition{any{matches{status{min:500}} matches{status{min:400 max:499}}}} is_failure:true}
			response_classes{condition{all{matches{not{status{min:200 max:299}}} matches{not{}}}}}}`), want)
	if err != nil {
		t.Fatal(err)
	}
	if got := decoded(t, p); !proto.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

// TestProfileHasNoZone checks that a profile has neither the endpoint's zone nor a weight based on
// it.
func TestProfileHasNoZone(t *testing.T) {
	there := wiretest.Shop()
	there.Zone = "a"
	got := decoded(t, &federation.Profile{Endpoint: there})
	want := decoded(t, &federation.Profile{Endpoint: wiretest.Shop()})
	if !proto.Equal(got, want) || got.Endpoint.Weight != weight {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

// decoded returns a profile as a proxy in zone a receives it, without earlier routes.
func decoded(t *testing.T, p *federation.Profile) *pb.DestinationProfile {
	t.Helper()
	e, got := encoderFor(t, Options{ZoneWeights: true}, "a"), &pb.DestinationProfile{}
	frame := e.Profile(p, NewRoutings(anySize).Of(p.Routes, p.Port))
	if err := proto.Unmarshal(frame.data.Materialize(), got); err != nil {
		t.Fatal(err)
	}
	return got
}

// TestLargeRouting checks that profiles fit into a message. A ServiceProfile that is too large is
// reported once, and encoded as the default.
func TestLargeRouting(t *testing.T) {
	routes := func(bytes int) *federation.ServiceProfile {
		sp := wiretest.ServiceProfile("a")
		sp.Routes[0].Condition.Text = strings.Repeat("x", bytes)
		return sp
	}
	var reported []int
	e := encoderFor(t, Options{}, "")
	rs := NewRoutings(func(_ *federation.ServiceProfile, bytes int) { reported = append(reported, bytes) })
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
			t.Errorf("the message has %d bytes, want the default's %d", n, want)
		}
	}
	if !slices.Equal(reported, []int{maxRouting + 1}) {
		t.Errorf("reported %v", reported)
	}
	runtime.KeepAlive(held)
}

// TestLongestNames checks that a profile with the longest names has room for the largest routing.
func TestLongestNames(t *testing.T) {
	long := strings.Repeat("x", 63)
	p := wiretest.WebProfile()
	p.Opaque, p.Port, p.Service = true, 65535, federation.ServiceID{Namespace: long, Name: long}
	p.Name = long + "." + long + ".svc." + strings.Repeat("x", 253)
	if n := len(marshal(serviceProfile(p))); n > maxProfile-maxRouting {
		t.Errorf("%d bytes without the routing", n)
	}
}

// TestRoutings checks that equal keys share a routing while it is in use, and that it is freed
// afterwards.
func TestRoutings(t *testing.T) {
	rs := NewRoutings(anySize)
	sp := wiretest.ServiceProfile("a")
	sp.Overrides = []federation.Override{{Authority: "web-b.shop", Weight: 1}}
	one, same, other := rs.Of(sp, 80), rs.Of(sp, 80), rs.Of(sp, 81)
	if one != same || one == other || bytes.Equal(one.data(), other.data()) {
		t.Error("each port does not have exactly one routing")
	}
	if &one.data()[0] != &same.data()[0] {
		t.Error("the routing was encoded twice")
	}
	enc := encoderFor(t, Options{}, "")
	for _, client := range []bool{false, true} { // clients of each namespace have their own profile
		frame := enc.Profile(&federation.Profile{Name: "web", Opaque: client}, one)
		if !slices.ContainsFunc(frame.data, func(b mem.Buffer) bool { return &b.ReadOnlyData()[0] == &one.data()[0] }) {
			t.Error("a profile does not share its routing")
		}
	}
	if rs.Of(nil, 80) != rs.Of(nil, 81) {
		t.Error("there is more than one default routing")
	}
	size := func() int {
		runtime.GC()
		rs.mu.Lock()
		defer rs.mu.Unlock()
		return len(rs.all)
	}
	wiretest.Until(t, "the other is forgotten", func() bool { return size() == 1 })
	if rs.Of(sp, 80) != one {
		t.Error("the routing was dropped while in use")
	}
	runtime.KeepAlive(one)
	wiretest.Until(t, "both are forgotten", func() bool { return size() == 0 })
}

// TestForgetLate checks that dropping a freed routing does not remove its successor.
func TestForgetLate(t *testing.T) {
	rs := NewRoutings(anySize)
	sp := wiretest.ServiceProfile("a")
	now := rs.Of(sp, 80)
	rs.forget(routingKey{sp, 80}, weak.Make(&Routing{}))
	if rs.Of(sp, 80) != now {
		t.Error("the routing was encoded again")
	}
}

// anySize ignores routings that are too large.
func anySize(*federation.ServiceProfile, int) {}
