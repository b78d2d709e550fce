package admin

import (
	"context"
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

// What a scrape or a page costs grows with streams and clusters, so few are served at
// once. /ping and /ready cost nothing and wait for none of them.
const (
	maxScrapes    = 2                // at once
	scrapeTimeout = 30 * time.Second // for making one
	scrapeTake    = 10 * time.Second // in which a client has to take it then: Prometheus waits no longer either

	maxPages    = 4                // at once, as many of pprof
	pageWait    = 5 * time.Second  // for a turn, also of scrapes; enough for many people at once
	pageTake    = 30 * time.Second // in which a page is made, and a client has to take it
	profileTake = 5 * time.Minute  // a CPU profile takes as long as was asked for

	maxAdminHeader = 16 << 10 // of a request, in bytes; browsers send a few hundred, cookies some kilobytes
)

// Options are what a [Server] answers with.
type Options struct {
	Ready   func() bool // whether this replica serves proxies
	Sources Sources     // what the debug API shows
	Hosts   *Hosts      // by which names browsers may reach the server. If it is nil, they may use any.
	Metrics *prometheus.Registry
	PProf   bool // serve /debug/pprof/
	Log     *zap.Logger
}

// Server is the HTTP server for kubelet, Prometheus and people. It changes nothing: except for kubelet's
// probes, it answers GET and HEAD only.
type Server struct {
	ready   func() bool
	pages   map[string]http.Handler // by path: the page at / and the debug API. They limit themselves.
	hosts   *Hosts
	metrics *prometheus.Registry
	pprof   bool
	log     *zap.Logger
}

// New returns a server. It serves nothing until Serve.
func New(o Options) *Server {
	pages := newDebugAPI(&o.Sources)
	page := newPage()
	pages["/{$}"] = page
	pages["/page/"] = page
	return &Server{ready: o.Ready, pages: pages, hosts: o.Hosts, metrics: o.Metrics, pprof: o.PProf, log: o.Log}
}

// Handler returns the handler for all paths.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/ping", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "pong\n") })
	mux.HandleFunc("/ready", s.serveReady)
	for path, page := range s.pages {
		mux.Handle("GET "+path, page)
	}

	// promhttp's own limit counts a scrape until it is rendered, also one that has timed
	// out, and this one until the client has taken it.
	scrapes := newLimiter(maxScrapes, pageWait, scrapeTimeout+scrapeTake)
	mux.Handle("GET /metrics", scrapes.limit(promhttp.HandlerFor(s.metrics, promhttp.HandlerOpts{
		Registry:            s.metrics,
		ErrorLog:            zap.NewStdLog(s.log),
		MaxRequestsInFlight: maxScrapes,
		Timeout:             scrapeTimeout,
	})))

	if s.pprof {
		profiles := newLimiter(maxPages, pageWait, profileTake)
		for path, profile := range map[string]http.HandlerFunc{
			"GET /debug/pprof/":        pprof.Index,
			"GET /debug/pprof/cmdline": pprof.Cmdline,
			"GET /debug/pprof/profile": pprof.Profile,
			"GET /debug/pprof/symbol":  pprof.Symbol,
			"POST /debug/pprof/symbol": pprof.Symbol, // as "go tool pprof" asks
			"GET /debug/pprof/trace":   pprof.Trace,
		} {
			mux.Handle(path, profiles.limit(profile))
		}
	}
	if s.hosts == nil {
		return mux
	}
	return s.hosts.guard(mux)
}

func (s *Server) serveReady(w http.ResponseWriter, _ *http.Request) {
	if !s.ready() {
		w.WriteHeader(http.StatusInternalServerError)
		io.WriteString(w, "not ready\n")
		return
	}
	io.WriteString(w, "ok\n")
}

// Serve answers on l until ctx ends. Requests that are under way then have grace to end.
func (s *Server) Serve(ctx context.Context, l net.Listener, grace time.Duration) error {
	server := &http.Server{
		Handler:           s.Handler(),
		ReadHeaderTimeout: 15 * time.Second,
		ReadTimeout:       30 * time.Second,
		WriteTimeout:      profileTake,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    maxAdminHeader,
		ErrorLog:          zap.NewStdLog(s.log),
	}
	done := make(chan error, 1)
	go func() { done <- server.Serve(l) }()
	select {
	case err := <-done:
		return fmt.Errorf("admin server at %s: %w", l.Addr(), err)
	case <-ctx.Done():
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
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
