package wire

import (
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	pb "github.com/linkerd/linkerd2-proxy-api/go/destination"

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

// TestNoUTF8: proxies reject what is no UTF-8.
func TestNoUTF8(t *testing.T) {
	e := encoderFor(t, Options{}, "")
	set := &federation.Set{Endpoints: []*federation.Endpoint{{Addr: netip.MustParseAddrPort("10.0.0.1:80"), Common: &federation.Common{Labels: wiretest.Labels("pod", "a\xffb")}}}}
	if got := wiretest.Decode(t, NewCodec(), e.Full(set))[0].GetAdd().Addrs[0].MetricLabels["pod"]; got != "a\uFFFDb" {
		t.Errorf("a text became %q", got)
	}
}

// TestShorten: a tier of many clusters is not written out at each of its endpoints.
func TestShorten(t *testing.T) {
	for n, want := range map[int]int{maxTier: maxTier, maxTier + 1: maxTier + 3, 4000: maxTier + 3} {
		if got := shorten(strings.Repeat("x", n)); len(got) != want {
			t.Errorf("a name of %d bytes has %d", n, len(got))
		}
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
