package admin

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unicode"

	"isthmus/cmd/isthmus/internal/commands"

	"isthmus/cmd/isthmus/internal/cmdtest"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"isthmus/clusterstore/cluster"
	"isthmus/federation"
	"isthmus/grpcapi"
)

// explained is a source with one slice and the given rejected addresses.
type explained struct {
	*cmdtest.Source
	left []federation.Considered
}

func (x explained) Explain(federation.ServiceID, uint16) iter.Seq[federation.Considered] {
	return slices.Values(x.left)
}

const hostile = "\x1b[31m</script><b>\u009b\u202e\xff\n"

// newExplainedGateway returns the page of a table in which web is federated over the local cluster
// and east.
func newExplainedGateway(t testing.TB) http.Handler {
	t.Helper()
	table := federation.NewTable(federation.Options{})
	web := cmdtest.ShopID("web")
	table.Link(federation.Local, federation.Ready, cmdtest.Offering(federation.Local, "web", "10.0.0.1:80"))
	table.Link(
		"east",
		federation.Ready,
		explained{cmdtest.Offering("east", "web", "10.0.0.1:80", "10.1.0.1:80"), []federation.Considered{
			{Slice: "shop/web-x", Text: hostile, Target: hostile, Verdict: federation.UnusableText, Detail: hostile},
			{
				Slice:   "shop/web-x",
				Addr:    netip.MustParseAddrPort("10.1.0.2:0"),
				Target:  "Pod shop/web-2",
				Verdict: federation.Terminating,
			},
			{
				Slice:   "shop/web-y",
				Text:    strings.Repeat("<", 1<<20),
				Target:  strings.Repeat("<", 1<<20),
				Verdict: federation.UnusableText,
				Changed: time.Unix(1e9, 0).UTC(),
			},
		}},
	)
	table.Link("north", federation.Unreachable, nil)
	d := &federation.Definition{Federated: true}
	for _, c := range []federation.ClusterName{federation.Local, "east", "north"} {
		d.Members = append(d.Members, federation.Member{Cluster: c, Service: web})
	}
	table.Define(web, d)
	api, err := grpcapi.New(table, cmdtest.Directory{}, grpcapi.Options{Linger: -1})
	if err != nil {
		t.Fatal(err)
	}
	s := newShop(table)
	s.linked = linkedShops{
		{Cluster: "north", ClusterStatus: cluster.Status{State: cluster.Rejected}},
		{Cluster: "north", ClusterStatus: cluster.Status{State: cluster.Unreachable, Reason: "dial" + hostile}},
	}
	s.served.explain = api.Explain
	return s.explain()
}

func getExplain(h http.Handler, query url.Values) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/debug/explain?"+query.Encode(), nil))
	return w
}

