package proxy_test

import (
	"encoding/json"
	"reflect"
	"slices"
	"testing"

	pb "github.com/linkerd/linkerd2-proxy-api/go/destination"
	"github.com/linkerd/linkerd2-proxy-api/go/meta"
	pbnet "github.com/linkerd/linkerd2-proxy-api/go/net"
	"google.golang.org/protobuf/encoding/protojson"

	"isthmus/e2e/proxy"
	. "isthmus/e2e/proxy/destinationtest"
)

func TestGetFold(t *testing.T) {
	const reopen = "reopen"
	bad := &pb.Update{Update: &pb.Update_Add{Add: &pb.WeightedAddrSet{Addrs: []*pb.WeightedAddr{
		{Addr: &pbnet.TcpAddress{Port: 80}}, {Addr: TCP("10.0.0.1:80")},
	}}}}
	tests := []struct {
		name   string
		steps  []any // updates, or reopen to begin a new call
		exists any
		addrs  []string
		faults []proxy.Fault
	}{
		{name: "nothing"},
		{name: "adds upsert", steps: []any{Add("10.0.0.1:80"), Add("10.0.0.2:80", "10.0.0.1:80")},
			exists: true, addrs: []string{"10.0.0.1:80", "10.0.0.2:80"}},
		{
			name:   "a remove deletes addresses",
			steps:  []any{Add("10.0.0.1:80", "[fd00::1]:80"), Remove("10.0.0.1:80", "10.9.9.9:80")},
			exists: true,
			addrs:  []string{"[fd00::1]:80"},
		},
		{
			name:   "a remove of the last address leaves a service without endpoints",
			steps:  []any{Add("10.0.0.1:80"), Remove("10.0.0.1:80")},
			exists: true,
		},
		{name: "no endpoints", steps: []any{Add("10.0.0.1:80"), None(true)}, exists: true},
		{name: "no service", steps: []any{Add("10.0.0.1:80"), None(false)}, exists: false},
		{
			name:   "add after no service",
			steps:  []any{None(false), Add("10.0.0.1:80")},
			exists: true,
			addrs:  []string{"10.0.0.1:80"},
		},
		{name: "remove after no service", steps: []any{None(false), Remove("10.0.0.1:80")}, exists: true},
		{
			name:   "a first remove is ignored",
			steps:  []any{Remove("10.0.0.1:80")},
			faults: []proxy.Fault{proxy.FirstRemove},
		},
		{name: "an empty add changes nothing", steps: []any{Add()}, faults: []proxy.Fault{proxy.EmptyAdd}},
		{name: "a reopened stream keeps its state", steps: []any{Add("10.0.0.1:80"), reopen},
			exists: true, addrs: []string{"10.0.0.1:80"}},
		{
			name:   "the first add replaces all addresses",
			steps:  []any{Add("10.0.0.1:80"), reopen, Add("10.0.0.2:80"), Add("10.0.0.3:80")},
			exists: true,
			addrs:  []string{"10.0.0.2:80", "10.0.0.3:80"},
		},
		{name: "an empty add replaces nothing", steps: []any{Add("10.0.0.1:80"), reopen, Add(), Add("10.0.0.2:80")},
			exists: true, addrs: []string{"10.0.0.2:80"}, faults: []proxy.Fault{proxy.EmptyAdd}},
		{name: "a remove after reopening is ignored", steps: []any{Add("10.0.0.1:80"), reopen, Remove("10.0.0.1:80")},
			exists: true, addrs: []string{"10.0.0.1:80"}, faults: []proxy.Fault{proxy.FirstRemove}},
		{
			name:   "no_endpoints replaces all addresses",
			steps:  []any{Add("10.0.0.1:80"), reopen, None(true), Remove("10.0.0.1:80"), Add("10.0.0.2:80")},
			exists: true,
			addrs:  []string{"10.0.0.2:80"},
		},
		{name: "a message without update", steps: []any{&pb.Update{}}, faults: []proxy.Fault{proxy.NoUpdate}},
		{name: "an invalid address", steps: []any{bad}, exists: true, addrs: []string{"10.0.0.1:80"},
			faults: []proxy.Fault{proxy.BadAddress}},
		{
			name:   "a duplicate address",
			steps:  []any{Add("10.0.0.1:80", "10.0.0.1:80")},
			exists: true,
			addrs:  []string{"10.0.0.1:80"},
			faults: []proxy.Fault{proxy.TwiceInOne},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var state proxy.GetState
			var faults []proxy.Fault
			for _, step := range test.steps {
				if update, ok := step.(*pb.Update); ok {
					faults = append(faults, state.Apply(update)...)
				} else {
					state.Open()
				}
			}
			if !slices.Equal(faults, test.faults) {
				t.Errorf("faults %q, want %q", faults, test.faults)
			}
			var addrs []string
			for _, a := range state.Addrs() {
				addrs = append(addrs, a.String())
			}
			if !slices.Equal(addrs, test.addrs) {
				t.Errorf("addresses %v, want %v", addrs, test.addrs)
			}
			if got := tree(t, &state)["exists"]; got != test.exists {
				t.Errorf("exists %v, want %v", got, test.exists)
			}
		})
	}
}

type folded interface{ JSON() (any, error) }

