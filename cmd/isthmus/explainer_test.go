package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unicode"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"isthmus/grpcapi"
)

// TestExplainRefusals: questions that can't be answered get a code and a text.
func TestExplainRefusals(t *testing.T) {
	h := newExplainedGateway(t)
	for _, c := range []struct{ authority, address, want string }{
		{"", "", "authority is missing"},
		{"web", "", `"web" is no service of the cluster domain cluster.local`},
		{"a.web.shop.x.svc.cluster.local", "", "Invalid authority: a.web"},
		{"10.0.0.1:80", "", "10.0.0.1 belongs to Pod shop/web-1"},
		{"web.shop.svc.cluster.local", "web", "no IP address"},
		{"web.shop.svc.cluster.local", "fe80::1%eth0", "no IP address"},
	} {
		if w := getExplain(h, url.Values{"authority": {c.authority}, "address": {c.address}}); w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), c.want) {
			t.Errorf("%+v: %d %s", c, w.Code, w.Body)
		}
	}
	limited := newShop(nil)
	limited.served.explain = func(context.Context, grpcapi.Question) (*grpcapi.Explanation, error) {
		return nil, status.Error(codes.ResourceExhausted, "too many ports")
	}
	w := getExplain(limited.explainHandler(), url.Values{"authority": {"shop/web"}})
	if w.Code != http.StatusInsufficientStorage || w.Body.String() != "too many ports\n" {
		t.Errorf("a limit: %d %s", w.Code, w.Body)
	}
	late := newShop(nil)
	late.served.explain = func(ctx context.Context, _ grpcapi.Question) (*grpcapi.Explanation, error) {
		if _, ok := ctx.Deadline(); !ok {
			t.Error("an explanation may take any time")
		}
		return nil, status.Error(codes.DeadlineExceeded, "too much")
	}
	if w := getExplain(late.explainHandler(), url.Values{"authority": {"shop/web"}}); w.Code != http.StatusServiceUnavailable || w.Body.String() != "too much\n" {
		t.Errorf("too late: %d %s", w.Code, w.Body)
	}
}

// askExplain requests an explanation from an address.
func askExplain(h http.Handler, w http.ResponseWriter, addr string) {
	r := httptest.NewRequest(http.MethodGet, "/debug/explain?authority=shop/web", nil)
	r.RemoteAddr = addr + ":1"
	h.ServeHTTP(w, r)
}

// TestExplainsTakeTurns: one is answered at a time, and those who would wait for long get 503. Whose turn it is has TestTurns.
func TestExplainsTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var running, most, refused atomic.Int64
		s := newShop(nil)
		s.served.explain = func(context.Context, grpcapi.Question) (*grpcapi.Explanation, error) {
			most.Store(max(most.Load(), running.Add(1)))
			time.Sleep(time.Second)
			running.Add(-1)
			return nil, status.Error(codes.InvalidArgument, "done")
		}
		h := s.explainHandler()
		for i := range 200 {
			go func() {
				w := httptest.NewRecorder()
				if askExplain(h, w, fmt.Sprint("10.0.0.", i)); w.Code == http.StatusServiceUnavailable && w.Header().Get("Retry-After") != "" {
					refused.Add(1)
				}
			}()
		}
		time.Sleep(time.Hour)
		if most.Load() != maxExplains || refused.Load() == 0 {
			t.Errorf("%d at once, %d refused", most.Load(), refused.Load())
		}
	})
}

// TestExplainAfterPanic checks that a panic while one question is answered ends only that request.
func TestExplainAfterPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShop(nil)
		s.served.explain = func(context.Context, grpcapi.Question) (*grpcapi.Explanation, error) {
			panic("cursed")
		}
		h := s.explainHandler()
		ask := func() *httptest.ResponseRecorder {
			defer func() { _ = recover() }() // as net/http does for each request
			w := httptest.NewRecorder()
			askExplain(h, w, "10.0.0.1")
			return w
		}
		for range maxExplainClients + 1 {
			if w := ask(); w != nil {
				t.Fatalf("no panic, but %d %s", w.Code, w.Body)
			}
			time.Sleep(restMost)
		}
		s.served.explain = func(context.Context, grpcapi.Question) (*grpcapi.Explanation, error) {
			return nil, status.Error(codes.InvalidArgument, "answered")
		}
		if w := ask(); w.Code != http.StatusBadRequest {
			t.Errorf("after the panics: %d %s", w.Code, w.Body)
		}
	})
}

