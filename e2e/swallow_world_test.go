package e2e

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
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
			}
		},
		ModifyResponse: func(r *http.Response) error {
			if r.Request.URL.Query().Get("watch") != "" && r.StatusCode == http.StatusOK {
				l := &lossy{swallower: s, body: r.Body, from: bufio.NewReader(r.Body)}
				if l.next = l.line; strings.HasPrefix(r.Header.Get("Content-Type"), runtime.ContentTypeProtobuf) {
					l.next = l.frame
				}
				r.Body = l
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
func (s *swallower) swallows(event string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.loses[event] == 0 {
		return false
	}
	s.loses[event]--
	return true
}

// lossy is the body of a watch.
type lossy struct {
	swallower *swallower
	body      io.Closer
	from      *bufio.Reader
	next      func() (encoded []byte, event string, err error)
	rest      []byte // of an event that is being read
}

// line reads an event in JSON.
func (l *lossy) line() ([]byte, string, error) {
	line, err := l.from.ReadBytes('\n')
	var e struct {
		Type   string
		Object struct {
			Metadata struct{ Name string }
		}
	}
	if err != nil || json.Unmarshal(line, &e) != nil {
		return line, "", err
	}
	return line, e.Type + " " + e.Object.Metadata.Name, nil
}

// frame reads an event in protobuf.
func (l *lossy) frame() ([]byte, string, error) {
	length, err := l.from.Peek(4)
	if err != nil {
		return nil, "", err
	}
	frame := make([]byte, 4+binary.BigEndian.Uint32(length))
	if _, err := io.ReadFull(l.from, frame); err != nil {
		return nil, "", err
	}
	var e metav1.WatchEvent
	var o runtime.Unknown
	var m metav1.PartialObjectMetadata // has its metadata where all kinds have theirs
	if e.Unmarshal(frame[4:]) != nil || len(e.Object.Raw) < 4 || o.Unmarshal(e.Object.Raw[4:]) != nil || m.Unmarshal(o.Raw) != nil {
		return frame, "", nil
	}
	return frame, e.Type + " " + m.Name, nil
}

func (l *lossy) Read(p []byte) (int, error) {
	for len(l.rest) == 0 {
		encoded, event, err := l.next()
		if err != nil {
			return copy(p, encoded), err
		}
		if !l.swallower.swallows(event) {
			l.rest = encoded
		}
	}
	n := copy(p, l.rest)
	l.rest = l.rest[n:]
	return n, nil
}

func (l *lossy) Close() error { return l.body.Close() }
