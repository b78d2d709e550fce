package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/pprof"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.uber.org/zap"
)

// The cost of a scrape grows with streams and clusters, so scrapes are bounded.
const (
	maxScrapes    = 2 // at once; more get 503 Service Unavailable
	scrapeTimeout = 30 * time.Second
)

// admin is the HTTP server for kubelet, Prometheus and people. It answers any
// method.
type admin struct {
	ready   func() bool
	pages   map[string]func() any // by path; answered as JSON
	metrics *prometheus.Registry
	pprof   bool
	log     *zap.Logger
}

func (a *admin) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/ping", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "pong\n") })
	mux.HandleFunc("/ready", a.serveReady)
	for path, page := range a.pages {
		mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) { servePage(w, page()) })
	}
	mux.Handle("/metrics", promhttp.HandlerFor(a.metrics, promhttp.HandlerOpts{
		Registry:            a.metrics,
		ErrorLog:            zap.NewStdLog(a.log),
		MaxRequestsInFlight: maxScrapes,
		Timeout:             scrapeTimeout,
	}))
	if a.pprof {
		mux.HandleFunc("/debug/pprof/", pprof.Index)
		mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
		mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
		mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	}
	return mux
}

func (a *admin) serveReady(w http.ResponseWriter, _ *http.Request) {
	if !a.ready() {
		w.WriteHeader(http.StatusInternalServerError)
		io.WriteString(w, "not ready\n")
		return
	}
	io.WriteString(w, "ok\n")
}

func servePage(w http.ResponseWriter, page any) {
	text, err := json.MarshalIndent(page, "", "  ")
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Write(append(text, '\n'))
}

// serve answers on l until ctx ends; requests under way then have lastLimit.
func (a *admin) serve(ctx context.Context, l net.Listener) error {
	server := &http.Server{
		Handler:           a.handler(),
		ReadHeaderTimeout: 15 * time.Second,
		ReadTimeout:       30 * time.Second,
		WriteTimeout:      5 * time.Minute, // a CPU profile takes as long as was asked for
		IdleTimeout:       2 * time.Minute,
		ErrorLog:          zap.NewStdLog(a.log),
	}
	done := make(chan error, 1)
	go func() { done <- server.Serve(l) }()
	select {
	case err := <-done:
		return fmt.Errorf("admin server at %s: %w", l.Addr(), err)
	case <-ctx.Done():
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastLimit)
	defer cancel()
	err := server.Shutdown(last)
	if err != nil {
		err = server.Close()
	}
	if served := <-done; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	if err != nil {
		return fmt.Errorf("stop the admin server: %w", err)
	}
	return nil
}