// untaken is an answer that its client takes once that is closed.
type untaken struct {
	*httptest.ResponseRecorder
	taken chan struct{}
}

func (u untaken) Write(p []byte) (int, error) { <-u.taken; return u.ResponseRecorder.Write(p) }

// TestSlowClientsOfExplain: a client that does not take its answer keeps nobody else waiting, until
// there are so many that their answers would take much memory.
func TestSlowClientsOfExplain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, taken := newExplainedGateway(t), make(chan struct{})
		var answers []untaken
		for i := range maxExplainClients {
			if i == maxExplainClients-1 {
				if w := getExplain(h, url.Values{"authority": {"shop/web"}}); w.Code != http.StatusOK {
					t.Errorf("%d: %s", w.Code, w.Body)
				}
			}
			w := untaken{httptest.NewRecorder(), taken}
			answers = append(answers, w)
			go askExplain(h, w, fmt.Sprint("10.0.0.", i))
			time.Sleep(time.Second)
		}
		if w := getExplain(h, url.Values{"authority": {"shop/web"}}); w.Code != http.StatusServiceUnavailable {
			t.Errorf("one more: %d %s", w.Code, w.Body)
		}
		close(taken)
		time.Sleep(time.Second)
		synctest.Wait()
		want := getExplain(h, url.Values{"authority": {"shop/web"}})
		for _, w := range answers {
			if w.Code != want.Code || w.Body.String() != want.Body.String() || !maps.EqualFunc(w.Header(), want.Header(), slices.Equal) {
				t.Fatalf("%d %v, want %d %v", w.Code, w.Header(), want.Code, want.Header())
			}
		}
	})
}

// FuzzExplainQuery: whatever is asked gets an answer that does nothing to a terminal or a
// browser, and of which refusals are short.
func FuzzExplainQuery(f *testing.F) {
	for _, query := range []string{
		"authority=shop/web", "authority=web.shop.svc.cluster.local:80&token={%22ns%22:%22shop%22}&address=10.1.0.2", "authority=%1b[31m<b>", "authority=10.0.0.1:80",
		"authority=a.b.c.d.svc.cluster.local:99999", "authority=shop/api&address=fe80::1%25eth0", "authority=shop/%c2%9b&token=ns:%00", "authority=i.web.shop.svc:0", "%zz",
	} {
		f.Add(query)
	}
	h := newExplainedGateway(f)
	f.Fuzz(func(t *testing.T, query string) {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, &http.Request{Method: http.MethodGet, URL: &url.URL{Path: "/debug/explain", RawQuery: query}, Header: http.Header{}})
		body := w.Body.String()
		if i := strings.IndexFunc(body, func(r rune) bool { return !unicode.IsPrint(r) && r != '\n' }); i >= 0 {
			t.Fatalf("%d: the answer has %q", w.Code, body[i:min(i+20, len(body))])
		}
		switch {
		case w.Code == http.StatusOK && json.Valid(w.Body.Bytes()) && !strings.Contains(body, "<"):
		case w.Code == http.StatusBadRequest && len(body) < 1000 && strings.HasPrefix(w.Header().Get("Content-Type"), "text/plain"):
		default:
			t.Fatalf("%d: %s", w.Code, body)
		}
	})
}

// TestExplainIsAwaited: by default "isthmus explain" waits for longer than a gateway lets it wait for its turn, and explains.
func TestExplainIsAwaited(t *testing.T) {
	_, help, _ := call("explain", "--help")
	_, text, _ := strings.Cut(help, "--timeout")
	_, text, _ = strings.Cut(text, "(default ")
	text, _, _ = strings.Cut(text, ")")
	if limit, err := time.ParseDuration(text); err != nil || limit <= pageWait+explainWait+explainLimit {
		t.Errorf("--timeout is %q, not more than %v (%v)", text, pageWait+explainWait+explainLimit, err)
	}
}
