package kube

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"isthmus/clusterstore/decode"
	"isthmus/federation"
)

// hostile is a server on a real socket that answers every request with a status and an endless
// body. It gives up after a while, so that a failing test ends too.
type hostile struct {
	status      int
	contentType string
	gzipped     bool
	pauses      bool // after the first bytes
	sent        atomic.Int64
}

const (
	hostileBytes = 64 << 20
	hostileTime  = 30 * time.Second
)

func (h *hostile) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	end := time.Now().Add(hostileTime)
	w.Header().Set("Content-Type", h.contentType)
	var body io.Writer = w
	if h.gzipped {
		w.Header().Set("Content-Encoding", "gzip")
		z, _ := gzip.NewWriterLevel(w, gzip.BestSpeed)
		defer z.Close()
		body = z
	}
	w.WriteHeader(h.status)
	// A part is shorter than maxError. It cannot be compressed, because sockets could buffer a
	// small body.
	part := make([]byte, 48<<10)
	rand.NewChaCha8([32]byte{}).Read(part)
	for time.Now().Before(end) && h.sent.Load() < hostileBytes {
		n, err := body.Write(part)
		h.sent.Add(int64(n))
		if z, ok := body.(*gzip.Writer); ok && err == nil {
			err = z.Flush()
		}
		w.(http.Flusher).Flush()
		if err != nil {
			return
		}
		if h.pauses {
			select {
			case <-r.Context().Done():
			case <-time.After(time.Until(end)):
			}
		}
	}
}

// hostileClient returns a client of handler that uses HTTP/2 or HTTP/1.1.
func hostileClient(t *testing.T, handler http.Handler, http2 bool) *Client {
	t.Helper()
	server := httptest.NewUnstartedServer(handler)
	server.EnableHTTP2 = http2
	cfg := &rest.Config{BearerToken: theToken}
	if http2 {
		server.StartTLS()
		cfg.Insecure = true
	} else {
		server.Start()
	}
	t.Cleanup(server.Close)
	cfg.Host = server.URL
	client := newClient(t, "east", cfg, NewRequests())
	t.Cleanup(client.Close)
	return client
}

// newClient returns a client that also has the clients of client-go.
func newClient(t *testing.T, name federation.ClusterName, cfg *rest.Config, requests *Requests) *Client {
	t.Helper()
	c, err := New(name, cfg, requests)
	must(t, err)
	must(t, c.AddTyped())
	return c
}

// verbs has one request of each kind that Isthmus sends.
var verbs = map[string]func(context.Context, *Client) error{
	"watch": func(ctx context.Context, c *Client) error {
		w, err := c.Sources.EndpointSlices.Watch(ctx, metav1.ListOptions{})
		if err == nil {
			w.Close()
		}
		return err
	},
	"watch of a custom resource": func(ctx context.Context, c *Client) error {
		w, err := c.Sources.Servers.Watch(ctx, metav1.ListOptions{})
		if err == nil {
			w.Close()
		}
		return err
	},
	"watch of the slice writer": func(ctx context.Context, c *Client) error {
		w, err := c.Services("").Watch(ctx, metav1.ListOptions{})
		if err == nil {
			w.Stop()
		}
		return err
	},
	"list": func(ctx context.Context, c *Client) error {
		_, err := c.Sources.Pods.List(ctx, metav1.ListOptions{}, func(*corev1.Pod, *decode.Refused) error {
			return nil
		})
		return err
	},
	"get": func(ctx context.Context, c *Client) error {
		_, err := c.Services("ns").Get(ctx, "web", metav1.GetOptions{})
		return err
	},
	"create": func(ctx context.Context, c *Client) error {
		_, err := c.Services("ns").Create(ctx, &corev1.Service{}, metav1.CreateOptions{})
		return err
	},
	"delete": func(ctx context.Context, c *Client) error {
		return c.Services("ns").Delete(ctx, "web", metav1.DeleteOptions{})
	},
}

// TestEndlessErrors checks that a response with an error status and an endless body fails within
// seconds. The client reads little of the body, for every status, verb, encoding and protocol. The
// error still has the status.
func TestEndlessErrors(t *testing.T) {
	var all sync.WaitGroup // run at once, because most of them only wait for the limit
	defer all.Wait()
	for verb := range verbs {
		for _, http2 := range []bool{false, true} {
			for _, gzipped := range []bool{false, true} {
				for _, pauses := range []bool{false, true} {
					testEndlessError(t, &all, verb, 502, http2, gzipped, pauses)
				}
			}
		}
	}
	for _, status := range []int{201, 206, 302, 400, 403, 404, 410, 429, 500, 503, 504, 777} {
		testEndlessError(t, &all, "watch", status, true, false, true)
	}
}

