package wire

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	pb "github.com/linkerd/linkerd2-proxy-api/go/destination"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"

	"isthmus/federation"
	"isthmus/grpcapi/internal/wiretest"
)

func encoderFor(t testing.TB, o Options, zone string) Encoder {
	t.Helper()
	e, err := NewEncoder(o)
	if err != nil {
		t.Fatal(err)
	}
	return e.InZone(zone)
}

const (
	shopAddr   = `addr{ip{ipv4:169279515} port:5678} weight:10000 `
	shopLabels = `metric_labels{key:"control_plane_ns" value:"linkerd"} metric_labels{key:"deployment" value:"simple-app-v1"}
		metric_labels{key:"pod" value:"simple-app-v1-57b57f8947-b6bpd"} metric_labels{key:"pod_template_hash" value:"57b57f8947"}
		metric_labels{key:"serviceaccount" value:"default"} `
	noZone = `metric_labels{key:"zone" value:""} metric_labels{key:"zone_locality" value:"unknown"} `
	shopID = `tls_identity{dns_like_identity{name:"default.simple-app.serviceaccount.identity.linkerd.cluster.local"}
		server_name{name:"default.simple-app.serviceaccount.identity.linkerd.cluster.local"}} `
	shopSet = ` metric_labels{key:"namespace" value:"simple-app"} metric_labels{key:"service" value:"simple-app-v1"}`
	chart2  = `http2{keep_alive{interval{seconds:10} timeout{seconds:3} while_idle:true}} `
)

// label is a label in a golden message.
func label(name, value string) string {
	return fmt.Sprintf("metric_labels{key:%q value:%q} ", name, value)
}

