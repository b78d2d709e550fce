package wire

import (
	"bytes"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	pb "github.com/linkerd/linkerd2-proxy-api/go/destination"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"isthmus/federation"
	"isthmus/grpcapi/internal/wiretest"
)

// TestLargeSets checks that a large set needs several messages within the limit. All but the last
// are as full as possible, and together they hold the whole set.
func TestLargeSets(t *testing.T) {
	e := encoderFor(t, Options{H2Upgrade: true}, "")
	for _, tc := range []struct{ n, labelBytes, want int }{
		{9000, 500, 2},
		{20_000, 0, 1},
		{8000, 1100, 3},
		{3, 3 << 20, 3},
		{3, 5 << 20, 3},
		{1, 5 << 20, 1},
		{13, 300_000, 1},
		{14, 300_000, 2},
	} {
		list := wiretest.Many(tc.n, tc.labelBytes)
		frames := e.Full(&federation.Set{Endpoints: list})
		if len(frames) != tc.want {
			t.Errorf("%v: %d messages", tc, len(frames))
		}
		p := proxy{}
		one := len(e.add(list[:1])[0].data.Materialize()) // approximate size of one endpoint
		for i, u := range wiretest.Decode(t, NewCodec(), frames) {
			size := frames[i].data.Len()
			if size > maxMessage && len(u.GetAdd().Addrs) > 1 {
				t.Errorf("%v: message %d has %d bytes", tc, i, size)
			}
			if i < len(frames)-1 && size+one+8 <= maxMessage {
				t.Errorf("%v: message %d has only %d bytes, one endpoint has %d", tc, i, size, one)
			}
			p.Apply(u)
		}
		for a, ep := range p.Endpoints {
			if ep.MetricLabels["service"] != "simple-app-v1" {
				t.Fatalf("%v: %v has the labels %v", tc, a, ep.MetricLabels)
			}
		}
		if got := p.Addrs(); len(got) != tc.n || len(p.Faults) > 0 {
			t.Errorf("%v: %d addresses, faults %v", tc, len(got), p.Faults)
		}
	}
}

func TestLargeSteps(t *testing.T) {
	e := encoderFor(t, Options{H2Upgrade: true}, "")
	from := &federation.Set{Exists: true, Endpoints: wiretest.Many(400_000, 0)}
	to := &federation.Set{Exists: true, Endpoints: wiretest.Many(1, 0)}
	frames := e.Step(from, to, false)
	if len(frames) != 2 { // two removes
		t.Fatalf("%d messages", len(frames))
	}
	p := proxy{Opened: true, Endpoints: map[netip.AddrPort]*pb.WeightedAddr{}}
	for _, ep := range from.Endpoints {
		p.Endpoints[ep.Addr] = nil
	}
	for i, u := range wiretest.Decode(t, NewCodec(), frames) {
		if size := frames[i].data.Len(); size > maxMessage {
			t.Errorf("message %d has %d bytes", i, size)
		}
		p.Apply(u)
	}
	if len(p.Endpoints) != 1 || len(p.Faults) > 0 {
		t.Errorf("%d endpoints remain, faults %v", len(p.Endpoints), p.Faults)
	}
}

// at returns endpoints that only have an address.
func at(addrs ...string) []*federation.Endpoint {
	var list []*federation.Endpoint
	for _, a := range addrs {
		list = append(list, &federation.Endpoint{Addr: netip.MustParseAddrPort(a)})
	}
	return list
}

