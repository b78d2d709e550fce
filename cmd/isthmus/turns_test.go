package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// ask requests a path on a connection of its own, and does not read the answer.
func ask(t *testing.T, addr, request string) *net.TCPConn {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	tcp := conn.(*net.TCPConn)
	if err := tcp.SetReadBuffer(4 << 10); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, request); err != nil {
		t.Fatal(err)
	}
	return tcp
}

func inUse() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapInuse
}

// TestUnreadPages: clients that do not read what they have asked for get four pages and
// two scrapes at a time, the others get 503, and all the time /ready is answered at once.
func TestUnreadPages(t *testing.T) {
	const clients = 60 // of each of the two paths
	a, ready := newAdmin(false)
	ready.Store(true)
	var pages atomic.Int64
	text := strings.Repeat("x", 8<<20)
	a.pages = map[string]func() any{"/debug/large": func() any { pages.Add(1); return []string{strings.Clone(text)} }}
	desc := prometheus.NewDesc("large", "A large series.", []string{"text"}, nil)
	var scrapes atomic.Int64
	a.metrics.MustRegister(collectorFunc(func(ch chan<- prometheus.Metric) {
		scrapes.Add(1)
		ch <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, 1, text)
	}))
	addr, stop := serve(t, a)
	defer stop()
	before := inUse()
	var unread []net.Conn
	for _, path := range []string{"/debug/large", "/metrics"} {
		for range clients {
			unread = append(unread, ask(t, addr, "GET "+path+" HTTP/1.1\r\nHost: gateway\r\n\r\n"))
		}
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: time.Minute}
	var slowest time.Duration
	var most uint64
	for began := time.Now(); time.Since(began) < pageWait+time.Second; time.Sleep(20 * time.Millisecond) {
		start := time.Now()
		resp, err := client.Get("http://" + addr + "/ready")
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		slowest, most = max(slowest, time.Since(start)), max(most, inUse())
	}
	t.Logf("/ready took %v at most, %d MB of heap, %d pages, %d scrapes", slowest, (most-min(most, before))>>20, pages.Load(), scrapes.Load())
	if pages.Load() != maxPages || scrapes.Load() > 2*maxScrapes {
		t.Errorf("%d pages and %d scrapes for clients that read none", pages.Load(), scrapes.Load())
	}
	if slowest > pageWait { // as it would wait for a turn; a busy machine is slow, but not that slow
		t.Errorf("/ready took %v", slowest)
	}
	var refused int
	for _, conn := range unread {
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		if resp.StatusCode == http.StatusServiceUnavailable {
			refused++
		}
		conn.Close()
	}
	if refused < 2*clients-maxPages-2*maxScrapes {
		t.Errorf("%d of %d are refused", refused, 2*clients)
	}
}

// collectorFunc is a prometheus.Collector without a description.
type collectorFunc func(chan<- prometheus.Metric)

// Describe implements prometheus.Collector.
func (f collectorFunc) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (f collectorFunc) Collect(ch chan<- prometheus.Metric) { f(ch) }

// TestTurnsEnd: a client that does not read, or does not send the body that it has
// announced, keeps its turn no longer than the limit.
func TestTurnsEnd(t *testing.T) {
	text := []byte(strings.Repeat("x", 16<<20))
	for name, request := range map[string]string{
		"unread answer": "GET / HTTP/1.1\r\nHost: gateway\r\n\r\n",
		"missing body":  "POST /small HTTP/1.1\r\nHost: gateway\r\nContent-Length: 100\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			began := make(chan struct{}, 2)
			server := httptest.NewServer(newTurns(1, time.Minute, time.Second).limit(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				began <- struct{}{}
				if r.URL.Path == "/" {
					w.Write(text)
				} else {
					fmt.Fprintln(w, "small")
				}
			})))
			defer server.Close()
			stuck := ask(t, server.Listener.Addr().String(), request)
			<-began
			start := time.Now()
			resp, err := http.Get(server.URL + "/small")
			if err != nil {
				t.Fatal(err)
			}
			body, _ := io.ReadAll(resp.Body)
			resp.Body.Close()
			if took := time.Since(start); string(body) != "small\n" || took > 20*time.Second {
				t.Errorf("%q after %v", body, took)
			}
			stuck.Close()
		})
	}
}

// TestLargeHeaders: a request whose header is larger than any that kubelet, Prometheus
// or a browser sends is refused, and little of it is read.
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