// TestGolden compares whole messages with those of the reference. The
// numbers are those of its own test cases.
//
// Behaviours: X-08.
func TestGolden(t *testing.T) {
	gateway := &federation.Endpoint{
		Addr: netip.MustParseAddrPort("192.0.2.7:4143"), Kind: federation.Address,
		Common: &federation.Common{
			Group:    wiretest.Labels("namespace", "ns", "service", "web-east", "target_cluster", "east"),
			Identity: federation.Identity{DNS: "some-identity"}, Authority: "some-auth.com:2",
		},
	}
	gatewayText := `addr{ip{ipv4:3221225991} port:4143} weight:10000 ` + label("zone_locality", "unknown")
	gatewaySet := ` ` + label("namespace", "ns") + label("service", "web-east") + label("target_cluster", "east")
	bare := &federation.Endpoint{Addr: netip.MustParseAddrPort("[2001:db8::94]:8989"), Kind: federation.Address}

	with := func(e *federation.Endpoint, f func(*federation.Endpoint)) *federation.Endpoint {
		e = new(*e)
		e.Common = new(*e.Common.Get())
		f(e)
		return e
	}
	for _, tc := range []struct {
		name string
		o    Options
		zone string
		ep   *federation.Endpoint
		want string // the WeightedAddrSet
	}{
		{"golden: chart defaults", Options{H2Upgrade: true, ForceOpaqueTransport: true, MeshedHTTP2: wiretest.HTTP2Params()}, "", wiretest.Shop(),
			`addrs{` + shopAddr + shopLabels + noZone + shopID + chart2 + `protocol_hint{h2{} opaque_transport{inbound_port:4143}}}` + shopSet},
		{"target cluster, set by the slice", Options{H2Upgrade: true, TargetClusterLabel: true}, "",
			with(gateway, func(e *federation.Endpoint) { e.Cluster = "north"; e.Common.Identity = federation.Identity{} }),
			`addrs{` + gatewayText + `authority_override{authority_override:"some-auth.com:2"}}` + gatewaySet},
		{"X-04 gateway", Options{H2Upgrade: true, ForceOpaqueTransport: true, MeshedHTTP2: wiretest.HTTP2Params()}, "west-1a", gateway,
			`addrs{` + gatewayText + `tls_identity{dns_like_identity{name:"some-identity"}} ` + chart2 + `protocol_hint{h2{}} authority_override{authority_override:"some-auth.com:2"}}` + gatewaySet},
		{"text that is no UTF-8", Options{}, "", &federation.Endpoint{Addr: bare.Addr, Common: &federation.Common{Labels: wiretest.Labels("pod", "a\xffb")}},
			`addrs{addr{ip{ipv6{first:2306139568115548160 last:148}} port:8989} weight:10000 ` + label("pod", "a\uFFFDb") + label("zone_locality", "unknown") + `}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			want := &pb.Update{}
			if err := prototext.Unmarshal([]byte(`add{`+tc.want+`}`), want); err != nil {
				t.Fatal(err)
			}
			e := encoderFor(t, tc.o, tc.zone)
			got := wiretest.Decode(t, NewCodec(), e.Full(&federation.Set{Endpoints: []*federation.Endpoint{tc.ep}}))
			if len(got) != 1 || !proto.Equal(got[0], want) {
				t.Errorf("got  %v\nwant %v", got, want)
			}
		})
	}
}

// TestSharedLabels: labels that all endpoints of a message have are sent once, except
// those that name the endpoint and that it is in the client's zone or not. All others are sent with their address.
func TestSharedLabels(t *testing.T) {
	type eps = []*federation.Endpoint
	var addr byte
	ep := func(change func(*federation.Endpoint)) *federation.Endpoint {
		addr++
		e := wiretest.Shop()
		e.Addr, e.Zone = netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 0, addr}), 80), "a"
		change(e)
		return e
	}
	same := func(*federation.Endpoint) {}
	const all = "control_plane_ns deployment namespace pod_template_hash service serviceaccount zone"
	group := wiretest.Labels("namespace", "simple-app", "service", "simple-app-v1")
	for name, tc := range map[string]struct {
		list eps
		want string
	}{
		"one":       {eps{ep(same)}, "namespace service"},
		"alike":     {eps{ep(same), ep(same), ep(same)}, all},
		"one slice": {eps{ep(func(e *federation.Endpoint) { e.Common.Group = group }), ep(func(e *federation.Endpoint) { e.Common.Group = group })}, all},
		"other service": {eps{ep(same), ep(func(e *federation.Endpoint) {
			e.Common.Group = wiretest.Labels("namespace", "simple-app", "service", "cart")
		}), ep(same)}, strings.Replace(all, "service ", "", 1)},
		"no group":         {eps{ep(same), ep(func(e *federation.Endpoint) { e.Common.Group = nil }), ep(same)}, "control_plane_ns deployment pod_template_hash serviceaccount zone"},
		"other zone":       {eps{ep(same), ep(func(e *federation.Endpoint) { e.Zone = "b" })}, strings.TrimSuffix(all, " zone")},
		"two other zones":  {eps{ep(func(e *federation.Endpoint) { e.Zone = "c" }), ep(func(e *federation.Endpoint) { e.Zone = "b" })}, strings.TrimSuffix(all, " zone")},
		"linked":           {eps{ep(func(e *federation.Endpoint) { e.Cluster = "east" }), ep(func(e *federation.Endpoint) { e.Cluster = "east" })}, strings.Replace(all, "zone", "target_cluster zone", 1)},
		"two linked":       {eps{ep(func(e *federation.Endpoint) { e.Cluster = "east" }), ep(func(e *federation.Endpoint) { e.Cluster = "north" })}, all},
		"local and linked": {eps{ep(same), ep(func(e *federation.Endpoint) { e.Cluster = "east" })}, all},
		"a bare address": {eps{ep(same), ep(func(e *federation.Endpoint) {
			e.Kind, e.Twin, e.Common.Labels, e.Zone = federation.Address, "", nil, ""
		})}, "namespace service"},
		"no endpoint labels": {eps{ep(func(e *federation.Endpoint) { e.Common.Labels = nil }), ep(func(e *federation.Endpoint) { e.Common.Labels = nil })}, "namespace service zone"},
		"no zones":           {eps{ep(func(e *federation.Endpoint) { e.Zone = "" }), ep(func(e *federation.Endpoint) { e.Zone = "" })}, all + " zone_locality"},
	} {
		o := Options{TargetClusterLabel: true}
		enc := encoderFor(t, o, "a")
		u := wiretest.Decode(t, NewCodec(), enc.add(tc.list))[0].GetAdd()
		if got := strings.Join(slices.Sorted(maps.Keys(u.MetricLabels)), " "); got != tc.want {
			t.Errorf("%s: set labels %s, want %s", name, got, tc.want)
		}
		p := proxy{}
		p.Apply(&pb.Update{Update: &pb.Update_Add{Add: u}})
		for i, e := range tc.list {
			if got, want := p.Endpoints[e.Addr].MetricLabels, reference(o, "a", e).MetricLabels; !maps.Equal(got, want) {
				t.Errorf("%s: %v has the labels %v, want %v", name, e.Addr, got, want)
			}
			for _, l := range e.Common.Labels {
				if l.Name == "pod" && u.Addrs[i].MetricLabels["pod"] != l.Value {
					t.Errorf("%s: %v does not name its pod", name, e.Addr)
				}
			}
		}
	}
	if group[0].Name != "namespace" || group[1].Name != "service" {
		t.Error("a group was modified")
	}
}
