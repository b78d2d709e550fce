package clusterstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"

	"isthmus/federation"
)

// served runs a Cluster against a plain HTTP server, all in a synctest bubble:
// time passes only while everything waits.
func served(t *testing.T, handler http.Handler, test func(*Cluster)) {
	synctest.Test(t, func(t *testing.T) {
		listener := newPipeListener()
		server := &http.Server{Handler: handler}
		serving := make(chan error, 1)
		go func() { serving <- server.Serve(listener) }()
		cfg := testConfig()
		cfg.REST = &rest.Config{Host: "http://east", BearerToken: "secret", Dial: listener.dial}
		c, err := NewCluster(cfg)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- c.Run(ctx) }()
		test(c)
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		server.Close()
		<-serving
	})
}

// pipeListener is a network in memory.
type pipeListener struct {
	conns  chan net.Conn
	closed chan struct{}
}

func newPipeListener() *pipeListener {
	return &pipeListener{conns: make(chan net.Conn), closed: make(chan struct{})}
}

func (l *pipeListener) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case l.conns <- server:
		return client, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error {
	close(l.closed)
	return nil
}

func (l *pipeListener) Addr() net.Addr { return &net.UnixAddr{Name: "pipe"} }

// TestSilentServer: one that accepts and never answers shows as an error soon,
// and again and again.
func TestSilentServer(t *testing.T) {
	silent := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	served(t, silent, func(c *Cluster) {
		began := time.Now()
		changed := c.HealthChanged()
		<-changed
		synctest.Wait()
		if d := time.Since(began); d != headerTimeout {
			t.Errorf("told after %v", d)
		}
		if h := c.Health(); h.Err == nil || !strings.Contains(h.Err.Error(), "timeout awaiting response headers") {
			t.Errorf("%+v", h)
		}
	})
}

// TestNoRetryBehindOurBack: answers that make client-go wait and try again
// unasked are reported like others.
func TestNoRetryBehindOurBack(t *testing.T) {
	var requests atomic.Int64
	busy := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		w.Header().Set("Retry-After", "3600")
		http.Error(w, "busy", http.StatusServiceUnavailable)
	})
	served(t, busy, func(c *Cluster) {
		synctest.Wait()
		if h := c.Health(); h.Err == nil {
			t.Errorf("%+v", h)
		}
		before := requests.Load()
		time.Sleep(time.Minute)
		if n := requests.Load() - before; n < 60/4*7 || n > 60*7 {
			t.Errorf("%d requests within a minute", n)
		}
	})
}

