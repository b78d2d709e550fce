package overview

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// pipes is a listener whose connections have no buffer.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
}

func (p pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}
func (p pipes) Close() error   { close(p.closed); return nil }
func (p pipes) Addr() net.Addr { return &net.UnixAddr{} }

// served is a page behind a server as the gateway's, in a bubble.
type served struct {
	*Page
	t     *testing.T
	conns chan net.Conn
	world atomic.Pointer[World]
	looks atomic.Int32
	slow  atomic.Int64 // what a look takes
}

func inBubble(t *testing.T, f func(*served)) {
	synctest.Test(t, func(t *testing.T) {
		s := &served{t: t, conns: make(chan net.Conn)}
		s.world.Store(large(3, 3))
		s.Page = New(Options{Look: func() *World {
			s.looks.Add(1)
			time.Sleep(time.Duration(s.slow.Load()))
			w := s.world.Load()
			return &World{Gateway: w.Gateway, Clusters: w.Clusters, Services: w.Services, Streams: w.Streams, Events: w.Events}
		}})
		server := &http.Server{Handler: s.Page, ReadTimeout: 30 * time.Second, WriteTimeout: 5 * time.Minute}
		server.RegisterOnShutdown(s.End)
		done := make(chan error)
		go func() { done <- server.Serve(pipes{s.conns, make(chan struct{})}) }()
		f(s)
		ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
		defer cancel()
		if err := server.Shutdown(ctx); err != nil {
			t.Errorf("shutdown: %v", err)
		}
		<-done
		time.Sleep(time.Hour) // the last look is forgotten
	})
}

// open asks for a path and returns the answer's beginning.
func (s *served) open(path string) (*http.Response, net.Conn) {
	s.t.Helper()
	client, server := net.Pipe()
	s.conns <- server
	fmt.Fprintf(client, "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", path)
	answer, err := http.ReadResponse(bufio.NewReader(client), nil)
	if err != nil {
		s.t.Fatal(err)
	}
	return answer, client
}

// live reads the events of a live answer.
type live struct {
	net.Conn
	mu    sync.Mutex
	seen  []string
	ended bool
}

func (s *served) live(query string) *live {
	s.t.Helper()
	answer, conn := s.open("/page/live?" + query)
	if answer.StatusCode != http.StatusOK || answer.Header.Get("Content-Type") != "text/event-stream" {
		s.t.Fatalf("%v", answer.Status)
	}
	l := &live{Conn: conn}
	go func() {
		lines := bufio.NewScanner(answer.Body)
		lines.Buffer(nil, 1<<20)
		event := ""
		for lines.Scan() {
			if name, ok := strings.CutPrefix(lines.Text(), "event: "); ok {
				event = name
			}
			if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
				var sections map[string]json.RawMessage
				if err := json.Unmarshal([]byte(data), &sections); err != nil {
					s.t.Errorf("%v: %s", err, data)
				}
				for _, name := range []string{"summary", "clusters", "services", "streams", "events"} {
					if sections[name] != nil {
						event += " " + name
					}
				}
				l.mu.Lock()
				l.seen = append(l.seen, event)
				l.mu.Unlock()
			}
		}
		l.mu.Lock()
		l.ended = true
		l.mu.Unlock()
	}()
	return l
}

// took returns the events that came since the last call.
func (l *live) took() string {
	synctest.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	text := strings.Join(l.seen, ", ")
	l.seen = nil
	if l.ended {
		text += "; ended"
	}
	return text
}

const everything = "change summary clusters services streams events"