func testEndlessError(t *testing.T, all *sync.WaitGroup, verb string, status int, http2, gzipped, pauses bool) {
	h := &hostile{status: status, contentType: "text/plain", gzipped: gzipped, pauses: pauses}
	name, client := fmt.Sprintf(
		"%s %d http2=%v gzip=%v pauses=%v", verb, status, http2, gzipped, pauses,
	), hostileClient(t, h, http2)
	all.Go(func() {
		began := time.Now()
		err := verbs[verb](t.Context(), client)
		if took := time.Since(began); err == nil || took > hostileTime*3/5 {
			t.Errorf("%s: error %.100v after %v", name, err, took)
		}
		var answer apierrors.APIStatus
		if status >= 400 && (!errors.As(err, &answer) || answer.Status().Code != int32(status)) {
			t.Errorf("%s: the error has no status %d: %.200v", name, status, err)
		}
		if sent := h.sent.Load(); sent > 32<<20 { // including the buffers of sockets
			t.Errorf("%s: %d MiB could be sent", name, sent>>20)
		}
	})
}

// TestUnrequestedUpgrade checks that a server that switches protocols causes an error at once. The
// limits of bodies do not apply to the new protocol.
func TestUnrequestedUpgrade(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	defer all.Wait()
	defer listener.Close()
	all.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				defer conn.Close()
				conn.SetDeadline(time.Now().Add(hostileTime))
				conn.Read(make([]byte, 4096))
				io.WriteString(
					conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\nno end",
				)
				io.Copy(io.Discard, conn)
			})
		}
	})
	client := newClient(t, "east", &rest.Config{Host: "http://" + listener.Addr().String(), BearerToken: theToken}, nil)
	defer client.Close()
	for verb, request := range verbs {
		began := time.Now()
		if err := request(t.Context(), client); err == nil || time.Since(began) > 5*time.Second {
			t.Errorf("%s: error %v after %v", verb, err, time.Since(began))
		}
	}
}

// TestEndlessHeader checks that the size of response headers is bounded.
func TestEndlessHeader(t *testing.T) {
	for _, http2 := range []bool{false, true} {
		client := hostileClient(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			for i := range 100 {
				w.Header().Set(fmt.Sprint("X-", i), strings.Repeat("x", 16<<10))
			}
		}), http2)
		for verb, request := range verbs {
			if err := request(t.Context(), client); err == nil || apierrors.IsNotFound(err) {
				t.Errorf("http2=%v: %s: %v", http2, verb, err)
			}
		}
	}
}

// pausing is a body that blocks until its request is cancelled.
type pausing struct{ ctx context.Context }

func (p pausing) Read([]byte) (int, error) { <-p.ctx.Done(); return 0, p.ctx.Err() }
func (p pausing) Close() error             { return nil }

// TestPausingAnswers checks that the body of an error response is cut off after a time limit. Other
// bodies end with their request.
func TestPausingAnswers(t *testing.T) {
	for _, c := range []struct {
		method string
		status int
		after  time.Duration
	}{
		{http.MethodGet, 200, time.Hour}, {http.MethodPost, 201, time.Hour},
		{http.MethodGet, 201, errorTimeout},
		{http.MethodGet, 302, errorTimeout},
		{http.MethodGet, 403, errorTimeout},
		{http.MethodPost, 403, errorTimeout},
	} {
		synctest.Test(t, func(t *testing.T) {
			client := newHTTPClient(singleTry{roundTrip(func(r *http.Request) (*http.Response, error) {
				return &http.Response{
					StatusCode: c.status,
					Header:     http.Header{},
					Body:       pausing{r.Context()},
					Request:    r,
				}, nil
			})})
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			request, err := http.NewRequestWithContext(ctx, c.method, "https://east.example/api/v1/pods", nil)
			must(t, err)
			began := time.Now()
			response, err := client.Do(request)
			must(t, err)
			defer response.Body.Close()
			_, err = io.ReadAll(response.Body)
			if took := time.Since(began); took != c.after || (err == nil) != (c.after == errorTimeout) {
				t.Errorf("%s, %d: the body ends after %v: %v", c.method, c.status, took, err)
			}
		})
	}
}
