package main

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	pb "github.com/linkerd/linkerd2-proxy-api/go/destination"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"isthmus/federation"
	"isthmus/grpcapi"
)

// scrapedWorld serves the metrics of a gateway with 250 linked clusters of 1,000 endpoints each, and 1,000 federated
// services of 25 members, each with a Get stream from each of three zones.
func scrapedWorld(b *testing.B) http.Handler {
	registry, table := prometheus.NewRegistry(), federation.NewTable(federation.Options{})
	server, err := grpcapi.New(table, directory{}, grpcapi.Options{Registerer: registry, Log: zap.NewNop()})
	if err != nil {
		b.Fatal(err)
	}
	registry.MustRegister(federationMetrics(table, false), tierMetrics(table))
	for i := range 250 {
		name := federation.ClusterName(fmt.Sprintf("c%03d", i))
		table.Link(name, federation.Ready, numbered(name, i, 10))
	}
	conn := connect(b, server)
	for i := range 1000 {
		id, d := federation.ServiceID{Namespace: "bench", Name: fmt.Sprintf("web-%d", i%100)}, &federation.Definition{Federated: true}
		for m := range 25 {
			d.Members = append(d.Members, federation.Member{Cluster: federation.ClusterName(fmt.Sprintf("c%03d", i/100*25+m)), Service: id})
		}
		federated := federation.ServiceID{Namespace: "bench", Name: fmt.Sprintf("web-%d-federated", i)}
		table.Define(federated, d)
		for zone := range 3 {
			stream, err := pb.NewDestinationClient(conn).Get(context.Background(), &pb.GetDestination{
				Path: federated.Name + ".bench.svc.cluster.local:80", ContextToken: fmt.Sprintf(`{"ns":"bench","nodeName":"n%d"}`, zone),
			})
			if err != nil {
				b.Fatal(err)
			}
			if _, err := stream.Recv(); err != nil {
				b.Fatal(err)
			}
		}
	}
	return (&admin{metrics: registry, log: zap.NewNop()}).handler()
}

// countedAnswer is an answer of which only the size is kept.
type countedAnswer struct {
	*httptest.ResponseRecorder
	bytes int
}

func (a *countedAnswer) Write(p []byte) (int, error) { a.bytes += len(p); return len(p), nil }

// BenchmarkScrape is one scrape of a gateway with many clusters.
func BenchmarkScrape(b *testing.B) {
	metrics, request := scrapedWorld(b), httptest.NewRequest(http.MethodGet, "/metrics", nil)
	request.Header.Set("Accept-Encoding", "gzip") // as Prometheus does
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