// TestLostConnections: what client-go would take for the end of a watch that went
// well is a failure.
func TestLostConnections(t *testing.T) {
	for _, err := range []error{
		io.EOF, io.ErrUnexpectedEOF, context.DeadlineExceeded, net.ErrClosed, syscall.ECONNRESET,
		&net.OpError{Op: "read", Net: "tcp", Err: os.NewSyscallError("read", syscall.ECONNRESET)},
		errors.New("http: can't write HTTP request on broken connection"),
		errors.New("http2: server sent GOAWAY and closed the connection; LastStreamID=1"),
	} {
		if wrapped := (&url.Error{Op: "Get", Err: err}); !utilnet.IsProbableEOF(wrapped) && !utilnet.IsTimeout(wrapped) {
			t.Errorf("%v is nothing that client-go would pass over", err)
		}
		client := http.Client{Transport: once{roundTrip(func(*http.Request) (*http.Response, error) { return nil, err })}}
		_, got := client.Get("http://east")
		if !errors.Is(got, err) || utilnet.IsProbableEOF(got) || utilnet.IsTimeout(got) {
			t.Errorf("%v became %v", err, got)
		}
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestNoWarnings: what an API server warns of is not for client-go to log.
func TestNoWarnings(t *testing.T) {
	client := http.Client{Transport: once{roundTrip(func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Warning": {`299 - "deprecated"`}}, Body: http.NoBody}, nil
	})}}
	response, err := client.Get("https://east/api/v1/pods")
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if w := response.Header.Get("Warning"); w != "" {
		t.Errorf("client-go gets %s", w)
	}
}

// TestNoRedirect: no other server is asked, least of all with the credentials.
func TestNoRedirect(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("asked for %s with %q", r.URL, r.Header.Get("Authorization"))
	}))
	defer elsewhere.Close()
	var asked atomic.Bool
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") == "Bearer secret" && strings.HasPrefix(r.UserAgent(), "isthmus") {
			asked.Store(true)
		}
		http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
	}))
	defer server.Close()
	api, err := dial("east", &rest.Config{Host: server.URL, BearerToken: "secret"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer api.close()
	for _, r := range newCluster(testConfig(), api).resources {
		if _, err := r.list(t.Context(), metav1.ListOptions{}); err == nil {
			t.Errorf("%s: a redirect was followed", r.name)
		}
		if w, err := r.watch(t.Context(), metav1.ListOptions{}); err == nil {
			w.Stop()
			t.Errorf("%s: a redirect was followed", r.name)
		}
	}
	if !asked.Load() {
		t.Error("the server was not asked as it should be")
	}
}

// TestNoProxyForLinks: the environment's proxy is for the local cluster only.
func TestNoProxyForLinks(t *testing.T) {
	for name, want := range map[federation.ClusterName]bool{federation.Local: true, "east": false} {
		tr, err := newTransport(name, &rest.Config{Host: "https://east"})
		if err != nil {
			t.Fatal(err)
		}
		if got := tr.Proxy != nil; got != want {
			t.Errorf("%v: proxy %v", name, got)
		}
	}
}

// TestPages: a server that can't stream lists is asked for pages.
func TestPages(t *testing.T) {
	const pods = 1200
	old := func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		w.Header().Set("Content-Type", "application/json")
		if q.Has("sendInitialEvents") {
			w.WriteHeader(http.StatusUnprocessableEntity)
			fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Invalid","code":422}`)
			return
		}
		if q.Has("watch") {
			w.(http.Flusher).Flush()
			<-r.Context().Done()
			return
		}
		if !strings.HasSuffix(r.URL.Path, "/pods") {
			kind := map[string]string{
				"services":          "v1 ServiceList",
				"endpointslices":    "discovery.k8s.io/v1 EndpointSliceList",
				"servers":           "policy.linkerd.io/v1beta3 ServerList",
				"externalworkloads": "workload.linkerd.io/v1beta1 ExternalWorkloadList",
			}[path.Base(r.URL.Path)]
			if kind == "" {
				kind = "meta.k8s.io/v1 PartialObjectMetadataList"
			}
			version, kind, _ := strings.Cut(kind, " ")
			fmt.Fprintf(w, `{"kind":%q,"apiVersion":%q,"metadata":{"resourceVersion":"7"}}`, kind, version)
			return
		}
		if q.Get("limit") != "500" || q.Get("resourceVersion") != "" {
			t.Errorf("asked for %s", r.URL)
		}
		first, _ := strconv.Atoi(q.Get("continue"))
		last, next := min(first+500, pods), ""
		if last < pods {
			next = strconv.Itoa(last)
		}
		var items []string
		for i := first; i < last; i++ {
			items = append(items, fmt.Sprintf(`{"metadata":{"namespace":"ns","name":"p%d"}}`, i))
		}
		fmt.Fprintf(w, `{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"7","continue":%q},"items":[%s]}`, next, strings.Join(items, ","))
	}
	served(t, http.HandlerFunc(old), func(c *Cluster) {
		<-c.Synced()
		synctest.Wait()
		for _, h := range c.Health().Resources {
			if h.Resource == "pods" && h.Objects != pods || h.Err != "" {
				t.Errorf("%+v", h)
			}
		}
	})
}

