package sim

import (
	"fmt"
	"slices"

	pb "github.com/linkerd/linkerd2-proxy-api/go/destination"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"isthmus/e2e/harness/kube"
	"isthmus/e2e/proxy"
)

// profile is the part of a DestinationProfile that is checked.
type profile struct {
	name   string
	opaque bool
	routes []string
}

// expectedProfile returns the profile of a Service. It only depends on objects of the local
// cluster. If ok is false, the Service does not exist.
func expectedProfile(w *world, service string) (p profile, ok bool) {
	local := w.clusters[0]
	o := local.services[service]
	if o == nil {
		return p, false
	}
	p = profile{name: fullName(service), opaque: o.Annotations[kube.OpaquePorts] == fmt.Sprint(kube.ServicePort)}
	if of := local.profiles[p.name]; of != nil {
		routes, _, _ := unstructured.NestedSlice(of.Object, "spec", "routes")
		for _, route := range routes {
			name, _, _ := unstructured.NestedString(route.(map[string]any), "name")
			p.routes = append(p.routes, name)
		}
	}
	return p, true
}

func profileOf(m *pb.DestinationProfile) profile {
	p := profile{name: m.GetFullyQualifiedName(), opaque: m.GetOpaqueProtocol()}
	for _, route := range m.GetRoutes() {
		p.routes = append(p.routes, route.GetMetricsLabels()["route"])
	}
	return p
}

// wrongProfile returns an error if a client does not have the profile that it should.
func wrongProfile(w *world, service string, now proxy.Snapshot) error {
	want, exists := expectedProfile(w, service)
	refused := now.Phase == proxy.Ended && status.Code(now.Err) == codes.NotFound
	switch {
	case refused && !exists:
		return nil
	case now.Phase != proxy.Open || now.First == nil:
		return fmt.Errorf("the stream is not open, or has received no message: %w", now.Err)
	}
	got := profileOf(now.Profile.Profile())
	if got.name != want.name || got.opaque != want.opaque || !slices.Equal(got.routes, want.routes) {
		return fmt.Errorf("the profile is %+v, should be %+v", got, want)
	}
	return nil
}