// TestSteps checks that a step is one message that adds endpoints, and then one that removes endpoints.
//
// Behaviours, PR-26, CS-10.
func TestSteps(t *testing.T) {
	e := encoderFor(t, Options{}, "")
	set := func(exists bool, addrs ...string) *federation.Set {
		return &federation.Set{Exists: exists, Complete: true, Endpoints: at(addrs...)}
	}
	for _, tc := range []struct {
		from, to *federation.Set
		all      bool
		want     string
	}{
		{set(true, "10.0.0.1:1"), set(true, "10.0.0.1:1"), false, ""},
		{set(true, "10.0.0.1:1"), set(true, "10.0.0.1:1"), true, "add 10.0.0.1:1"},
		{set(true, "10.0.0.1:1"), set(true, "10.0.0.2:1"), true, "add 10.0.0.2:1; remove 10.0.0.1:1"},
		{set(true, "10.0.0.1:1", "[2001:db8::94]:1"), set(true, "10.0.0.1:1"), false, "remove [2001:db8::94]:1"},
		{set(true, "10.0.0.1:1"), set(true), true, "no_endpoints(true)"},
		{set(true, "10.0.0.1:1"), set(false), false, "no_endpoints(false)"},
		{set(true), set(true), true, ""},
		{set(true), set(false), false, "no_endpoints(false)"},
		{set(false), set(true), false, "no_endpoints(true)"},
		{set(false), set(true, "10.0.0.1:1"), false, "add 10.0.0.1:1"},
	} {
		var got []string
		for _, u := range wiretest.Decode(t, NewCodec(), e.Step(tc.from, tc.to, tc.all)) {
			got = append(got, wiretest.Line(u))
		}
		if s := strings.Join(got, "; "); s != tc.want {
			t.Errorf(
				"from %v (%v) to %v (%v), all=%v: got %q, want %q",
				tc.from.Endpoints,
				tc.from.Exists,
				tc.to.Endpoints,
				tc.to.Exists,
				tc.all,
				s,
				tc.want,
			)
		}
	}
}

func TestNested(t *testing.T) {
	for _, n := range []int{0, 1, 127, 128, 129, 16383, 16384, 1 << 21} {
		body := strings.Repeat("y", n)
		got := nested([]byte("before"), 7, func(b []byte) []byte { return append(b, body...) })
		want := protowire.AppendString(protowire.AppendTag([]byte("before"), 7, protowire.BytesType), body)
		if !bytes.Equal(got, want) {
			t.Errorf("a message of %d bytes is encoded wrongly", n)
		}
	}
}

func encoderFor(t testing.TB, o Options, zone string) Encoder {
	t.Helper()
	e, err := NewEncoder(o)
	if err != nil {
		t.Fatal(err)
	}
	return e.InZone(zone)
}

// TestNoUTF8 checks that invalid UTF-8 is replaced, because proxies reject it.
func TestNoUTF8(t *testing.T) {
	e := encoderFor(t, Options{}, "")
	set := &federation.Set{
		Endpoints: []*federation.Endpoint{
			{
				Addr:   netip.MustParseAddrPort("10.0.0.1:80"),
				Common: &federation.Common{Labels: wiretest.Labels("pod", "a\xffb")},
			},
		},
	}
	if got := wiretest.Decode(t, NewCodec(), e.Full(set))[0].GetAdd().Addrs[0].MetricLabels["pod"]; got != "a\uFFFDb" {
		t.Errorf("the text became %q", got)
	}
}

// TestShorten checks that endpoints get a short name of a tier with many clusters.
func TestShorten(t *testing.T) {
	for n, want := range map[int]int{maxTier: maxTier, maxTier + 1: maxTier + 3, 4000: maxTier + 3} {
		if got := shorten(strings.Repeat("x", n)); len(got) != want {
			t.Errorf("a name of %d bytes is shortened to %d", n, len(got))
		}
	}
}