func TestLive(t *testing.T) {
	inBubble(t, func(s *served) {
		a, b := s.live(""), s.live("clusters.q=no-such")
		for _, l := range []*live{a, b} {
			if got := l.took(); got != everything {
				t.Errorf("first: %s", got)
			}
		}
		time.Sleep(14 * time.Second)
		if got := a.took(); got != "" {
			t.Errorf("though nothing has changed: %s", got)
		}
		time.Sleep(2 * time.Second)
		if got := a.took(); got != "tick" {
			t.Errorf("after 15 s: %s", got)
		}
		b.took()
		w := large(3, 3)
		w.Clusters[1].Reason = "another"
		s.world.Store(w)
		time.Sleep(2 * time.Second)
		if got := a.took(); got != "change clusters" {
			t.Errorf("after a change: %s", got)
		}
		if got := b.took(); got != "" {
			t.Errorf("after a change of what it does not see: %s", got)
		}
		time.Sleep(10 * time.Minute) // longer than the server's limits
		if got := a.took(); strings.Count(got, "tick") < 35 || strings.Contains(got, "ended") {
			t.Errorf("after ten minutes: %s", got)
		}
		b.Close()
	})
}

func TestShutdownEndsViewers(t *testing.T) {
	var l *live
	inBubble(t, func(s *served) { l = s.live(""); l.took() })
	if !l.ended {
		t.Error("a live answer goes on")
	}
}

// TestLooks: the gateway is looked at once a second at most, whatever the number of viewers, and
// not at all without; and less often if that takes long.
func TestLooks(t *testing.T) {
	inBubble(t, func(s *served) {
		var viewers []*live
		for range MaxViewers {
			viewers = append(viewers, s.live(""))
			time.Sleep(10 * time.Millisecond)
		}
		s.looks.Store(0)
		time.Sleep(time.Minute)
		if n := s.looks.Load(); n < 28 || n > 60 {
			t.Errorf("%d looks in a minute", n)
		}
		s.slow.Store(int64(500 * time.Millisecond))
		time.Sleep(time.Minute)
		s.looks.Store(0)
		time.Sleep(10 * time.Minute)
		if n := s.looks.Load(); n < 50 || n > 58 { // each takes half a second, and the next is 10 s later
			t.Errorf("%d looks in ten minutes", n)
		}
		for _, v := range viewers {
			v.Close()
		}
		time.Sleep(time.Minute)
		s.looks.Store(0)
		time.Sleep(time.Hour)
		synctest.Wait() // what has dropped it is over
		if n := s.looks.Load(); n != 0 || s.newest != nil {
			t.Errorf("%d looks though nobody looks; kept: %v", n, s.newest != nil)
		}
	})
}

func TestViewersAreBounded(t *testing.T) {
	inBubble(t, func(s *served) {
		var viewers []*live
		for range MaxViewers {
			viewers = append(viewers, s.live(""))
		}
		answer, conn := s.open("/page/live")
		if answer.StatusCode != http.StatusServiceUnavailable || answer.Header.Get("Retry-After") == "" {
			t.Errorf("%v %v", answer.Status, answer.Header)
		}
		conn.Close()
		answer, conn = s.open("/page/data")
		if answer.StatusCode != http.StatusOK {
			t.Errorf("data: %v", answer.Status)
		}
		conn.Close()
		viewers[0].Close()
		time.Sleep(20 * time.Second)
		if got := s.live("").took(); got != everything {
			t.Errorf("once another has gone: %s", got)
		}
	})
}

// TestSlowViewer: who takes nothing loses the connection, and others don't notice.
func TestSlowViewer(t *testing.T) {
	inBubble(t, func(s *served) {
		_, slow := s.open("/page/live") // whose body nobody reads
		defer slow.Close()
		quick := s.live("")
		quick.took()
		for i := range 20 {
			w := large(3, 3)
			w.Clusters[0].Reason = fmt.Sprint(i)
			s.world.Store(w)
			time.Sleep(time.Second)
		}
		if got := quick.took(); strings.Count(got, "clusters") < 15 {
			t.Errorf("the other viewer got %s", got)
		}
		if n := len(s.slots); n != 1 {
			t.Errorf("%d viewers are served", n)
		}
	})
}

