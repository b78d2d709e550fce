package kube

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"isthmus/internal/adminapi"
)

// TestServer checks that the observer records the last error, the clock skew and refused requests.
// A refused request is dropped once it is permitted. It records no credentials.
func TestServer(t *testing.T) {
	status := http.StatusForbidden
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Date", time.Now().Add(time.Hour).UTC().Format(http.TimeFormat))
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		io.WriteString(w, `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a"}}`)
	}))
	defer server.Close()
	client := newClient(t, "east", &rest.Config{Host: server.URL + "/k8s/clusters/c-1", BearerToken: "secret"}, nil)
	defer client.Close()
	select {
	case <-client.Answered():
		t.Error("the server has answered before the first request")
	default:
	}
	ask := func(name string) { _, _ = client.ConfigMaps("ns").Get(t.Context(), name, metav1.GetOptions{}) }
	ask("a")
	<-client.Answered()
	now := client.Server()
	if got := fmt.Sprint(now.Refused); got != "[{get configmaps/a 403}]" || now.Answered.IsZero() || now.Error != "" {
		t.Errorf("%+v", now)
	}
	if off := now.Clock.Ahead; off < 3500 || off > 3700 || now.Clock.Within < 0.5 {
		t.Errorf("%+v", now.Clock)
	}
	status = http.StatusOK
	ask("a")
	if now := client.Server(); len(now.Refused) != 0 {
		t.Errorf("still refused: %v", now.Refused)
	}
	status = http.StatusNotFound
	for i := range 2 * maxRefusals {
		ask(fmt.Sprint("n", i))
	}
	if n := len(client.Server().Refused); n != maxRefusals {
		t.Errorf("%d kinds of requests are recorded", n)
	}
	server.Close()
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	request, err := http.NewRequestWithContext(gone, http.MethodGet, server.URL+"/version", nil)
	if err != nil {
		t.Fatal(err)
	}
	if answer, err := client.http.Do(request); err == nil {
		answer.Body.Close()
		t.Error("a cancelled request was answered")
	}
	if now := client.Server(); now.Error != "" {
		t.Errorf("error of a cancelled request: %s", now.Error)
	}
	ask("a")
	if now := client.Server(); !strings.Contains(now.Error, "refused") || strings.Contains(now.Error, "secret") {
		t.Errorf("error %q", now.Error)
	}
}

// TestKindOf checks that requests are named after the RBAC permissions that they need.
func TestKindOf(t *testing.T) {
	for request, want := range map[string]string{
		"GET /api/v1/pods?limit=500":                                     "list pods",
		"GET /api/v1/pods?watch=true":                                    "watch pods",
		"GET /api/v1/pods?watch=false":                                   "list pods",
		"GET /prefix/api/v1/namespaces/linkerd/secrets":                  "list secrets",
		"GET /api/v1/namespaces/linkerd/configmaps/x":                    "get configmaps/x",
		"GET /apis/batch/v1/jobs":                                        "list jobs.batch",
		"GET /apis/coordination.k8s.io/v1/namespaces/n/leases/x":         "get leases.coordination.k8s.io/x",
		"PUT /apis/coordination.k8s.io/v1/namespaces/n/leases/x":         "update leases.coordination.k8s.io",
		"PATCH /apis/discovery.k8s.io/v1/namespaces/n/endpointslices/x":  "patch endpointslices.discovery.k8s.io",
		"DELETE /apis/discovery.k8s.io/v1/namespaces/n/endpointslices/x": "delete endpointslices.discovery.k8s.io",
		"POST /apis/discovery.k8s.io/v1/namespaces/n/endpointslices":     "create endpointslices.discovery.k8s.io",
		"GET /version":       "get /version",
		"GET /apis/batch/v1": "get /apis/batch/v1",
		"GET /apis":          "get /apis",
	} {
		method, url, _ := strings.Cut(request, " ")
		r := httptest.NewRequest(method, url, nil)
		if k := kindOf(r); k.Verb+" "+k.Resource != want {
			t.Errorf("%s: %s %s, want %s", request, k.Verb, k.Resource, want)
		}
	}
}

// TestGranted checks that a refusal is dropped once a response proves that the permission was
// granted.
func TestGranted(t *testing.T) {
	o, granted := newObserver(func(err error) error { return err }), true
	for _, step := range []struct {
		path   string
		status int
	}{
		{"/base/apis/batch/v1", 503},
		{"/base/apis/batch/v1/jobs?watch=true", 403},
		{"/base/apis/batch/v1/jobs", 403},
		{"/base/api/v1/pods", 403},
		{"/base/apis/batch/v1/jobs?watch=true", 200},
	} {
		r := httptest.NewRequest(http.MethodGet, step.path, nil)
		o.answer(r, &http.Response{StatusCode: step.status, Header: http.Header{}}, time.Now(), time.Now())
	}
	for kind := range o.refused {
		granted = granted && kind == adminapi.RefusedRequest{Verb: "list", Resource: "pods"}
	}
	if !granted || len(o.refused) != 1 {
		t.Errorf("refused: %v", o.refused)
	}
}