// TestSharedLabels checks that labels that all endpoints have are sent once, except the labels that
// must be on the address.
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
		"one":   {eps{ep(same)}, "namespace service"},
		"alike": {eps{ep(same), ep(same), ep(same)}, all},
		"one slice": {
			eps{
				ep(func(e *federation.Endpoint) { e.Common.Group = group }),
				ep(func(e *federation.Endpoint) { e.Common.Group = group }),
			},
			all,
		},
		"other service": {eps{ep(same), ep(func(e *federation.Endpoint) {
			e.Common.Group = wiretest.Labels("namespace", "simple-app", "service", "cart")
		}), ep(same)}, strings.Replace(all, "service ", "", 1)},
		"no group": {
			eps{ep(same), ep(func(e *federation.Endpoint) { e.Common.Group = nil }), ep(same)},
			"control_plane_ns deployment pod_template_hash serviceaccount zone",
		},
		"other zone": {
			eps{ep(same), ep(func(e *federation.Endpoint) { e.Zone = "b" })},
			strings.TrimSuffix(all, " zone"),
		},
		"two other zones": {
			eps{ep(func(e *federation.Endpoint) { e.Zone = "c" }), ep(func(e *federation.Endpoint) { e.Zone = "b" })},
			strings.TrimSuffix(all, " zone"),
		},
		"linked": {
			eps{
				ep(func(e *federation.Endpoint) { e.Cluster = "east" }),
				ep(func(e *federation.Endpoint) { e.Cluster = "east" }),
			},
			strings.Replace(all, "zone", "target_cluster zone", 1),
		},
		"two linked": {
			eps{
				ep(func(e *federation.Endpoint) { e.Cluster = "east" }),
				ep(func(e *federation.Endpoint) { e.Cluster = "north" }),
			},
			all,
		},
		"local and linked": {eps{ep(same), ep(func(e *federation.Endpoint) { e.Cluster = "east" })}, all},
		"a bare address": {eps{ep(same), ep(func(e *federation.Endpoint) {
			e.Kind, e.Twin, e.Common.Labels, e.Zone = federation.Address, "", nil, ""
		})}, "namespace service"},
		"no endpoint labels": {
			eps{
				ep(func(e *federation.Endpoint) { e.Common.Labels = nil }),
				ep(func(e *federation.Endpoint) { e.Common.Labels = nil }),
			},
			"namespace service zone",
		},
		"no zones": {
			eps{ep(func(e *federation.Endpoint) { e.Zone = "" }), ep(func(e *federation.Endpoint) { e.Zone = "" })},
			all + " zone_locality",
		},
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
			got := p.Endpoints[e.Addr].MetricLabels
			want := reference(o, "a", e).MetricLabels
			if !maps.Equal(got, want) {
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

// proxy applies updates like linkerd2-proxy, and records updates that a server must not send.
type proxy struct {
	Opened    bool // an add or no_endpoints has arrived on this stream
	Exists    bool
	Endpoints map[netip.AddrPort]*pb.WeightedAddr // with all their labels
	Faults    []string                            // updates that the server must not send
}

func (p *proxy) Apply(u *pb.Update) {
	switch u := u.Update.(type) {
	case *pb.Update_Add:
		if len(u.Add.Addrs) == 0 {
			p.fault("empty add")
			return
		}
		if !p.Opened {
			p.Endpoints = make(map[netip.AddrPort]*pb.WeightedAddr)
		}
		p.Opened, p.Exists = true, true
		for _, a := range u.Add.Addrs {
			labels := maps.Clone(u.Add.MetricLabels)
			if labels == nil {
				labels = make(map[string]string)
			}
			if labels["zone_locality"] != "unknown" {
				delete(labels, "zone_locality") // a proxy reads this label only from the address
			}
			maps.Copy(labels, a.MetricLabels)
			a := proto.Clone(a).(*pb.WeightedAddr)
			a.MetricLabels = labels
			p.Endpoints[wiretest.AddrOf(a.Addr)] = a
		}
	case *pb.Update_Remove:
		if !p.Opened {
			p.fault("remove first")
			return
		}
		for _, a := range u.Remove.Addrs {
			if _, ok := p.Endpoints[wiretest.AddrOf(a)]; !ok {
				p.fault("remove of " + wiretest.AddrOf(a).String() + ", which is not there")
			}
			delete(p.Endpoints, wiretest.AddrOf(a))
		}
		if len(p.Endpoints) == 0 {
			p.fault("a remove leaves nothing")
		}
	case *pb.Update_NoEndpoints:
		p.Opened, p.Exists = true, u.NoEndpoints.Exists
		p.Endpoints = make(map[netip.AddrPort]*pb.WeightedAddr)
	default:
		p.fault(fmt.Sprintf("unknown update %v", u))
	}
}

func (p *proxy) fault(s string) { p.Faults = append(p.Faults, s) }

// Addrs returns the addresses of the endpoints, sorted.
func (p *proxy) Addrs() []netip.AddrPort {
	return slices.SortedFunc(maps.Keys(p.Endpoints), netip.AddrPort.Compare)
}

// Equal reports whether two proxies have the same endpoints.
func (p *proxy) Equal(o *proxy) bool {
	return p.Exists == o.Exists &&
		maps.EqualFunc(p.Endpoints, o.Endpoints, func(a, b *pb.WeightedAddr) bool { return proto.Equal(a, b) })
}
