// Package wiretest contains helpers for the tests of grpcapi and grpcapi/wire: a short notation for
// messages, and example endpoints and profiles. To avoid import cycles, wiretest does not import
// the packages that it helps to test.
package wiretest

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	pb "github.com/linkerd/linkerd2-proxy-api/go/destination"
	"github.com/linkerd/linkerd2-proxy-api/go/net"
	"google.golang.org/grpc/encoding"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"isthmus/federation"
)

// Until waits until the given function returns true, or fails the test after a minute.
func Until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within a minute", what)
		}
		<-time.After(time.Millisecond)
	}
}

func Unmarshal(codec encoding.CodecV2, frame any, to proto.Message) error {
	data, err := codec.Marshal(frame)
	if err != nil {
		return err
	}
	return proto.Unmarshal(data.Materialize(), to)
}

// Decode returns the updates in the given frames. If an update contains fields that proxies do not
// know, the test fails.
func Decode[Frame any](t testing.TB, codec encoding.CodecV2, frames []Frame) []*pb.Update {
	t.Helper()
	var all []*pb.Update
	for _, f := range frames {
		u := &pb.Update{}
		if err := Unmarshal(codec, f, u); err != nil {
			t.Fatal(err)
		}
		if len(u.ProtoReflect().GetUnknown()) > 0 {
			t.Fatalf("unknown fields in %v", u)
		}
		all = append(all, u)
	}
	return all
}

func Labels(kv ...string) []federation.Label {
	var list []federation.Label
	for i := 0; i < len(kv); i += 2 {
		list = append(list, federation.Label{Name: kv[i], Value: kv[i+1]})
	}
	return list
}

// HTTP2Params returns the HTTP/2 parameters that Linkerd's charts set.
func HTTP2Params() *pb.Http2ClientParams {
	return &pb.Http2ClientParams{KeepAlive: &pb.Http2ClientParams_KeepAlive{
		Interval: durationpb.New(10 * time.Second), Timeout: durationpb.New(3 * time.Second), WhileIdle: true,
	}}
}

// Shop returns an example of a meshed Pod, taken from the logs of Linkerd's destination controller.
func Shop() *federation.Endpoint {
	const id = "default.simple-app.serviceaccount.identity.linkerd.cluster.local"
	return &federation.Endpoint{
		Addr: netip.MustParseAddrPort("10.23.0.27:5678"), Kind: federation.Pod,
		Twin: "simple-app/simple-app-v1-57b57f8947-b6bpd", Meshed: true, InboundPort: 4143,
		Common: &federation.Common{
			Group: Labels("namespace", "simple-app", "service", "simple-app-v1"),
			Labels: Labels("control_plane_ns", "linkerd", "deployment", "simple-app-v1",
				"pod_template_hash", "57b57f8947", "serviceaccount", "default"),
			Identity: federation.Identity{DNS: id, ServerName: id},
		},
	}
}

// Many returns n endpoints whose names are labelBytes bytes longer than usual.
func Many(n, labelBytes int) []*federation.Endpoint {
	list := make([]*federation.Endpoint, n)
	for i := range list {
		e := Shop()
		e.Addr = netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}), 80)
		e.Twin = fmt.Sprintf("pod-%07d", i) + strings.Repeat("x", labelBytes)
		e.Common.Labels = nil
		list[i] = e
	}
	return list
}

var Web = federation.ServiceID{Namespace: "shop", Name: "web"}

func WebProfile(routes ...string) *federation.Profile {
	p := &federation.Profile{Service: Web, Port: 80, Name: "web.shop.svc.cluster.local"}
	if len(routes) > 0 {
		p.Routes = ServiceProfile(routes...)
	}
	return p
}

func ServiceProfile(routes ...string) *federation.ServiceProfile {
	sp := &federation.ServiceProfile{Namespace: "shop", Name: "web.shop.svc.cluster.local"}
	for _, r := range routes {
		sp.Routes = append(sp.Routes, federation.Route{
			Name:      r,
			Condition: federation.Match{Kind: federation.MatchPath, Text: "/" + r},
		})
	}
	return sp
}

// Line returns a short form of an update, such as "add A B", "remove A" or "no_endpoints(true)".
func Line(u *pb.Update) string {
	var words []string
	switch u := u.Update.(type) {
	case *pb.Update_Add:
		for _, a := range u.Add.Addrs {
			words = append(words, AddrOf(a.Addr).String())
		}
		return "add " + strings.Join(words, " ")
	case *pb.Update_Remove:
		for _, a := range u.Remove.Addrs {
			words = append(words, AddrOf(a).String())
		}
		return "remove " + strings.Join(words, " ")
	case *pb.Update_NoEndpoints:
		return fmt.Sprintf("no_endpoints(%v)", u.NoEndpoints.Exists)
	}
	return "nothing"
}

// ProfileLine returns a short form of a profile, such as "web routes a b opaque", "endpoint
// 10.0.0.1:80" or "nothing".
func ProfileLine(p *pb.DestinationProfile) string {
	if proto.Size(p) == 0 {
		return "nothing"
	}
	var words []string
	if name := p.GetFullyQualifiedName(); name != "" {
		words = append(words, strings.Split(name, ".")[0])
	}
	if e := p.GetEndpoint(); e != nil {
		words = append(words, "endpoint", AddrOf(e.GetAddr()).String())
	}
	for i, r := range p.GetRoutes() {
		if i == 0 {
			words = append(words, "routes")
		}
		words = append(words, r.GetMetricsLabels()["route"])
	}
	if p.GetOpaqueProtocol() {
		words = append(words, "opaque")
	}
	return strings.Join(words, " ")
}

func AddrOf(a *net.TcpAddress) netip.AddrPort {
	var ip netip.Addr
	switch a := a.Ip.Ip.(type) {
	case *net.IPAddress_Ipv4:
		ip = netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, a.Ipv4)))
	case *net.IPAddress_Ipv6:
		b := binary.BigEndian.AppendUint64(nil, a.Ipv6.First)
		ip = netip.AddrFrom16([16]byte(binary.BigEndian.AppendUint64(b, a.Ipv6.Last)))
	}
	return netip.AddrPortFrom(ip, uint16(a.Port))
}
