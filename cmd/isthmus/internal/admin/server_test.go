package admin

import (
	"bufio"
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
	"go.uber.org/zap"

	"isthmus/internal/adminapi"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newAdmin(pprof bool) (*Server, *atomic.Bool) {
	var ready atomic.Bool
	reg := prometheus.NewRegistry()
	reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "forty_two"}, func() float64 { return 42 }))
	return &Server{
		ready:   ready.Load,
		pages:   map[string]http.Handler{"/debug/clusters": sharedAnswer(func() any { return adminapi.Clusters{} })},
		metrics: reg,
		pprof:   pprof,
		log:     zap.NewNop(),
	}, &ready
}

func TestAdmin(t *testing.T) {
	for _, c := range []struct {
		path         string
		ready, pprof bool
		code         int
		body         string // contained; exact if it ends a line
	}{
		{path: "/ping", code: 200, body: "pong\n"},
		{path: "/ready", code: 500, body: "not ready\n"},
		{path: "/ready", ready: true, code: 200, body: "ok\n"},
		{path: "/metrics", code: 200, body: "forty_two 42"},
		{path: "/debug/clusters", code: 200, body: `"clusters"`},
		{path: "/debug/pprof/", code: 404},
		{path: "/debug/pprof/", pprof: true, code: 200, body: "goroutine"},
		{path: "/debug/pprof/cmdline", pprof: true, code: 200, body: ".test"},
		{path: "/debug/pprof/heap", pprof: true, code: 200},
		{path: "/debug/pprof/symbol", pprof: true, code: 200, body: "num_symbols: 1"},
		{path: "/", code: 404},
		{path: "/live", code: 404},
		{path: "/ping/x", code: 404},
		{path: "/debug", code: 404},
	} {
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			a, ready := newAdmin(c.pprof)
			ready.Store(c.ready)
			w := httptest.NewRecorder()
			a.Handler().ServeHTTP(w, httptest.NewRequest(method, c.path, nil))
			body := w.Body.String()
			if method == http.MethodPost && c.code == 200 && c.path != "/ping" && c.path != "/ready" &&
				c.path != "/debug/pprof/symbol" {
				if w.Code != http.StatusMethodNotAllowed || w.Header().Get("Allow") != "GET, HEAD" {
					t.Errorf("POST %s: %d, allowed are %s", c.path, w.Code, w.Header().Get("Allow"))
				}
				continue
			}
			if w.Code != c.code || !strings.Contains(body, c.body) ||
				strings.HasSuffix(c.body, "\n") && body != c.body {
				t.Errorf("%s %+v: %d %q", method, c, w.Code, body)
			}
		}
	}
}

// TestScrapesAreBounded checks that at most two slow scrapes run at a time, one per address, and
// that each times out.
func TestScrapesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, _ := newAdmin(false)
		slow, running := make(chan struct{}), new(atomic.Int64)
		a.metrics.MustRegister(
			prometheus.NewGaugeFunc(
				prometheus.GaugeOpts{Name: "slow"},
				func() float64 { running.Add(1); <-slow; return 1 },
			),
		)
		handler, codes := a.Handler(), make(chan int, 4)
		scrape := func(addr string) {
			go func() {
				r, w := httptest.NewRequest(http.MethodGet, "/metrics", nil), httptest.NewRecorder()
				r.RemoteAddr = addr
				handler.ServeHTTP(w, r)
				codes <- w.Code
			}()
			synctest.Wait()
		}
		scrape("10.0.0.1:1")
		scrape("10.0.0.1:2")
		scrape("10.0.0.2:1")
		scrape("10.0.0.3:1")
		if running.Load() != maxScrapes {
			t.Errorf("%d scrapes run, want %d", running.Load(), maxScrapes)
		}
		time.Sleep(pageWait)
		synctest.Wait()
		if len(codes) != 2 || <-codes != http.StatusServiceUnavailable || <-codes != http.StatusServiceUnavailable {
			t.Error("two scrapes beyond the limit were not rejected")
		}
		time.Sleep(scrapeTimeout - pageWait)
		synctest.Wait()
		if len(codes) != maxScrapes || <-codes != http.StatusServiceUnavailable {
			t.Errorf("%d slow scrapes have ended, want %d", len(codes), maxScrapes)
		}
		close(slow)
	})
}

// TestLargeHeaders checks that a request with unusually large headers is rejected, and that little
// of it is read.
func TestLargeHeaders(t *testing.T) {
	a, _ := newAdmin(false)
	addr, stop := serve(t, a)
	defer stop()
	for size, want := range map[int]int{8 << 10: http.StatusOK, 32 << 10: http.StatusRequestHeaderFieldsTooLarge} {
		conn := ask(t, addr, "GET /ping HTTP/1.1\r\nHost: gateway\r\nX: "+strings.Repeat("x", size)+"\r\n\r\n")
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		if resp.StatusCode != want {
			t.Errorf("a header of %d bytes: %s", size, resp.Status)
		}
		conn.Close()
	}
}

// serve runs the server on a free port. The caller must call stop.
func serve(t *testing.T, a *Server) (addr string, stop func() error) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- a.Serve(ctx, l, time.Second) }()
	return l.Addr().String(), func() error { cancel(); return <-done }
}

// TestAdminServeFails checks that the server returns an error if its listener fails.
func TestAdminServeFails(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	a, _ := newAdmin(false)
	if err := a.Serve(t.Context(), l, time.Second); err == nil || !strings.Contains(err.Error(), l.Addr().String()) {
		t.Errorf("error %v, want one that names the address", err)
	}
}
