package server

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"

	"isthmus/cmd/isthmus/internal/admin"
	"isthmus/cmd/isthmus/internal/cmdtest"

	pb "github.com/linkerd/linkerd2-proxy-api/go/destination"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"isthmus/federation"
	"isthmus/grpcapi"
)

// scrape returns each series as a line with its name, label values and value.
func scrape(t *testing.T, c prometheus.Collector) (lines []string) {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	if err := registry.Register(c); err != nil {
		t.Fatal(err)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			line := f.GetName()
			for _, l := range m.GetLabel() {
				line += " " + l.GetName() + "=" + l.GetValue()
			}
			lines = append(lines, fmt.Sprint(line, " ", m.GetGauge().GetValue()+m.GetCounter().GetValue()))
		}
	}
	return lines
}

// TestFederationMetrics checks members and endpoints by cluster, and by service only on request.
// The name of a cluster that is not linked does not appear.
func TestFederationMetrics(t *testing.T) {
	table := federation.NewTable(federation.Options{})
	id := func(name string) federation.ServiceID { return federation.ServiceID{Namespace: "shop", Name: name} }
	table.Define(
		id("web"),
		&federation.Definition{Members: []federation.Member{{Cluster: federation.Local, Service: id("web")}}},
	)
	table.Define(id("all"), &federation.Definition{Federated: true, Members: []federation.Member{
		{
			Cluster: federation.Local,
			Service: id("web"),
		}, {
			Cluster: "east",
			Service: id("web"),
		}, {Cluster: "north", Service: id("web")}, {Cluster: "made-up", Service: id("web")}}})
	table.Link(
		federation.Local,
		federation.Ready,
		cmdtest.Offering(federation.Local, "web", "10.0.0.1:80", "10.0.0.2:80"),
	)
	table.SetLink(
		"east",
		federation.Link{
			State:  federation.Ready,
			Source: cmdtest.Offering("east", "web", "10.0.0.2:80", "10.0.0.99:80", "10.1.0.4:80"),
			Within: federation.NewRanges(netip.MustParsePrefix("10.0.0.0/24")),
		},
	)
	table.Link("north", federation.Unreachable, nil)
	w := table.Watch(federation.Key{Service: id("all"), Port: 80})
	defer w.Close()

	byCluster := []string{
		"isthmus_address_conflicts cluster=east 1",
		"isthmus_address_conflicts cluster=local 0",
		"isthmus_endpoints_offered cluster=east 3",
		"isthmus_endpoints_offered cluster=local 2",
		"isthmus_endpoints_offered cluster=north 0",
		"isthmus_endpoints_refused cluster=east reason=local 1",
		"isthmus_endpoints_refused cluster=east reason=ranges 1",
		"isthmus_member_unavailable cluster= 1",
		"isthmus_member_unavailable cluster=east 0",
		"isthmus_member_unavailable cluster=local 0",
		"isthmus_member_unavailable cluster=north 1",
		"isthmus_members cluster= 1",
		"isthmus_members cluster=east 1",
		"isthmus_members cluster=local 1",
		"isthmus_members cluster=north 1",
	}
	byService := []string{
		"isthmus_service_endpoints_offered cluster=east member=shop/web namespace=shop port=80 service=all 3",
		"isthmus_service_endpoints_offered cluster=local member=shop/web namespace=shop port=80 service=all 2",
		"isthmus_service_endpoints_offered cluster=north member=shop/web namespace=shop port=80 service=all 0",
		"isthmus_service_member cluster=east member=shop/web namespace=shop service=all 1",
		"isthmus_service_member cluster=local member=shop/web namespace=shop service=all 1",
		"isthmus_service_member cluster=made-up member=shop/web namespace=shop service=all 0",
		"isthmus_service_member cluster=north member=shop/web namespace=shop service=all 0",
	}
	expect := func(asked bool, want []string) {
		t.Helper()
		if got := scrape(t, federationMetrics(table, asked)); !slices.Equal(got, want) {
			t.Errorf("scraped\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
		}
	}
	expect(false, byCluster)
	expect(true, slices.Concat(byCluster, byService))
}

// TestTierMetrics checks that only services with a preference have series for tiers, and that each
// zone counts.
//
// Behaviours: PS-03.
func TestTierMetrics(t *testing.T) {
	table, web, plain := federation.NewTable(federation.Options{}), cmdtest.ShopID("web"), cmdtest.ShopID("plain")
	local, east := cmdtest.Offering(
		federation.Local,
		"web",
		"10.0.0.1:80",
	), cmdtest.Offering(
		"east",
		"web",
		"10.1.0.1:80",
	)
	members := []federation.Member{{Service: web}, {Cluster: "east", Service: web}}
	tiers := []federation.Tier{{{Kind: federation.LocalCluster}}, {{Kind: federation.AnyCluster}}}
	table.Define(web, &federation.Definition{
		Federated:  true,
		Members:    members,
		Preference: &federation.Preference{Tiers: tiers},
	})
	table.Define(plain, &federation.Definition{Federated: true, Members: members})
	table.SetLink(federation.Local, federation.Link{State: federation.Ready, Source: local})
	table.SetLink("east", federation.Link{State: federation.Ready, Source: east, Cordon: federation.LastResort})
	for _, id := range []federation.ServiceID{web, plain} {
		for _, zone := range []string{"", "a"} {
			defer table.Watch(federation.Key{Service: id, Port: 80, Client: federation.Client{Zone: zone}}).Close()
		}
	}
	check := func(inUse, spills, returns int) {
		t.Helper()
		want := []string{
			fmt.Sprint("isthmus_tier_changes_total direction=return namespace=shop service=web ", returns),
			fmt.Sprint("isthmus_tier_changes_total direction=spill namespace=shop service=web ", spills),
			fmt.Sprint("isthmus_tier_in_use namespace=shop service=web zone= ", inUse),
			fmt.Sprint("isthmus_tier_in_use namespace=shop service=web zone=a ", inUse),
		}
		if got := scrape(t, tierMetrics(table)); !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	check(0, 0, 0)
	table.SetLink("east", federation.Link{State: federation.Ready, Source: east})
	table.SetLink(federation.Local, federation.Link{
		State:  federation.Ready,
		Source: local,
		Cordon: federation.Withdrawn,
	})
	check(1, 2, 0)
	table.SetLink(federation.Local, federation.Link{State: federation.Ready, Source: local})
	check(0, 2, 2)
}

// scrapedWorld serves the metrics of a replica with 250 linked clusters of 1,000 endpoints each.
// The replica has 1,000 federated services of 25 members, each with a Get stream from three zones.
func scrapedWorld(b *testing.B) http.Handler {
	registry, table := prometheus.NewRegistry(), federation.NewTable(federation.Options{})
	server, err := grpcapi.New(table, cmdtest.Directory{}, grpcapi.Options{Registerer: registry, Log: zap.NewNop()})
	if err != nil {
		b.Fatal(err)
	}
	registry.MustRegister(federationMetrics(table, false), tierMetrics(table))
	for i := range 250 {
		name := federation.ClusterName(fmt.Sprintf("c%03d", i))
		table.Link(name, federation.Ready, cmdtest.Numbered(name, i, 10))
	}
	conn := connect(b, server)
	for i := range 1000 {
		id, d := federation.ServiceID{
			Namespace: "bench",
			Name:      fmt.Sprintf("web-%d", i%100),
		}, &federation.Definition{
			Federated: true,
		}
		for m := range 25 {
			d.Members = append(
				d.Members,
				federation.Member{Cluster: federation.ClusterName(fmt.Sprintf("c%03d", i/100*25+m)), Service: id},
			)
		}
		federated := federation.ServiceID{Namespace: "bench", Name: fmt.Sprintf("web-%d-federated", i)}
		table.Define(federated, d)
		for zone := range 3 {
			stream, err := pb.NewDestinationClient(conn).Get(context.Background(), &pb.GetDestination{
				Path:         federated.Name + ".bench.svc.cluster.local:80",
				ContextToken: fmt.Sprintf(`{"ns":"bench","nodeName":"n%d"}`, zone),
			})
			if err != nil {
				b.Fatal(err)
			}
			if _, err := stream.Recv(); err != nil {
				b.Fatal(err)
			}
		}
	}
	return admin.New(admin.Options{Metrics: registry, Log: zap.NewNop()}).Handler()
}

// countedAnswer is a ResponseWriter that counts the bytes of the body and discards them.
type countedAnswer struct {
	*httptest.ResponseRecorder
	bytes int
}

func (a *countedAnswer) Write(p []byte) (int, error) { a.bytes += len(p); return len(p), nil }

// BenchmarkScrape measures one scrape of a replica with many clusters.
func BenchmarkScrape(b *testing.B) {
	metrics, request := scrapedWorld(b), httptest.NewRequest(http.MethodGet, "/metrics", nil)
	request.Header.Set("Accept-Encoding", "gzip") // like Prometheus
	b.ReportAllocs()
	var answer countedAnswer
	for b.Loop() {
		answer = countedAnswer{ResponseRecorder: httptest.NewRecorder()}
		if metrics.ServeHTTP(&answer, request); answer.Code != http.StatusOK || answer.bytes == 0 {
			b.Fatal(answer.Code)
		}
	}
	b.ReportMetric(float64(answer.bytes), "B/answer")
}

// connect serves a Destination server on a loopback address until the benchmark ends. connect
// returns a connection to the server.
func connect(b *testing.B, server *grpcapi.Server) *grpc.ClientConn {
	b.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	destination := server.GRPC()
	var serving sync.WaitGroup
	serving.Go(func() { _ = destination.Serve(listener) })
	b.Cleanup(func() {
		destination.Stop()
		serving.Wait()
	})
	conn, err := grpc.NewClient(
		"passthrough:///"+listener.Addr().String(),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
	)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = conn.Close() })
	return conn
}