// TestExplainPage checks each field of the page, because programs read it.
func TestExplainPage(t *testing.T) {
	h := newExplainedGateway(t)
	w := getExplain(
		h,
		url.Values{"authority": {"web.shop.svc.cluster.local:80"}, "token": {`{"ns":"shop","nodeName":"n1"}`}},
	)
	if w.Code != http.StatusOK || w.Header().Get("Content-Type") != "application/json" ||
		w.Header().Get("X-Content-Type-Options") != "nosniff" {
		t.Fatalf("%d %v %s", w.Code, w.Header(), w.Body)
	}
	if i := strings.IndexFunc(w.Body.String(), func(r rune) bool {
		return !unicode.IsPrint(r) && r != '\n' || r == '<'
	}); i >= 0 {
		t.Errorf("the page contains %q", w.Body.String()[i:min(i+20, w.Body.Len())])
	}
	var page map[string]any
	if err := json.Unmarshal(w.Body.Bytes(), &page); err != nil {
		t.Fatal(err)
	}
	if want := []string{
		"addresses",
		"authority",
		"client",
		"defined",
		"federated",
		"members",
		"problems",
		"set",
		"streams",
		"verdicts",
	}; !slices.Equal(
		slices.Sorted(maps.Keys(page)),
		want,
	) {
		t.Errorf("fields %q", slices.Sorted(maps.Keys(page)))
	}
	text := func(field string) string { b, _ := json.Marshal(page[field]); return string(b) }
	const odd = `\ufffd[31m\u003c/script\u003e\u003cb\u003e\ufffd\ufffd\ufffd `
	for field, want := range map[string]string{
		"client":   `{"namespace":"shop","node":"n1","zone":"z1"}`,
		"problems": `["about shop/web"]`,
		"verdicts": `{"served":2,"taken":1,"terminating":1,"unusable-text":2}`,
		"set":      `{"complete":true,"endpoints":2,"version":1}`,
		"streams":  `[]`,
		"members": `[{"cluster":"local","ports":[80],"service":"shop/web","standing":"in-service","state":"ready",` +
			`"updates":0},` +
			`{"cluster":"east","ports":[80],"service":"shop/web","standing":"in-service","state":"ready",` +
			`"updates":0},` +
			`{"cluster":"north","ports":[],"reason":"cluster is unreachable: dial` + odd +
			`","service":"shop/web","standing":"in-service","state":"unreachable","updates":0}]`,
		"addresses": `[{"address":"10.0.0.1:80","cluster":"local","service":"shop/web","slice":"",` +
			`"verdict":"served"},` +
			`{"address":"10.0.0.1:80","cluster":"east","detail":"clients get it from shop/web@local, slice ` +
			`","service":"shop/web","slice":"","verdict":"taken"},` +
			`{"address":"10.1.0.1:80","cluster":"east","service":"shop/web","slice":"","verdict":"served"},` +
			`{"address":"` + odd + `","cluster":"east","detail":"` + odd +
			`","service":"shop/web","slice":"shop/web-x","target":"` + odd + `","verdict":"unusable-text"},` +
			`{"address":"10.1.0.2","cluster":"east","service":"shop/web","slice":"shop/web-x","target":"Pod ` +
			`shop/web-2","verdict":"terminating"},` +
			`{"address":"` + strings.Repeat(`\u003c`, maxRepeated-3) +
			`…","changed":"2001-09-09T01:46:40Z","cluster":"east","service":"shop/web","slice":"shop/web-y",` +
			`"target":"` +
			strings.Repeat(`\u003c`, maxRepeated-3) + `…","verdict":"unusable-text"}]`,
	} {
		want = strings.ReplaceAll(want, `\ufffd`, "\uFFFD")
		if got := text(field); got != want {
			t.Errorf("%s:\ngot  %s\nwant %s", field, got, want)
		}
	}

	w = getExplain(h, url.Values{"authority": {"web.shop.svc.cluster.local:80"}, "address": {"::ffff:10.1.0.2"}})
	page = nil
	if err := json.Unmarshal(w.Body.Bytes(), &page); err != nil || text("verdicts") != `{"terminating":1}` {
		t.Errorf("one address: %s, %v", w.Body, err)
	}
	w = getExplain(h, url.Values{"authority": {"none.shop.svc.cluster.local"}})
	page = nil
	if err := json.Unmarshal(w.Body.Bytes(), &page); err != nil || page["defined"] != false ||
		!strings.HasPrefix(page["refused"].(string), "NotFound: ") {
		t.Errorf("no such service: %s, %v", w.Body, err)
	}
}

// TestExplainRefusals checks the code and text for invalid questions.
func TestExplainRefusals(t *testing.T) {
	h := newExplainedGateway(t)
	for _, c := range []struct{ authority, address, want string }{
		{"", "", "authority is missing"},
		{"web", "", `"web" is not a service name in the cluster domain cluster.local`},
		{"a.web.shop.x.svc.cluster.local", "", "Invalid authority: a.web"},
		{"10.0.0.1:80", "", "10.0.0.1 belongs to Pod shop/web-1"},
		{"web.shop.svc.cluster.local", "web", "not an IP address"},
		{"web.shop.svc.cluster.local", "fe80::1%eth0", "not an IP address"},
	} {
		if w := getExplain(h, url.Values{
			"authority": {c.authority},
			"address":   {c.address},
		}); w.Code != http.StatusBadRequest ||
			!strings.Contains(w.Body.String(), c.want) {
			t.Errorf("%+v: %d %s", c, w.Code, w.Body)
		}
	}
	limited := newShop(nil)
	limited.served.explain = func(context.Context, grpcapi.Question) (*grpcapi.Explanation, error) {
		return nil, status.Error(codes.ResourceExhausted, "too many ports")
	}
	w := getExplain(limited.explain(), url.Values{"authority": {"shop/web"}})
	if w.Code != http.StatusInsufficientStorage || w.Body.String() != "too many ports\n" {
		t.Errorf("with a limit: %d %s", w.Code, w.Body)
	}
	late := newShop(nil)
	late.served.explain = func(ctx context.Context, _ grpcapi.Question) (*grpcapi.Explanation, error) {
		if _, ok := ctx.Deadline(); !ok {
			t.Error("the context of an explanation has no deadline")
		}
		return nil, status.Error(codes.DeadlineExceeded, "too much")
	}
	if w := getExplain(late.explain(), url.Values{
		"authority": {"shop/web"},
	}); w.Code != http.StatusServiceUnavailable ||
		w.Body.String() != "too much\n" {
		t.Errorf("after the deadline: %d %s", w.Code, w.Body)
	}
}

