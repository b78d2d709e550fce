package gateway

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"isthmus/clusterstore/cluster"
)

// TestProbe checks that a gateway is alive if it responds with 200 and any body. A probe reads only
// a small part of the response.
func TestProbe(t *testing.T) {
	var elsewhere atomic.Int32
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere.Add(1) }))
	defer other.Close()
	var asked atomic.Pointer[http.Request]
	mux := http.NewServeMux()
	mux.HandleFunc("/ready", func(_ http.ResponseWriter, r *http.Request) { asked.Store(r) })
	mux.HandleFunc("/no", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) })
	mux.HandleFunc("/empty", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	mux.HandleFunc("/away", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, other.URL, http.StatusFound)
	})
	mux.HandleFunc("/nowhere", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", ":::")
		w.WriteHeader(http.StatusFound)
	})
	mux.HandleFunc("/secret", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("WWW-Authenticate", "Basic")
		w.WriteHeader(http.StatusUnauthorized)
	})
	mux.HandleFunc("/header", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X", strings.Repeat("x", 2*probeAnswer))
	})
	mux.HandleFunc("/endless", func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			_, _ = w.Write(make([]byte, 1<<16))
		}
	})
	server := httptest.NewServer(mux)
	defer server.Close()
	to := netip.MustParseAddrPort(server.Listener.Addr().String())
	for path, want := range map[string]string{
		"/ready":   "",
		"/endless": "",
		"/no":      "answers 503, not 200",
		"/empty":   "answers 204, not 200",
		"/away":    "answers 302, not 200",
		"/nowhere": "answers 302, not 200",
		"/secret":  "answers 401, not 200",
		"/header":  "the response is not valid HTTP or is too long",
	} {
		got, began := "", time.Now()
		if err := get(t.Context(), to.Addr(), cluster.Probe{Port: to.Port(), Path: path}); err != nil {
			got = err.Error()
		}
		if got != want || time.Since(began) > probeTimeout/2 {
			t.Errorf("%s: %q after %v, want %q", path, got, time.Since(began), want)
		}
	}
	if n := elsewhere.Load(); n > 0 {
		t.Error("a redirect was followed")
	}
	for name := range asked.Load().Header {
		if name != "User-Agent" && name != "Connection" {
			t.Errorf("a probe has the header %s", name)
		}
	}
}

// TestProbeNoHTTP checks that a gateway without a valid HTTP response is dead. The error does not
// quote the response.
func TestProbeNoHTTP(t *testing.T) {
	for answer, want := range map[string]string{
		"":                           "the connection was closed without a response",
		"hello \x1b[31m<b>\r\n":      "the response is not valid HTTP or is too long",
		"HTTP/1.1 abc OK\r\n\r\n":    "the response is not valid HTTP or is too long",
		"HTTP/1.1 101 Other\r\n\r\n": "answers 101, not 200",
	} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			c, err := l.Accept()
			if err != nil {
				return
			}
			defer c.Close()
			_, _ = c.Read(make([]byte, 1000))
			_, _ = io.WriteString(c, answer)
		}()
		to := netip.MustParseAddrPort(l.Addr().String())
		probe := cluster.Probe{Port: to.Port(), Path: "/ready"}
		if err := get(t.Context(), to.Addr(), probe); fmt.Sprint(err) != want {
			t.Errorf("%q: %v, want %s", answer, err, want)
		}
		l.Close()
		<-done
		if err := get(t.Context(), to.Addr(), probe); err == nil || !strings.Contains(err.Error(), "refused") {
			t.Errorf("without a listener: %v", err)
		}
	}
}

// TestProbeTakes checks that a probe without a complete response fails after five seconds.
func TestProbeTakes(t *testing.T) {
	for _, answer := range []string{"", "HTTP/1.1 200 OK\r\nX: y\r\n"} {
		synctest.Test(t, func(t *testing.T) {
			here, there := net.Pipe()
			defer there.Close()
			go func() {
				_, _ = there.Read(make([]byte, 1000))
				_, _ = io.WriteString(there, answer)
			}()
			saved := transport
			defer func() { transport = saved }()
			transport = &http.Transport{
				DialContext:       func(context.Context, string, string) (net.Conn, error) { return here, nil },
				DisableKeepAlives: true,
			}
			tracker := New(Config{Probed: func(time.Duration) {}})
			began := time.Now()
			err := tracker.probe(t.Context(), netip.MustParseAddr("192.0.2.1"), cluster.Probe{Port: 1, Path: "/"})
			if fmt.Sprint(err) != "no response within 5s" || time.Since(began) != probeTimeout {
				t.Errorf("%q: %v after %v", answer, err, time.Since(began))
			}
		})
	}
}
