package e2e

import (
	"fmt"
	"strings"
	"testing"

	"google.golang.org/grpc"

	"isthmus/e2e/harness"
	"isthmus/e2e/harness/kube"
	"isthmus/e2e/proxy"
)

// proxyMessage is how large a message may be for a proxy to read it.
const proxyMessage = 4 << 20

// TestLargeServiceProfiles: ServiceProfiles about as large as Kubernetes keeps them. One reaches a proxy whole, in a message
// that it can read; a proxy that does not read it delays no other, and gets the newest in the end; one that has as many parts
// as fit into it leaves its Service some profile at least.
func TestLargeServiceProfiles(t *testing.T) {
	t.Parallel()
	p := newProfiles(t)
	const routes = 4500
	large := p.subscribe("large")
	p.write("large", manyRoutes(routes, "first"))
	awaitState(t, large, "all routes", func(now proxy.Snapshot) bool { return firstRoute(now, routes) == "first" })
	if sizes := p.sizes.take(); sizes[len(sizes)-1] < 1<<20 {
		t.Errorf("messages of %d bytes: too small a profile to prove anything", sizes)
	}

	other := p.subscribe("other")
	large.Stall()
	for i := range 3 {
		name := fmt.Sprint("change ", i)
		p.write("large", manyRoutes(routes, name))
		p.write("other", manyRoutes(1, name))
		awaitState(t, other, name, func(now proxy.Snapshot) bool { return firstRoute(now, 1) == name })
	}
	p.write("large", manyRoutes(1, "last"))
	large.Unstall()
	awaitState(t, large, "the newest profile", func(now proxy.Snapshot) bool { return firstRoute(now, 1) == "last" })

	p.write("dense", map[string]any{"routes": []any{map[string]any{"condition": map[string]any{"any": manyOf(80_000, map[string]any{"method": "G"})}}}})
	p.write("other", manyRoutes(1, "after the dense one"))
	awaitState(t, other, "a change after it", func(now proxy.Snapshot) bool { return firstRoute(now, 1) == "after the dense one" })
	dense := p.subscribe("dense")
	for _, size := range p.sizes.take() {
		if size > proxyMessage {
			t.Errorf("a message of %d bytes", size)
		}
	}
	for _, s := range []*proxy.Stream{large, other, dense} {
		if now := s.Snapshot(); len(now.Faults) > 0 || now.Phase != proxy.Open {
			t.Errorf("%v, ended with %v", now.Faults, now.Err)
		}
	}
}

// manyRoutes is a spec with as many routes of 300 bytes, the first of which has a name of its own.
func manyRoutes(count int, first string) map[string]any {
	path := "/" + strings.Repeat("0123456789", 22)
	routes := manyOf(count, map[string]any{"name": "route", "condition": map[string]any{"pathRegex": path}, "timeout": "250ms"})
	routes[0] = map[string]any{"name": first, "condition": map[string]any{"pathRegex": path}}
	return map[string]any{"routes": routes}
}

func manyOf(count int, what map[string]any) []any {
	all := make([]any, count)
	for i := range all {
		all[i] = what
	}
	return all
}

// firstRoute returns the name of the first of so many routes; empty: they are more, or fewer.
func firstRoute(now proxy.Snapshot, count int) string {
	if routes := now.Profile.Profile().GetRoutes(); len(routes) == count {
		return routes[0].GetMetricsLabels()["route"]
	}
	return ""
}

// profiles is one cluster, with Services that have ServiceProfiles, and a gateway.
type profiles struct {
	t      *testing.T
	client *kube.Client
	addr   string // of the gateway
	sizes  sizes
}

func newProfiles(t *testing.T) *profiles {
	ctx := t.Context()
	c := startClusters(t, []string{"namespace"}, "west")[0]
	p := &profiles{t: t, client: client(t, c)}
	must(t, p.client.Apply(ctx, kube.Namespace(kube.LinkNamespace), kube.Namespace(largeNamespace)))
	for _, name := range []string{"large", "other", "dense"} {
		must(t, p.client.Apply(ctx, kube.Service(largeNamespace, name)))
	}
	p.addr = startGateway(t, harness.ReplicaConfig{Kubeconfig: c.Kubeconfig()}).Addr()
	return p
}

// write creates the ServiceProfile of a Service, or replaces it.
func (p *profiles) write(service string, spec map[string]any) {
	p.t.Helper()
	o := kube.ServiceProfile(largeNamespace, service)
	o.Object["spec"] = spec
	must(p.t, p.client.Apply(p.t.Context(), o))
}

// subscribe returns a stream of a Service's profile once it has one. It has a connection of its own, so that one that does not
// read delays no other.
func (p *profiles) subscribe(service string) *proxy.Stream {
	p.t.Helper()
	conn, err := proxy.Dial(p.addr, grpc.WithStatsHandler(&p.sizes))
	must(p.t, err)
	atEnd(p.t, conn.Close)
	s := proxy.NewStream(proxy.Config{Conn: conn, MayBeLate: true, Kind: proxy.GetProfile, Authority: kube.Authority(largeNamespace, service)})
	p.t.Cleanup(s.Close)
	must(p.t, s.Open(p.t.Context()))
	awaitState(p.t, s, "a profile of "+service, func(now proxy.Snapshot) bool { return now.Messages > 0 })
	return s
}
