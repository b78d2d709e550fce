package wire

import (
	"runtime"
	"slices"
	"strings"
	"testing"

	pb "github.com/linkerd/linkerd2-proxy-api/go/destination"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"

	"isthmus/federation"
	"isthmus/grpcapi/internal/wiretest"
)

// TestHostileProfiles: what proxies would reject, or write into their metrics as it is, is replaced.
func TestHostileProfiles(t *testing.T) {
	p := wiretest.WebProfile("a\xffb", "r\"} 1\n")
	p.Routes.Routes[0].Condition = federation.Match{Kind: federation.MatchAny, Sub: []federation.Match{{Kind: federation.MatchPath, Text: "\xff"}, {Kind: federation.MatchMethod, Text: "\xff"}}}
	want, got := &pb.DestinationProfile{}, decoded(t, p)
	if err := prototext.Unmarshal([]byte(`
		routes{condition{any{matches{path{regex:"\uFFFD"}} matches{method{unregistered:"\uFFFD"}}}} metrics_labels{key:"route" value:"a\uFFFDb"}}
		routes{condition{path{regex:"/r\"} 1\n"}} metrics_labels{key:"route" value:"r\uFFFD} 1\uFFFD"}}`), want); err != nil {
		t.Fatal(err)
	}
	for i, r := range got.Routes {
		if !proto.Equal(r, want.Routes[i]) {
			t.Errorf("got  %v\nwant %v", r, want.Routes[i])
		}
	}
	if len(got.Routes) != 2 {
		t.Errorf("%d routes", len(got.Routes))
	}
}

// TestProfileHasNoZone: a profile does not say in which zone an endpoint is, nor for that weigh it otherwise.
func TestProfileHasNoZone(t *testing.T) {
	there := wiretest.Shop()
	there.Zone = "a"
	if got, want := decoded(t, &federation.Profile{Endpoint: there}), decoded(t, &federation.Profile{Endpoint: wiretest.Shop()}); !proto.Equal(got, want) || got.Endpoint.Weight != weight {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

// decoded is a profile as a proxy has it that has received no routes before.
func decoded(t *testing.T, p *federation.Profile) *pb.DestinationProfile {
	t.Helper()
	e, got := encoderFor(t, Options{ZoneWeights: true}, ""), &pb.DestinationProfile{}
	if err := proto.Unmarshal(e.Profile(p, NewRoutings(anySize).Of(p.Routes, p.Port)).data.Materialize(), got); err != nil {
		t.Fatal(err)
	}
	return got
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
