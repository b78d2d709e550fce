package kube

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"isthmus/federation"
)

// TestOneConnection: requests that begin at once share a connection.
func TestOneConnection(t *testing.T) {
	const requests = 20
	var connections atomic.Int32
	all := make(chan struct{}) // requests are under way
	var begun atomic.Int32
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if begun.Add(1) == requests {
			close(all)
		}
		<-all
		w.WriteHeader(http.StatusForbidden)
	}))
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			connections.Add(1)
		}
	}
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()

	client := newClient(t, "east", &rest.Config{Host: server.URL, TLSClientConfig: rest.TLSClientConfig{Insecure: true}}, nil)
	defer client.Close()
	var running sync.WaitGroup
	for range requests {
		running.Go(func() {
			if _, err := client.Services("").List(t.Context(), metav1.ListOptions{}); err == nil {
				t.Error("a request that the server forbids has no error")
			}
		})
	}
	running.Wait()
	if n := connections.Load(); n != 1 {
		t.Errorf("%d connections", n)
	}
}

// TestFirstFails: requests wait for the first one, not for one another, and no longer than they may.
func TestFirstFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fail := make(chan struct{})
		var sent atomic.Int32
		f := &firstAlone{next: roundTrip(func(r *http.Request) (*http.Response, error) {
			if sent.Add(1) == 1 {
				<-fail
				return nil, errors.New("no connection")
			}
			if err := r.Context().Err(); err != nil {
				return nil, err
			}
			<-t.Context().Done()
			return nil, errors.New("no answer")
		})}
		send := func(ctx context.Context) {
			if response, err := f.RoundTrip(httptest.NewRequestWithContext(ctx, http.MethodGet, "https://east.example/", nil)); err == nil {
				response.Body.Close()
				t.Error("no error")
			}
		}
		for range 3 {
			go send(t.Context())
		}
		ended, end := context.WithCancel(t.Context())
		end()
		synctest.Wait()
		if n := sent.Load(); n != 1 {
			t.Errorf("%d requests before the first has a connection", n)
		}
		send(ended)
		close(fail)
		synctest.Wait()
		if n := sent.Load(); n != 4 {
			t.Errorf("%d requests once the first has failed", n)
		}
	})
}

// TestCompression: API servers are asked to compress what they send to other clusters only.
func TestCompression(t *testing.T) {
	for name, want := range map[federation.ClusterName]string{federation.Local: "", "east": "gzip"} {
		got := "no request"
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			got = r.Header.Get("Accept-Encoding")
			w.WriteHeader(http.StatusForbidden)
		}))
		client := newClient(t, name, &rest.Config{Host: server.URL}, nil)
		client.Services("").List(t.Context(), metav1.ListOptions{})
		client.Close()
		server.Close()
		if got != want {
			t.Errorf("cluster %q: Accept-Encoding is %q, want %q", name, got, want)
		}
	}
}
