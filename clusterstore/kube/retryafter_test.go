package kube

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"

	"isthmus/federation"
)

// TestRetryAfter: each request is sent once, whatever Retry-After the server answers. Errors of
// Sources have the pause that it asks for. client-go, by which Leases are written, does not wait.
func TestRetryAfter(t *testing.T) {
	fromSources := map[string]bool{"watch": true, "watch of a custom resource": true, "list": true}
	for _, code := range []int{http.StatusTooManyRequests, http.StatusServiceUnavailable} {
		for verb, request := range verbs {
			t.Run(fmt.Sprint(code, " ", verb), func(t *testing.T) {
				t.Parallel()
				var requests atomic.Int32
				server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					requests.Add(1)
					w.Header().Set("Retry-After", "30")
					w.WriteHeader(code)
				}))
				defer server.Close()
				c := newClient(t, federation.Local, &rest.Config{Host: server.URL}, nil)
				defer c.Close()
				err := request(t.Context(), c)
				seconds, _ := apierrors.SuggestsClientDelay(err)
				if n := requests.Load(); err == nil || n != 1 || fromSources[verb] != (seconds == 30) {
					t.Errorf("%d requests, and a pause of %d s: %v", n, seconds, err)
				}
			})
		}
	}
}
