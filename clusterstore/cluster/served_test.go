package cluster

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"path"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	"isthmus/clusterstore/kube"
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
		client, err := kube.New("east", &rest.Config{Host: "http://east", BearerToken: "secret", Dial: listener.dial}, nil)
		if err != nil {
			t.Fatal(err)
		}
		cfg.Client = client
		c, err := New(cfg)
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

// TestNoRetryBehindOurBack: answers after which client-go would wait and retry by itself
// are reported like others.
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

// TestPages: of a server that can't stream lists, pages are requested.
func TestPages(t *testing.T) {
	const pods = 1200
	old := func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		if q.Has("sendInitialEvents") {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusUnprocessableEntity)
			fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Invalid","code":422}`)
			return
		}
		if q.Has("watch") {
			w.Header().Set("Content-Type", watchType(r))
			w.(http.Flusher).Flush()
			<-r.Context().Done()
			return
		}
		if !strings.HasSuffix(r.URL.Path, "/pods") {
			emptyAnswer(w, r)
			return
		}
		if q.Get("limit") != "500" || q.Get("resourceVersion") != "" {
			t.Errorf("requested %s", r.URL)
		}
		first, _ := strconv.Atoi(q.Get("continue"))
		last, next := min(first+500, pods), ""
		if last < pods {
			next = strconv.Itoa(last)
		}
		list := &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "7", Continue: next}}
		for i := first; i < last; i++ {
			list.Items = append(list.Items, corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: fmt.Sprint("p", i)}})
		}
		answer(w, "v1", "PodList", list)
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

// answer answers by an object in protobuf.
func answer(w http.ResponseWriter, version, kind string, o interface{ Marshal() ([]byte, error) }) {
	raw, err := o.Marshal()
	if err != nil {
		panic(err)
	}
	unknown := runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: version, Kind: kind}, Raw: raw}
	if raw, err = unknown.Marshal(); err != nil {
		panic(err)
	}
	w.Header().Set("Content-Type", runtime.ContentTypeProtobuf)
	_, _ = w.Write(append([]byte("k8s\x00"), raw...))
}

// watchType is what an API server answers a watch by.
func watchType(r *http.Request) string {
	if strings.Contains(r.Header.Get("Accept"), "protobuf") {
		return runtime.ContentTypeProtobuf + ";stream=watch"
	}
	return "application/json"
}

// emptyAnswer answers a request for a list as an empty cluster would.
func emptyAnswer(w http.ResponseWriter, r *http.Request) {
	meta := metav1.ListMeta{ResourceVersion: "7"}
	switch path.Base(r.URL.Path) {
	case "services":
		answer(w, "v1", "ServiceList", &corev1.ServiceList{ListMeta: meta})
	case "pods":
		answer(w, "v1", "PodList", &corev1.PodList{ListMeta: meta})
	case "endpointslices":
		answer(w, "discovery.k8s.io/v1", "EndpointSliceList", &discoveryv1.EndpointSliceList{ListMeta: meta})
	case "servers":
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"kind":"ServerList","apiVersion":"policy.linkerd.io/v1beta3","metadata":{"resourceVersion":"7"},"items":[]}`)
	case "externalworkloads":
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"kind":"ExternalWorkloadList","apiVersion":"workload.linkerd.io/v1beta1","metadata":{"resourceVersion":"7"},"items":[]}`)
	default:
		answer(w, "meta.k8s.io/v1", "PartialObjectMetadataList", &metav1.PartialObjectMetadataList{ListMeta: meta})
	}
}

// TestHeaderAndThenNothing: an answer that pauses for too long after its header fails and
// is retried, be it a list or a streamed list.
func TestHeaderAndThenNothing(t *testing.T) {
	for name, x := range map[string]struct {
		streams bool
		limit   time.Duration
		text    string
	}{"list": {false, 30 * time.Second, "deadline"}, "streamed list": {true, 10 * time.Second, "sent nothing"}} {
		t.Run(name, func(t *testing.T) {
			var healthy atomic.Bool
			handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				streamed := r.URL.Query().Has("sendInitialEvents")
				switch {
				case streamed && !x.streams || streamed && healthy.Load():
					w.WriteHeader(http.StatusUnprocessableEntity) // "list instead"
				case r.URL.Query().Has("watch") || !healthy.Load():
					w.Header().Set("Content-Type", watchType(r))
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
					t.Errorf("reported after %v, want %v", d, x.limit)
				}
				if h := c.Health(); h.Err == nil || !strings.Contains(h.Err.Error(), x.text) {
					t.Errorf("%+v", h)
				}
				healthy.Store(true)
				select {
				case <-c.Synced():
				case <-time.After(time.Minute):
					t.Errorf("not synced %v later: %+v", time.Minute, c.Health())
				}
			})
		})
	}
}