func tree(t *testing.T, state folded) map[string]any {
	t.Helper()
	v, err := state.JSON()
	if err != nil {
		t.Fatal(err)
	}
	m, _ := v.(map[string]any)
	return m
}

func sameJSON(t *testing.T, got any, want string) {
	t.Helper()
	var wanted any
	if err := json.Unmarshal([]byte(want), &wanted); err != nil {
		t.Fatal(err)
	}
	if text, err := json.Marshal(got); err != nil || !reflect.DeepEqual(got, wanted) {
		t.Errorf("got  %s (%v)\nwant %s", text, err, want)
	}
}

func TestGetMetadata(t *testing.T) {
	var state proxy.GetState
	state.Apply(&pb.Update{Update: &pb.Update_Add{Add: &pb.WeightedAddrSet{
		MetricLabels: map[string]string{"service": "web", "zone": "set"},
		Addrs: []*pb.WeightedAddr{
			{
				Addr: TCP("10.0.0.1:80"), Weight: 10000, MetricLabels: map[string]string{"zone": ""},
				ProtocolHint: &pb.ProtocolHint{}, ResourceRef: &meta.Metadata{},
			},
			{Addr: TCP("[fd00::1]:80"), ProtocolHint: &pb.ProtocolHint{
				Protocol:        &pb.ProtocolHint_H2_{H2: &pb.ProtocolHint_H2{}},
				OpaqueTransport: &pb.ProtocolHint_OpaqueTransport{InboundPort: 4143},
			}},
		},
	}}})
	sameJSON(t, tree(t, &state), `{"exists": true, "endpoints": {
		"10.0.0.1:80": {"metricLabels": {"service": "web", "zone": ""}, "weight": 10000},
		"[fd00::1]:80": {"metricLabels": {"service": "web", "zone": "set"},
			"protocolHint": {"h2": {}, "opaqueTransport": {"inboundPort": 4143}}}}}`)
}

func TestProfileFold(t *testing.T) {
	tests := []struct{ name, profile, want string }{
		{"empty", `{}`, `{}`},
		{"endpoint with only address and weight",
			`{"endpoint": {"addr": {"ip": {"ipv4": 167772161}, "port": 80}, "weight": 10000}, "opaqueProtocol": true}`,
			`{"opaqueProtocol": true}`},
		{"endpoint",
			`{"endpoint": {"addr": {"ip": {"ipv4": 167772161}, "port": 80}, "weight": 10000, "metricLabels": ` +
				`{"zone": ""}}}`,
			`{"endpoint": {"addr": "10.0.0.1:80", "weight": 10000, "metricLabels": {"zone": ""}}}`},
		{
			"reference without name",
			`{"profileRef": {"resource": {"group": "linkerd.io", "kind": "ServiceProfile"}}}`,
			`{}`,
		},
		{"empty reference", `{"profileRef": {}}`, `{}`},
		{
			"reference with name",
			`{"profileRef": {"resource": {"group": "linkerd.io", "kind": "ServiceProfile", "name": "web"}}}`,
			`{"profileRef": {"resource": {"group": "linkerd.io", "name": "web"}}}`,
		},
		{
			"the parent's kind is kept",
			`{"parentRef": {"resource": {"group": "core", "kind": "Service", "name": "web", "port": 80}}}`,
			`{"parentRef": {"resource": {"group": "core", "kind": "Service", "name": "web", "port": 80}}}`,
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var state proxy.ProfileState
			if v, err := state.JSON(); v != nil || err != nil {
				t.Errorf("before the first message: %v, %v", v, err)
			}
			profile := &pb.DestinationProfile{}
			if err := protojson.Unmarshal([]byte(test.profile), profile); err != nil {
				t.Fatal(err)
			}
			state.Apply(profile)
			sameJSON(t, tree(t, &state), test.want)
		})
	}
}

func TestProfileFaults(t *testing.T) {
	negated := func(times int) *pb.DestinationProfile {
		match := &pb.RequestMatch{Match: &pb.RequestMatch_Path{Path: &pb.PathMatch{Regex: "/"}}}
		for range times {
			match = &pb.RequestMatch{Match: &pb.RequestMatch_Not{Not: match}}
		}
		return &pb.DestinationProfile{
			Routes: []*pb.Route{{Condition: match, MetricsLabels: map[string]string{"route": "deep"}}},
		}
	}
	tests := []struct {
		name    string
		profile *pb.DestinationProfile
		faults  []proxy.Fault
	}{
		{"empty", &pb.DestinationProfile{}, nil},
		{"endpoint", &pb.DestinationProfile{Endpoint: &pb.WeightedAddr{Addr: TCP("10.0.0.1:80")}}, nil},
		{
			"endpoint without address",
			&pb.DestinationProfile{Endpoint: &pb.WeightedAddr{Weight: 10000}},
			[]proxy.Fault{proxy.BadAddress},
		},
		{"maximum depth", negated(97), nil}, // the route, the outermost condition and the path count too
		{"too deep", negated(98), []proxy.Fault{proxy.TooDeep}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var state proxy.ProfileState
			if faults := state.Apply(test.profile); !slices.Equal(faults, test.faults) {
				t.Errorf("faults %q, want %q", faults, test.faults)
			}
		})
	}
}
