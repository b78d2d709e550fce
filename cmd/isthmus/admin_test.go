package main

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"isthmus/internal/adminapi"
)

func newAdmin(pprof bool) (*admin, *atomic.Bool) {
	var ready atomic.Bool
	reg := prometheus.NewRegistry()
	reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "forty_two"}, func() float64 { return 42 }))
	return &admin{
		ready:   ready.Load,
		pages:   map[string]func() any{"/debug/clusters": func() any { return adminapi.Clusters{} }},
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
		{path: "/debug/pprof/nonsense", pprof: true, code: 404},
		{path: "/", code: 404},
		{path: "/live", code: 404},
		{path: "/ping/x", code: 404},
		{path: "/debug", code: 404},
	} {
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			a, ready := newAdmin(c.pprof)
			ready.Store(c.ready)
			w := httptest.NewRecorder()
			a.handler().ServeHTTP(w, httptest.NewRequest(method, c.path, nil))
			body := w.Body.String()
			if w.Code != c.code || !strings.Contains(body, c.body) || strings.HasSuffix(c.body, "\n") && body != c.body {
				t.Errorf("%s %+v: %d %q", method, c, w.Code, body)
			}
		}
	}
}

// TestScrapesAreBounded: at most two slow scrapes run at a time, and none for long.
func TestScrapesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, _ := newAdmin(false)
		slow := make(chan struct{})
		a.metrics.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "slow"}, func() float64 { <-slow; return 1 }))
		handler, codes := a.handler(), make(chan int, maxScrapes+1)
		for range maxScrapes + 1 {
			go func() {
				w := httptest.NewRecorder()
				handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
				codes <- w.Code
			}()
		}
		synctest.Wait()
		if len(codes) != 1 || <-codes != http.StatusServiceUnavailable {
			t.Error("one scrape too many was not refused at once")
		}
		time.Sleep(scrapeTimeout)
		synctest.Wait()
		if len(codes) != maxScrapes || <-codes != http.StatusServiceUnavailable {
			t.Errorf("%d slow scrapes have ended, want %d", len(codes), maxScrapes)
		}
		close(slow)
	})
}

func TestClustersIsJSON(t *testing.T) {
	a, _ := newAdmin(false)
	w := httptest.NewRecorder()
	a.handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/debug/clusters", nil))
	if got := w.Header().Get("Content-Type"); got != "application/json" || !json.Valid(w.Body.Bytes()) {
		t.Errorf("%s: %s", got, w.Body)
	}
}

// serve runs the server on a free port until stop, which must be called.
func serve(t *testing.T, a *admin) (addr string, stop func() error) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- a.serve(ctx, l) }()
	return l.Addr().String(), func() error { cancel(); return <-done }
}

// TestAdminServe: it answers on a real connection until its context ends.
func TestAdminServe(t *testing.T) {
	a, _ := newAdmin(false)
	addr, stop := serve(t, a)
	client := &http.Client{Transport: &http.Transport{}, Timeout: time.Minute}
	defer client.CloseIdleConnections()
	resp, err := client.Get("http://" + addr + "/ping")
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	if err != nil || string(body) != "pong\n" {
		t.Errorf("%q, %v", body, err)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	if _, err := client.Get("http://" + addr + "/ping"); err == nil {
		t.Error("it still answers")
	}
}

// TestAdminServeFails: what ends the listener ends the server with an error.
func TestAdminServeFails(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	a, _ := newAdmin(false)
	if err := a.serve(t.Context(), l); err == nil || !strings.Contains(err.Error(), l.Addr().String()) {
		t.Errorf("error %v, want one that names the address", err)
	}
}
