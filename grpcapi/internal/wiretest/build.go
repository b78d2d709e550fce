package wiretest

import (
	"fmt"
	"net/netip"
	"strings"
	"time"

	pb "github.com/linkerd/linkerd2-proxy-api/go/destination"
	"google.golang.org/protobuf/types/known/durationpb"

	"isthmus/federation"
)

// Labels makes labels of names and values in turn.
func Labels(kv ...string) []federation.Label {
	var list []federation.Label
	for i := 0; i < len(kv); i += 2 {
		list = append(list, federation.Label{Name: kv[i], Value: kv[i+1]})
	}
	return list
}

// HTTP2Params are what Linkerd's charts set.
func HTTP2Params() *pb.Http2ClientParams {
	return &pb.Http2ClientParams{KeepAlive: &pb.Http2ClientParams_KeepAlive{
		Interval: durationpb.New(10 * time.Second), Timeout: durationpb.New(3 * time.Second), WhileIdle: true,
	}}
}

// Shop is the meshed pod of the reference's logs.
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

// Many returns n endpoints with labels of that many bytes.
func Many(n, labelBytes int) []*federation.Endpoint {
	list := make([]*federation.Endpoint, n)
	for i := range list {
		e := Shop()
		e.Addr = netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}), 80)
		e.Twin, e.Common.Labels = fmt.Sprintf("pod-%07d", i)+strings.Repeat("x", labelBytes), nil
		list[i] = e
	}
	return list
}

// Web is the service of most tests.
var Web = federation.ServiceID{Namespace: "shop", Name: "web"}

// WebProfile returns a profile of Web, with routes of these names if there are any.
func WebProfile(routes ...string) *federation.Profile {
	p := &federation.Profile{Service: Web, Port: 80, Name: "web.shop.svc.cluster.local"}
	if len(routes) > 0 {
		p.Routes = ServiceProfile(routes...)
	}
	return p
}

// ServiceProfile returns one of Web, with routes of these names.
func ServiceProfile(routes ...string) *federation.ServiceProfile {
	sp := &federation.ServiceProfile{Namespace: "shop", Name: "web.shop.svc.cluster.local"}
	for _, r := range routes {
		sp.Routes = append(sp.Routes, federation.Route{Name: r, Condition: federation.Match{Kind: federation.MatchPath, Text: "/" + r}})
	}
	return sp
}