// askExplain requests an explanation from an address.
func askExplain(h http.Handler, w http.ResponseWriter, addr string) {
	r := httptest.NewRequest(http.MethodGet, "/debug/explain?authority=shop/web", nil)
	r.RemoteAddr = addr + ":1"
	h.ServeHTTP(w, r)
}

// TestExplainsTakeTurns checks that one question is answered at a time, and that long waits end
// with 503. TestTurns checks the order of turns.
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
		h := s.explain()
		for i := range 200 {
			go func() {
				w := httptest.NewRecorder()
				if askExplain(h, w, fmt.Sprint("10.0.0.", i)); w.Code == http.StatusServiceUnavailable &&
					w.Header().Get("Retry-After") != "" {
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
		h := s.explain()
		ask := func() *httptest.ResponseRecorder {
			defer func() { _ = recover() }() // like net/http, for each request
			w := httptest.NewRecorder()
			askExplain(h, w, "10.0.0.1")
			return w
		}
		for range maxExplainClients + 1 {
			if w := ask(); w != nil {
				t.Fatalf("no panic, but %d %s", w.Code, w.Body)
			}
			time.Sleep(maxRest)
		}
		s.served.explain = func(context.Context, grpcapi.Question) (*grpcapi.Explanation, error) {
			return nil, status.Error(codes.InvalidArgument, "answered")
		}
		if w := ask(); w.Code != http.StatusBadRequest {
			t.Errorf("after the panics: %d %s", w.Code, w.Body)
		}
	})
}

// untaken is a response whose client does not read until taken is closed.
type untaken struct {
	*httptest.ResponseRecorder
	taken chan struct{}
}

func (u untaken) Write(p []byte) (int, error) { <-u.taken; return u.ResponseRecorder.Write(p) }

// TestSlowClientsOfExplain checks that a client that does not read its response delays no other
// client. Only the number of such clients is limited, because each of them uses memory.
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
			t.Errorf("one client beyond the limit: %d %s", w.Code, w.Body)
		}
		close(taken)
		time.Sleep(time.Second)
		synctest.Wait()
		want := getExplain(h, url.Values{"authority": {"shop/web"}})
		for _, w := range answers {
			if w.Code != want.Code || w.Body.String() != want.Body.String() ||
				!maps.EqualFunc(w.Header(), want.Header(), slices.Equal) {
				t.Fatalf("%d %v, want %d %v", w.Code, w.Header(), want.Code, want.Header())
			}
		}
	})
}

// FuzzExplainQuery checks that every response is harmless to terminals and browsers, and that
// rejections are short.
func FuzzExplainQuery(f *testing.F) {
	for _, query := range []string{
		"authority=shop/web",
		"authority=web.shop.svc.cluster.local:80&token={%22ns%22:%22shop%22}&address=10.1.0.2", "authority=%1b[31m<b>",
		"authority=10.0.0.1:80",
		"authority=a.b.c.d.svc.cluster.local:99999", "authority=shop/api&address=fe80::1%25eth0",
		"authority=shop/%c2%9b&token=ns:%00", "authority=i.web.shop.svc:0", "%zz",
	} {
		f.Add(query)
	}
	h := newExplainedGateway(f)
	f.Fuzz(func(t *testing.T, query string) {
		w := httptest.NewRecorder()
		h.ServeHTTP(
			w,
			&http.Request{
				Method: http.MethodGet,
				URL:    &url.URL{Path: "/debug/explain", RawQuery: query},
				Header: http.Header{},
			},
		)
		body := w.Body.String()
		if i := strings.IndexFunc(body, func(r rune) bool { return !unicode.IsPrint(r) && r != '\n' }); i >= 0 {
			t.Fatalf("%d: the response contains %q", w.Code, body[i:min(i+20, len(body))])
		}
		switch {
		case w.Code == http.StatusOK && json.Valid(w.Body.Bytes()) && !strings.Contains(body, "<"):
		case w.Code == http.StatusBadRequest && len(body) < 1000 && strings.HasPrefix(
			w.Header().Get("Content-Type"), "text/plain",
		):
		default:
			t.Fatalf("%d: %s", w.Code, body)
		}
	})
}