func TestAnswers(t *testing.T) {
	page := New(Options{Look: func() *World { return large(60, 60) }})
	defer page.drop()
	for _, c := range []struct {
		method, path, site string
		code               int
		kind, body         string
	}{
		{method: "GET", path: "/", code: 200, kind: "text/html; charset=utf-8", body: "<h1>"},
		{method: "GET", path: "/?services.q=web", code: 200, kind: "text/html; charset=utf-8", body: "<h1>"},
		{method: "GET", path: "/", site: "cross-site", code: 200, kind: "text/html; charset=utf-8", body: "<h1>"}, // by a link
		{method: "HEAD", path: "/", code: 200, kind: "text/html; charset=utf-8"},
		{method: "GET", path: "/page/style.css", code: 200, kind: "text/css; charset=utf-8", body: "--focus"},
		{method: "GET", path: "/page/main.js", code: 200, kind: "text/javascript; charset=utf-8", body: "EventSource"},
		{method: "GET", path: "/page/icon.svg", code: 200, kind: "image/svg+xml", body: "<svg"},
		{method: "GET", path: "/page/data", code: 200, kind: "application/json", body: `"clusters":{"rows":[`},
		{method: "GET", path: "/page/data", site: "same-origin", code: 200, kind: "application/json", body: `"now":`},
		{method: "GET", path: "/page/data", site: "cross-site", code: 403},
		{method: "GET", path: "/page/data", site: "same-site", code: 403},
		{method: "GET", path: "/page/live", site: "cross-site", code: 403},
		{method: "HEAD", path: "/page/data", code: 200, kind: "application/json"},
		{method: "HEAD", path: "/page/live", code: 200, kind: "text/event-stream"},
		{method: "GET", path: "/page/", code: 404},
		{method: "GET", path: "/page/index.html", code: 404},
		{method: "POST", path: "/", code: 405},
		{method: "PUT", path: "/page/data", code: 405},
		{method: "DELETE", path: "/page/live", code: 405},
		{method: "OPTIONS", path: "/page/main.js", code: 405},
	} {
		r := httptest.NewRequest(c.method, c.path, nil)
		r.Header.Set("Sec-Fetch-Site", c.site)
		w := httptest.NewRecorder()
		page.ServeHTTP(w, r)
		if w.Code != c.code || c.kind != "" && w.Header().Get("Content-Type") != c.kind || !strings.Contains(w.Body.String(), c.body) {
			t.Errorf("%+v: %d %v %.200s", c, w.Code, w.Header(), w.Body)
		}
		h := w.Header()
		if !strings.HasPrefix(h.Get("Content-Security-Policy"), "default-src 'self'; ") || !strings.Contains(h.Get("Content-Security-Policy"), "frame-ancestors 'none'") ||
			h.Get("X-Content-Type-Options") != "nosniff" || h.Get("Referrer-Policy") != "no-referrer" || h.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s %s: headers %v", c.method, c.path, h)
		}
		if c.code == 405 && h.Get("Allow") != "GET, HEAD" {
			t.Errorf("%s %s: allows %q", c.method, c.path, h.Get("Allow"))
		}
	}
}

// TestFiles: nothing in the page makes markup of a text, is inline, or comes from elsewhere.
func TestFiles(t *testing.T) {
	entries, err := files.ReadDir("page")
	if err != nil || len(entries) < 6 {
		t.Fatalf("%v: %d files", err, len(entries))
	}
	forbidden := regexp.MustCompile(`innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|new Function|DOMParser|createContextualFragment|setHTML|\bstyle=|<style|<script>| on[a-z]+=|localStorage|document\.cookie`)
	elsewhere := regexp.MustCompile(`(https?:)?//[a-z][a-z0-9.]+`)
	for _, e := range entries {
		f, err := files.Open("page/" + e.Name())
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(f)
		f.Close()
		if err != nil {
			t.Fatal(err)
		}
		if m := forbidden.Find(text); m != nil {
			t.Errorf("%s has %s", e.Name(), m)
		}
		for _, m := range elsewhere.FindAll(text, -1) {
			if string(m) != "http://www.w3.org" { // the name of a namespace, which nothing fetches
				t.Errorf("%s has %s", e.Name(), m)
			}
		}
	}
}

func BenchmarkViewer(b *testing.B) {
	for _, q := range []string{"", "services.q=web-0999&services.sort=streams"} {
		b.Run("q="+q, func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				w := large(250, 10_000)
				b.StartTimer()
				if _, err := json.Marshal(w.sections(ask(q))); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
