package e2e

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync"
	"testing"

	"k8s.io/client-go/rest"

	"isthmus/e2e/cluster"
)

// swallower stands between gateways and an API server, and loses events of watches on their way. Whoever connects to it is
// the cluster's administrator.
type swallower struct {
	*httptest.Server

	mu    sync.Mutex
	loses map[string]int // how many more, by event
}

func newSwallower(t *testing.T, c *cluster.Cluster) *swallower {
	t.Helper()
	target, err := url.Parse(c.REST().Host)
	must(t, err)
	transport, err := rest.TransportFor(c.REST())
	must(t, err)
	s := &swallower{loses: make(map[string]int)}
	s.Server = httptest.NewServer(&httputil.ReverseProxy{
		Transport:     transport,
		FlushInterval: -1,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.Out.Header.Del("Authorization") // the administrator's comes in its place
			if r.In.URL.Query().Get("watch") != "" {
				r.Out.Header.Del("Accept-Encoding")
				if r.In.Header.Get("Accept") == "application/vnd.kubernetes.protobuf,application/json" {
					r.Out.Header.Set("Accept", "application/json") // an event is a line
				}
			}
		},
		ModifyResponse: func(r *http.Response) error {
			if r.Request.URL.Query().Get("watch") != "" && r.StatusCode == http.StatusOK {
				r.Body = &lossy{swallower: s, body: r.Body, lines: bufio.NewReader(r.Body)}
			}
			return nil
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
	})
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

// lose makes the next events of a type, about an object, get lost: "DELETED web".
func (s *swallower) lose(event string, times int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.loses[event] = times
}

// left returns how many events are still to be lost.
func (s *swallower) left() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, more := range s.loses {
		n += more
	}
	return n
}

// swallows reports whether an event is to be lost, and counts it.
func (s *swallower) swallows(line []byte) bool {
	var e struct {
		Type   string
		Object struct {
			Metadata struct{ Name string }
		}
	}
	if json.Unmarshal(line, &e) != nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	what := e.Type + " " + e.Object.Metadata.Name
	if s.loses[what] == 0 {
		return false
	}
	s.loses[what]--
	return true
}

// lossy is the body of a watch.
type lossy struct {
	swallower *swallower
	body      io.Closer
	lines     *bufio.Reader
	rest      []byte // of a line that is being read
}

func (l *lossy) Read(p []byte) (int, error) {
	for len(l.rest) == 0 {
		line, err := l.lines.ReadBytes('\n')
		if err != nil {
			return copy(p, line), err
		}
		if !l.swallower.swallows(line) {
			l.rest = line
		}
	}
	n := copy(p, l.rest)
	l.rest = l.rest[n:]
	return n, nil
}

func (l *lossy) Close() error { return l.body.Close() }