// TestExplainIsAwaited checks the default timeout of "isthmus explain". The timeout is longer than
// a replica may delay an explanation.
func TestExplainIsAwaited(t *testing.T) {
	longest := pageWait + explainWait + explainLimit
	for _, v := range commands.All() {
		if !strings.HasPrefix(v.Use, "explain ") {
			continue
		}
		for _, s := range v.Flags {
			f := s.Flags.Lookup("timeout")
			if f == nil {
				continue
			}
			if limit, err := time.ParseDuration(f.DefValue); err != nil || limit <= longest {
				t.Errorf("--timeout is %q, not more than %v (%v)", f.DefValue, longest, err)
			}
			return
		}
	}
	t.Error("isthmus explain has no flag --timeout")
}

// TestAuthorities checks that each accepted form of an authority means one service, and that other
// forms are rejected.
func TestAuthorities(t *testing.T) {
	a := newShop(nil)
	for text, want := range map[string]string{
		"shop/web": "web.shop.svc.cluster.local:80", "shop/web:81": "web.shop.svc.cluster.local:81",
		"web.shop":     "web.shop.svc.cluster.local:80",
		"web.shop.svc": "web.shop.svc.cluster.local:80", "web.shop.svc:90": "web.shop.svc.cluster.local:90",
		"shop/api":  "api.shop.svc.cluster.local:8080",
		"shop/both": "both.shop.svc.cluster.local:80", "shop/none": "none.shop.svc.cluster.local:80",
		"web-0.web.shop.svc":           "web-0.web.shop.svc.cluster.local:80",
		"api.shop.svc.cluster.local":   "api.shop.svc.cluster.local", // as applications resolve the name
		"x.web.shop.svc.cluster.local": "x.web.shop.svc.cluster.local", "10.1.0.1": "api.shop.svc.cluster.local:8080",
		"10.1.0.1:9":                       "api.shop.svc.cluster.local:9",
		"api.shop.svc.clusterset.local:90": "api-clusterset.shop.svc.cluster.local:90",
		"api.shop.svc.clusterset.local":    "api-clusterset.shop.svc.cluster.local:8080", // of a derived Service
		"api.shop.svc.clusterset.local.":   "api-clusterset.shop.svc.cluster.local:8080",
		"::ffff:10.1.0.1":                  "api.shop.svc.cluster.local:8080",
		"[::ffff:10.1.0.1]:9":              "api.shop.svc.cluster.local:9",
	} {
		if got, err := a.explainHandler().authority(text); got != want || err != nil {
			t.Errorf("%q: %q, %v, want %q", text, got, err, want)
		}
	}
	for text, want := range map[string]string{
		"web":     `"web" is not a service name in the cluster domain cluster.local: use NAMESPACE/NAME`,
		"a.b.c":   "is not a service",
		"web.svc": "is not a service", "a/b/c": "is not a service",
		"/web": "is not a service", "shop/": "is not a service", "shop/a.b": "is not a service",
		"web.shop.svc.other.org:80": "is not a service name in the cluster domain cluster.local",
		"":                          "is not a service",
		"fe80::1%eth0":              "is not a service",
		"shop/multi":                "shop/multi has several ports: add one of :81, :82, such as shop/multi:81",
		"web.shop.svc.clusterset.local:80": "no Service is written for ServiceImport shop/web, " +
			"so its clients receive no endpoints",
		"a.b.api.shop.svc.clusterset.local":                        "is not a service name in the cluster domain",
		"shop.svc.clusterset.local":                                "is not a service name in the cluster domain",
		strings.Repeat("x", 10_000) + ".shop.svc.clusterset.local": "no Service is written for ServiceImport shop/xxx",
		"10.0.0.1:80": "10.0.0.1 belongs to Pod shop/web-1 in the local cluster, not to a Service",
		"10.9.9.9":    "10.9.9.9 is neither a Service's cluster IP",
		"10.1.0.9": "several objects in the local cluster claim 10.1.0.9: 2 Services with " +
			"cluster IP 10.1.0.9",
		"[fd00::1]:80":              "fd00::1 is neither a Service's cluster IP",
		strings.Repeat("x", 10_000): strings.Repeat("x", maxRepeated) + "…",
	} {
		if got, err := a.explainHandler().authority(text); err == nil || !strings.Contains(err.Error(), want) ||
			len(err.Error()) > 1000 {
			t.Errorf("%q: %q, %v, want %q", text, got, err, want)
		}
	}
}
