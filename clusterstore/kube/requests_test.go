package kube

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"isthmus/clusterstore/internal/clustertest"
	"isthmus/federation"
)

// TestRequests checks that requests are counted by cluster and client. The series of a forgotten
// cluster do not return.
func TestRequests(t *testing.T) {
	registry := prometheus.NewRegistry()
	m := NewRequests()
	registry.MustRegister(m)
	answer, fail := 200, error(nil)
	next := roundTrip(func(*http.Request) (*http.Response, error) {
		if fail != nil {
			return nil, fail
		}
		return &http.Response{StatusCode: answer}, nil
	})
	east, local := m.transport("east", next), m.transport("", next)
	ask := func(through http.RoundTripper, path string) {
		if response, err := through.RoundTrip(httptest.NewRequest(
			http.MethodGet, path, nil,
		)); !errors.Is(err, fail) || (response == nil) != (err != nil) {
			t.Errorf("answer %v, error %v", response, err)
		}
	}
	ask(east, "/api/v1/pods")
	ask(east, "/apis/policy.linkerd.io/v1beta3/servers")
	ask(local, "/apis/linkerd.io/v1alpha2/serviceprofiles")
	answer = 403
	ask(east, "/apis/discovery.k8s.io/v1/endpointslices")
	answer = 777
	ask(east, "/api/v1/pods")
	fail = errors.New("refused")
	ask(east, "/api/v1/pods")

	expect := func(want ...string) { t.Helper(); clustertest.CheckMetrics(t, registry, want...) }
	each := func(name, value string, clusters ...string) (list []string) {
		for _, client := range []string{"k8s", "l5dCrd"} {
			for _, cluster := range clusters {
				list = append(list, name+" client="+client+" cluster="+cluster+" "+value)
			}
		}
		return list
	}
	expect(slices.Concat(
		each("http_client_burst", "-1", "local"),
		[]string{"http_client_errors_total client=k8s cluster=east method=get 1"},
		each("http_client_in_flight_requests", "0", "east", "local"),
		each("http_client_qps", "-1", "local"),
		[]string{
			"http_client_requests_total client=k8s cluster=east code=200 method=get 1",
			"http_client_requests_total client=k8s cluster=east code=403 method=get 1",
			"http_client_requests_total client=k8s cluster=east code=unknown method=get 1",
			"http_client_requests_total client=l5dCrd cluster=east code=200 method=get 1",
			"http_client_requests_total client=l5dCrd cluster=local code=200 method=get 1",
		})...)
	m.Forget("east")
	left := slices.Concat(
		each("http_client_burst", "-1", "local"), each("http_client_in_flight_requests", "0", "local"),
		each("http_client_qps", "-1", "local"),
		[]string{"http_client_requests_total client=l5dCrd cluster=local code=200 method=get 1"})
	expect(left...)
	ask(east, "/api/v1/pods") // ends after Forget
	answer, fail = 200, nil
	ask(east, "/api/v1/pods")
	expect(left...)

	ask(m.transport("east", next), "/api/v1/pods") // linked again
	expect(slices.Concat(
		each("http_client_burst", "-1", "local"), each("http_client_in_flight_requests", "0", "east", "local"),
		each("http_client_qps", "-1", "local"),
		[]string{
			"http_client_requests_total client=k8s cluster=east code=200 method=get 1",
			"http_client_requests_total client=l5dCrd cluster=local code=200 method=get 1",
		})...)
}

// TestLatency checks the labels of the latency histograms. The histogram of the local cluster has
// client, code and method, as in Linkerd's destination controller. A linked cluster has one
// histogram with few buckets.
func TestLatency(t *testing.T) {
	registry := prometheus.NewRegistry()
	m := NewRequests()
	registry.MustRegister(m)
	next := roundTrip(func(*http.Request) (*http.Response, error) { return &http.Response{StatusCode: 200}, nil })
	for _, cluster := range []federation.ClusterName{federation.Local, "east"} {
		for _, path := range []string{"/api/v1/pods", "/apis/linkerd.io/v1alpha2/serviceprofiles"} {
			if _, err := m.transport(cluster, next).RoundTrip(
				httptest.NewRequest(http.MethodGet, path, nil),
			); err != nil {
				t.Fatal(err)
			}
		}
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range families {
		if f.GetName() != "http_client_request_latency_seconds" {
			continue
		}
		for _, series := range f.GetMetric() {
			text := ""
			for _, l := range series.GetLabel() {
				text += l.GetName() + "=" + l.GetValue() + " "
			}
			h := series.GetHistogram()
			got = append(got, fmt.Sprintf("%s%d buckets, %d observations",
				text, len(h.GetBucket()), h.GetSampleCount()))
		}
	}
	slices.Sort(got)
	want := []string{
		"client=k8s cluster=local code=200 method=get 20 buckets, 1 observations",
		"client=l5dCrd cluster=local code=200 method=get 20 buckets, 1 observations",
		"cluster=east 6 buckets, 2 observations",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