// emptyAnswer answers a request for a list as an empty cluster would.
func emptyAnswer(w http.ResponseWriter, r *http.Request) {
	kind := map[string]string{"services": "v1 ServiceList", "pods": "v1 PodList", "endpointslices": "discovery.k8s.io/v1 EndpointSliceList"}[path.Base(r.URL.Path)]
	if kind == "" {
		kind = "meta.k8s.io/v1 PartialObjectMetadataList"
	}
	version, kind, _ := strings.Cut(kind, " ")
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"kind":%q,"apiVersion":%q,"metadata":{"resourceVersion":"7"}}`, kind, version)
}

// TestHeaderAndThenNothing: a server that begins to answer and falls silent is
// given up and asked again, whether it lists or streams the list.
func TestHeaderAndThenNothing(t *testing.T) {
	for name, x := range map[string]struct {
		streams bool
		limit   time.Duration
		text    string
	}{"list": {false, listTimeout, "deadline"}, "streamed list": {true, silence, "said nothing"}} {
		t.Run(name, func(t *testing.T) {
			var healthy atomic.Bool
			handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				streamed := r.URL.Query().Has("sendInitialEvents")
				switch {
				case streamed && !x.streams || streamed && healthy.Load():
					w.WriteHeader(http.StatusUnprocessableEntity) // "list instead"
				case r.URL.Query().Has("watch") || !healthy.Load():
					w.Header().Set("Content-Type", "application/json")
					w.WriteHeader(http.StatusOK)
					w.(http.Flusher).Flush()
					<-r.Context().Done()
				default:
					emptyAnswer(w, r)
				}
			})
			served(t, handler, func(c *Cluster) {
				began, changed := time.Now(), c.HealthChanged()
				<-changed
				synctest.Wait()
				if d := time.Since(began); d != x.limit {
					t.Errorf("told after %v, want %v", d, x.limit)
				}
				if h := c.Health(); h.Err == nil || !strings.Contains(h.Err.Error(), x.text) {
					t.Errorf("%+v", h)
				}
				healthy.Store(true)
				select {
				case <-c.Synced():
				case <-time.After(2 * listTimeout):
					t.Errorf("not synced %v later: %+v", 2*listTimeout, c.Health())
				}
			})
		})
	}
}

// TestEndlessAnswer: an answer that never ends takes neither all memory nor all
// time.
func TestEndlessAnswer(t *testing.T) {
	body := &bounded{ReadCloser: io.NopCloser(endless{}), left: maxAnswer}
	n, err := io.Copy(io.Discard, body)
	if n != maxAnswer || !errors.Is(err, errTooLarge) {
		t.Errorf("%d bytes, %v", n, err)
	}
	cfg := testConfig()
	server := httptest.NewServer(http.HandlerFunc(emptyAnswer))
	defer server.Close()
	cfg.REST = &rest.Config{Host: server.URL}
	client, closeIdle, err := newHTTPClient(cfg.Name, cfg.REST)
	if err != nil {
		t.Fatal(err)
	}
	defer closeIdle()
	for url, want := range map[string]bool{"/pods": true, "/pods?watch=false": true, "/pods?watch=true": false} {
		answer, err := client.Get(server.URL + url)
		if err != nil {
			t.Fatal(err)
		}
		if _, is := answer.Body.(*bounded); is != want {
			t.Errorf("%s: bounded %v, want %v", url, is, want)
		}
		answer.Body.Close()
	}
}

type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

// TestHostileError: what a server says is shown in part, and fit to be shown.
func TestHostileError(t *testing.T) {
	err := printable(errors.New(strings.Repeat("line\n\x1b[31m", 1000)))
	if text := err.Error(); len(text) > 500 || strings.ContainsAny(text, "\n\x1b") {
		t.Errorf("%q", text)
	}
	plain := errors.New("connection refused")
	if printable(plain) != plain {
		t.Error("a plain error is another")
	}
}

// TestTokenIsWithheld: a token is not shown though a server sends it back, not
// even the part of it that a clipped text ends with.
func TestTokenIsWithheld(t *testing.T) {
	for _, token := range []string{"s3cret", `s3"cr\et`} {
		h, c := &health{token: token}, &condition{}
		for _, err := range []error{
			fmt.Errorf("you sent %s", token), fmt.Errorf("you sent %q", token), fmt.Errorf("%s %s", strings.Repeat("x", 480), token),
		} {
			h.fail(c, err)
			if text := c.err.Error(); strings.Contains(text, "s3") || !strings.Contains(text, "[token]") {
				t.Errorf("%v became %q", err, text)
			}
		}
	}
	plain := errors.New("connection refused")
	if withheld(plain, "token") != plain || withheld(plain, "") != plain {
		t.Error("a plain error is another")
	}
}
