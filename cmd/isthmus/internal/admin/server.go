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

// These constants limit how many scrapes, page requests and profiles run at the same time, and how
// long they may take. The cost of a scrape or a page grows with the number of streams and clusters.
// Requests for /ping and /ready are cheap and never wait.
const (
	maxScrapes        = 2                // concurrent scrapes
	scrapeTimeout     = 30 * time.Second // to compute a scrape
	scrapeReadTimeout = 10 * time.Second // for the client to read a scrape afterwards; Prometheus waits no longer

	maxPages       = 4                // concurrent pages, and concurrent profiles
	pageWait       = 5 * time.Second  // maximum wait of a page or scrape for a slot; enough for many concurrent users
	pageTimeout    = 30 * time.Second // to compute a page and for the client to read it
	profileTimeout = 5 * time.Minute  // a CPU profile takes as long as requested

	maxAdminHeader = 16 << 10 // maximum size of request headers, in bytes; a browser sends a few kilobytes at most
)

// Options configures a [Server].
type Options struct {
	Ready   func() bool // whether this replica serves proxies
	Sources Sources     // read by the debug API
	Hosts   *Hosts      // names that browsers may use; nil for any name
	Metrics *prometheus.Registry
	PProf   bool // serve /debug/pprof/
	Log     *zap.Logger
}

// Server is the HTTP server for the kubelet, Prometheus and users. No request changes a cluster or
// the configuration of the replica. The paths for the kubelet's probes accept any HTTP method. All
// other paths accept only GET and HEAD, except that /debug/pprof/symbol also accepts POST.
type Server struct {
	ready   func() bool
	pages   map[string]http.Handler // by path: the page at / and the debug API
	hosts   *Hosts
	metrics *prometheus.Registry
	pprof   bool
	log     *zap.Logger
}

// New returns a server that does not serve requests until Serve is called.
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

	// Scrapes need two limits. Package promhttp limits the number of scrapes that are being
	// computed, including scrapes that have timed out. Isthmus limits the number of scrapes whose
	// responses are being computed or sent.
	scrapes := newLimiter(maxScrapes, pageWait, scrapeTimeout+scrapeReadTimeout)
	mux.Handle("GET /metrics", scrapes.limit(promhttp.HandlerFor(s.metrics, promhttp.HandlerOpts{
		Registry:            s.metrics,
		ErrorLog:            zap.NewStdLog(s.log),
		MaxRequestsInFlight: maxScrapes,
		Timeout:             scrapeTimeout,
	})))

	if s.pprof {
		profiles := newLimiter(maxPages, pageWait, profileTimeout)
		for path, profile := range map[string]http.HandlerFunc{
			"GET /debug/pprof/":        pprof.Index,
			"GET /debug/pprof/cmdline": pprof.Cmdline,
			"GET /debug/pprof/profile": pprof.Profile,
			"GET /debug/pprof/symbol":  pprof.Symbol,
			"POST /debug/pprof/symbol": pprof.Symbol, // used by "go tool pprof"
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

// Serve serves requests on l until ctx is done. Serve then waits for open requests to complete, but
// no longer than the grace period.
func (s *Server) Serve(ctx context.Context, l net.Listener, grace time.Duration) error {
	server := &http.Server{
		Handler:           s.Handler(),
		ReadHeaderTimeout: 15 * time.Second,
		ReadTimeout:       30 * time.Second,
		WriteTimeout:      profileTimeout,
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
