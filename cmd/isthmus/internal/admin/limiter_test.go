package admin

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// limited is a handler behind a limiter. Each request in its turn waits for a value on release.
type limited struct {
	http.Handler
	release chan struct{}

	mu    sync.Mutex
	began []string         // the client address of each turn, in order
	codes map[string][]int // response codes by client address
}

func newLimited(l *limiter) *limited {
	h := &limited{release: make(chan struct{}), codes: make(map[string][]int)}
	h.Handler = l.limit(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		addr, _, _ := net.SplitHostPort(r.RemoteAddr)
		h.mu.Lock()
		h.began = append(h.began, addr)
		h.mu.Unlock()
		<-h.release
	}))
	return h
}

// ask sends a request from an address. The function leave ends the context of the request.
func (h *limited) ask(addr string) (leave func()) {
	ctx, leave := context.WithCancel(context.Background())
	r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil)
	r.RemoteAddr = addr + ":1"
	go func() {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		h.mu.Lock()
		defer h.mu.Unlock()
		h.codes[addr] = append(h.codes[addr], w.Code)
	}()
	synctest.Wait()
	return leave
}

// turns returns the client addresses of all turns after the first n.
func (h *limited) turns(n int) string {
	synctest.Wait()
	h.mu.Lock()
	defer h.mu.Unlock()
	return strings.Join(h.began[n:], " ")
}

// count returns the number of turns that have begun.
func (h *limited) count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.began)
}

// answers formats the codes of all responses by client address.
func (h *limited) answers() string {
	synctest.Wait()
	h.mu.Lock()
	defer h.mu.Unlock()
	return fmt.Sprint(h.codes)
}

// next ends one request, and returns the client address of the next turn once the pause is over.
func (h *limited) next() string {
	n := h.count()
	h.release <- struct{}{}
	time.Sleep(maxRest)
	return h.turns(n)
}

// TestTurns checks that the maximum number of requests runs at once, and that client addresses take
// turns.
func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newLimited(newLimiter(3, time.Hour, 0))
		for range 20 {
			h.ask("a")
		}
		if got := h.turns(0); got != "a a" {
			t.Fatalf("turns of %q, want two of three for one address", got)
		}
		h.ask("b")
		if got := h.turns(2); got != "b" {
			t.Fatalf("next turns of %q, want one of another address", got)
		}
		leave := h.ask("c")
		h.ask("b")
		h.ask("c")
		leave()
		synctest.Wait()
		for range 4 {
			h.next()
		}
		if got := h.turns(3); got != "b c a a" {
			t.Errorf("next turns of %s", got)
		}
		for range 23 - 4 {
			h.next()
		}
		if got := strings.Count(h.turns(0), "a"); got != 20 {
			t.Errorf("the first address had %d turns", got)
		}
	})
}

// TestBusy checks that a request without a turn in time gets 503 and is no longer counted.
func TestBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newLimited(newLimiter(1, time.Minute, 0))
		h.ask("a")
		h.ask("b")
		time.Sleep(time.Minute - time.Nanosecond)
		if got := h.answers(); got != "map[]" {
			t.Errorf("early responses: %s", got)
		}
		time.Sleep(time.Nanosecond)
		if got := h.answers(); got != "map[b:[503]]" {
			t.Errorf("responses %s", got)
		}
		if next := h.next(); next != "" {
			t.Errorf("%s got a turn", next)
		}
		if h.ask("c"); h.turns(1) != "c" {
			t.Error("the turn was not released")
		}
		leave := h.ask("d")
		h.ask("d")
		leave()
		if next := h.next(); next != "d" {
			t.Errorf("the turn after a client that left is of %q, want its address", next)
		}
		h.next()
	})
}

// TestTurnsRest checks that a turn stays occupied for nine times its duration, and at most for a
// second.
func TestTurnsRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newLimited(newLimiter(1, time.Hour, 0))
		for _, c := range []struct{ took, rest time.Duration }{
			{time.Millisecond, 9 * time.Millisecond},
			{time.Minute, time.Second},
		} {
			h.ask("a")
			h.ask("b")
			time.Sleep(c.took)
			n := h.count()
			h.release <- struct{}{}
			time.Sleep(c.rest - time.Nanosecond)
			if h.turns(n) != "" {
				t.Errorf("after %v the next request waits for less than %v", c.took, c.rest)
			}
			time.Sleep(time.Nanosecond)
			if h.turns(n) != "b" {
				t.Errorf("after %v the next request waits for more than %v", c.took, c.rest)
			}
			h.next()
		}
	})
}

// TestTurnsEnd checks that a client that does not read, or does not send its body, loses its turn
// at the time limit.
func TestTurnsEnd(t *testing.T) {
	text := []byte(strings.Repeat("x", 16<<20))
	for name, request := range map[string]string{
		"unread answer": "GET / HTTP/1.1\r\nHost: gateway\r\n\r\n",
		"missing body":  "POST /small HTTP/1.1\r\nHost: gateway\r\nContent-Length: 100\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			began := make(chan struct{}, 2)
			l := newLimiter(1, time.Minute, time.Second)
			server := httptest.NewServer(l.limit(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
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
			resp, err := http.Get(server.URL + "/small") // the limiter delays this request by a minute at most
			if err != nil {
				t.Fatal(err)
			}
			body, _ := io.ReadAll(resp.Body)
			resp.Body.Close()
			if string(body) != "small\n" {
				t.Errorf("%q", body)
			}
			stuck.Close()
		})
	}
}

// ask sends a request on a new connection, and does not read the response.
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
