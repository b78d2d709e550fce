package kube

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"isthmus/federation"
)

// TestCloseLeavesNoConnection checks that a client that is closed right after its watches leaves no
// connection open. The watches may not have ended yet.
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
		client := newClient(
			t, "east", &rest.Config{Host: server.URL, TLSClientConfig: rest.TLSClientConfig{Insecure: true}}, nil,
		)
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
	case <-time.After(30 * time.Second): // net/http closes idle connections after 90 s
		t.Error("a closed client has an open connection")
		server.CloseClientConnections()
		<-closed
	}
}

// TestCloseWhileDialling checks that a connection that is established after the client was closed
// is closed too.
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

// TestOneConnection checks that requests that begin at the same time share a connection.
func TestOneConnection(t *testing.T) {
	const requests = 20
	var connections atomic.Int32
	all := make(chan struct{}) // closed once all requests are in progress
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

	client := newClient(
		t, "east", &rest.Config{Host: server.URL, TLSClientConfig: rest.TLSClientConfig{Insecure: true}}, nil,
	)
	defer client.Close()
	var running sync.WaitGroup
	for range requests {
		running.Go(func() {
			if _, err := client.Services("").List(t.Context(), metav1.ListOptions{}); err == nil {
				t.Error("a forbidden request has no error")
			}
		})
	}
	running.Wait()
	if n := connections.Load(); n != 1 {
		t.Errorf("%d connections", n)
	}
}

// TestFirstFails checks that requests wait only for the first one. Their contexts limit the wait.
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
			if response, err := f.RoundTrip(httptest.NewRequestWithContext(
				ctx, http.MethodGet, "https://east.example/", nil,
			)); err == nil {
				response.Body.Close()
				t.Error("a request to a failing server has no error")
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

// TestCompression checks that only API servers of linked clusters are asked for compressed
// responses.
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

// Types of HTTP/2 frames.
const (
	frameHeaders  = 1
	frameReset    = 3
	frameSettings = 4
	frameGoAway   = 7
)

func writeFrame(w io.Writer, kind byte, stream uint32, payload ...byte) error {
	header := []byte{0, 0, byte(len(payload)), kind, 0}
	header = binary.BigEndian.AppendUint32(header, stream)
	_, err := w.Write(append(header, payload...))
	return err
}

// refusing is an HTTP/2 server that answers no request. For each request, reply closes the
// connection or refuses the stream.
func refusing(t *testing.T, requests *atomic.Int32, reply func(w io.Writer, stream uint32) error) *Client {
	t.Helper()
	server := httptest.NewUnstartedServer(nil)
	server.TLS = &tls.Config{NextProtos: []string{"h2"}}
	server.Config.TLSNextProto = map[string]func(*http.Server, *tls.Conn, http.Handler){
		"h2": func(_ *http.Server, conn *tls.Conn, _ http.Handler) {
			defer conn.Close()
			_, err := io.ReadFull(conn, make([]byte, len("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")))
			if err == nil {
				err = writeFrame(conn, frameSettings, 0)
			}
			for header := make([]byte, 9); err == nil; {
				if _, err = io.ReadFull(conn, header); err != nil {
					return
				}
				length := int64(binary.BigEndian.Uint32(header) >> 8)
				if _, err = io.CopyN(io.Discard, conn, length); err == nil && header[3] == frameHeaders {
					requests.Add(1)
					err = reply(conn, binary.BigEndian.Uint32(header[5:]))
				}
			}
		},
	}
	server.StartTLS()
	t.Cleanup(server.Close)
	client := newClient(
		t,
		"east",
		&rest.Config{Host: server.URL, BearerToken: theToken, TLSClientConfig: rest.TLSClientConfig{Insecure: true}},
		nil,
	)
	t.Cleanup(client.Close)
	return client
}

// TestRefusedRequests checks that a request is repeated only a few times if the server refuses each
// attempt. HTTP/2 allows such a request to be repeated.
func TestRefusedRequests(t *testing.T) {
	for name, reply := range map[string]func(io.Writer, uint32) error{
		"GOAWAY": func(w io.Writer, _ uint32) error {
			return writeFrame(w, frameGoAway, 0, 0, 0, 0, 0, 0, 0, 0, 0)
		},
		"refused stream": func(w io.Writer, stream uint32) error {
			return writeFrame(w, frameReset, stream, 0, 0, 0, 7)
		},
	} {
		for verb, request := range verbs {
			t.Run(name+" "+verb, func(t *testing.T) {
				t.Parallel()
				ctx, cancel := context.WithTimeout(t.Context(), hostileTime)
				defer cancel()
				var requests atomic.Int32
				err := request(ctx, refusing(t, &requests, reply))
				if n := requests.Load(); !errors.Is(err, errTries) || n == 0 || n > maxTries {
					t.Errorf("%d requests, error %v", n, err)
				}
			})
		}
	}
}

// TestNoAnswer checks that a request without a response fails within the time limit in every
// phase of the request.
func TestNoAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		transport := singleTry{roundTrip(func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		})}
		request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "https://east.example/api/v1/pods", nil)
		if _, err := transport.RoundTrip(request); !errors.Is(err, errNoAnswer) || time.Since(began) != beginTimeout {
			t.Errorf("error %v after %v", err, time.Since(began))
		}
	})
}
