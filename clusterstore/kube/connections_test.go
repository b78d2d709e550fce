package kube

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// TestCloseLeavesNoConnection: a client that is closed right after its watches have been stopped
// leaves no connection open, however far these have ended.
func TestCloseLeavesNoConnection(t *testing.T) {
	const rounds, watches = 20, 7
	var open sync.WaitGroup
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}))
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			open.Add(1)
		case http.StateClosed:
			open.Done()
		}
	}
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	for range rounds {
		client := newClient(t, "east", &rest.Config{Host: server.URL, TLSClientConfig: rest.TLSClientConfig{Insecure: true}}, nil)
		ctx, cancel := context.WithCancel(t.Context())
		var stopped sync.WaitGroup
		for range watches {
			w, err := client.Services("").Watch(ctx, metav1.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			stopped.Go(func() {
				<-ctx.Done()
				w.Stop()
			})
		}
		cancel()
		stopped.Wait()
		client.Close()
	}
	closed := make(chan struct{})
	go func() { open.Wait(); close(closed) }()
	select {
	case <-closed:
	case <-time.After(30 * time.Second): // net/http closes what is idle after 90
		t.Error("connections of closed clients are open")
		server.CloseClientConnections()
		<-closed
	}
}

// TestCloseWhileDialling: a connection that is made once the client is closed is closed too.
func TestCloseWhileDialling(t *testing.T) {
	here, there := net.Pipe()
	defer here.Close()
	ctx, end := context.WithCancel(t.Context())
	dial := closedWith(ctx, func(context.Context, string, string) (net.Conn, error) {
		end()
		return there, nil
	})
	if _, err := dial(t.Context(), "tcp", "east.example:6443"); err != nil {
		t.Error(err)
	}
	if _, err := here.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("the connection is open: %v", err)
	}
}
