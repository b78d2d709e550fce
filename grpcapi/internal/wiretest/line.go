package wiretest

import (
	"fmt"
	"strings"

	pb "github.com/linkerd/linkerd2-proxy-api/go/destination"
	"google.golang.org/protobuf/proto"
)

// Line is an update in a few words: add A B, remove A, no_endpoints(true).
func Line(u *pb.Update) string {
	var words []string
	switch u := u.Update.(type) {
	case *pb.Update_Add:
		for _, a := range u.Add.Addrs {
			words = append(words, addrOf(a.Addr).String())
		}
		return "add " + strings.Join(words, " ")
	case *pb.Update_Remove:
		for _, a := range u.Remove.Addrs {
			words = append(words, addrOf(a).String())
		}
		return "remove " + strings.Join(words, " ")
	case *pb.Update_NoEndpoints:
		return fmt.Sprintf("no_endpoints(%v)", u.NoEndpoints.Exists)
	}
	return "nothing"
}

// ProfileLine is a profile in a few words: "web routes a b opaque", "endpoint
// 10.0.0.1:80", "nothing".
func ProfileLine(p *pb.DestinationProfile) string {
	if proto.Size(p) == 0 {
		return "nothing"
	}
	var words []string
	if name := p.GetFullyQualifiedName(); name != "" {
		words = append(words, strings.Split(name, ".")[0])
	}
	if e := p.GetEndpoint(); e != nil {
		words = append(words, "endpoint", addrOf(e.GetAddr()).String())
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
