package main

import (
	"context"
	"encoding/json"
	"iter"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"isthmus/clusterstore"
	"isthmus/clusterstore/cluster"
	"isthmus/federation"
	"isthmus/grpcapi"
)

// explained is a source with one slice, and what it leaves out.
type explained struct {
	*offers
	left []federation.Considered
}

func (x explained) Explain(federation.ServiceID, uint16) iter.Seq[federation.Considered] {
	return slices.Values(x.left)
}

// nowhere is a Directory of no nodes and no profiles.
type nowhere struct{}

func (nowhere) Zone(string) (string, <-chan struct{})                                { return "z1", nil }
func (nowhere) Profile(federation.ProfileKey) *federation.Watch[*federation.Profile] { return nil }

const hostile = "\x1b[31m</script><b>\u009b\u202e\xff\n"

// newExplainedGateway returns a page over a table with web, federated over here and east.
func newExplainedGateway(t testing.TB) http.Handler {
	t.Helper()
	table := federation.NewTable(federation.Options{})
	web := federation.ServiceID{Namespace: "shop", Name: "web"}
	table.Link(federation.Local, federation.Ready, newOffers(federation.Local, "web", "10.0.0.1:80"))
	table.Link("east", federation.Ready, explained{newOffers("east", "web", "10.0.0.1:80", "10.1.0.1:80"), []federation.Considered{
		{Slice: "shop/web-x", Text: hostile, Target: hostile, Verdict: federation.UnusableText, Detail: hostile},
		{Slice: "shop/web-x", Addr: netip.MustParseAddrPort("10.1.0.2:0"), Target: "Pod shop/web-2", Verdict: federation.Terminating},
		{Slice: "shop/web-y", Text: strings.Repeat("<", 1<<20), Target: strings.Repeat("<", 1<<20), Verdict: federation.UnusableText, Changed: time.Unix(1e9, 0).UTC()},
	}})
	table.Link("north", federation.Unreachable, nil)
	d := &federation.Definition{Federated: true}
	for _, c := range []federation.ClusterName{federation.Local, "east", "north"} {
		d.Members = append(d.Members, federation.Member{Cluster: c, Service: web})
	}
	table.Define(web, d)
	api, err := grpcapi.New(table, nowhere{}, grpcapi.Options{Linger: -1})
	if err != nil {
		t.Fatal(err)
	}
	return (&explainer{
		authorities: *someAuthorities(), explain: api.Explain,
		clusters: func() map[federation.ClusterName]cluster.Status {
			return statusByCluster(cluster.Status{State: cluster.Ready}, []clusterstore.LinkStatus{
				{Cluster: "north", Status: cluster.Status{State: cluster.Rejected}},
				{Cluster: "north", Status: cluster.Status{State: cluster.Unreachable, Reason: "dial" + hostile}},
			})
		},
		problems: func(id federation.ServiceID) []string { return []string{"about " + id.String()} },
	}).handler()
}

func getExplain(h http.Handler, query url.Values) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/debug/explain?"+query.Encode(), nil))
	return w
}

// TestExplainPage: what the page has, field by field, since programs read it.
func TestExplainPage(t *testing.T) {
	h := newExplainedGateway(t)
	w := getExplain(h, url.Values{"authority": {"web.shop.svc.cluster.local:80"}, "token": {`{"ns":"shop","nodeName":"n1"}`}})
	if w.Code != http.StatusOK || w.Header().Get("Content-Type") != "application/json" || w.Header().Get("X-Content-Type-Options") != "nosniff" {
		t.Fatalf("%d %v %s", w.Code, w.Header(), w.Body)
	}
	if i := strings.IndexFunc(w.Body.String(), func(r rune) bool { return !unicode.IsPrint(r) && r != '\n' || r == '<' }); i >= 0 {
		t.Errorf("the page has %q", w.Body.String()[i:min(i+20, w.Body.Len())])
	}
	var page map[string]any
	if err := json.Unmarshal(w.Body.Bytes(), &page); err != nil {
		t.Fatal(err)
	}
	if want := []string{"addresses", "authority", "client", "defined", "federated", "members", "problems", "set", "streams", "verdicts"}; !slices.Equal(slices.Sorted(maps.Keys(page)), want) {
		t.Errorf("fields %q", slices.Sorted(maps.Keys(page)))
	}
	text := func(field string) string { b, _ := json.Marshal(page[field]); return string(b) }
	const odd = `\ufffd[31m\u003c/script\u003e\u003cb\u003e\ufffd\ufffd\ufffd\ufffd`
	for field, want := range map[string]string{
		"client":   `{"namespace":"shop","node":"n1","zone":"z1"}`,
		"problems": `["about shop/web"]`,
		"verdicts": `{"served":2,"taken":1,"terminating":1,"unusable-text":2}`,
		"set":      `{"complete":true,"endpoints":2,"version":1}`,
		"streams":  `[]`,
		"members": `[{"cluster":"local","ports":[80],"service":"shop/web","standing":"in-service","state":"ready","updates":0},` +
			`{"cluster":"east","ports":[80],"service":"shop/web","standing":"in-service","state":"ready","updates":0},` +
			`{"cluster":"north","ports":[],"reason":"cluster is unreachable: dial` + odd + `","service":"shop/web","standing":"in-service","state":"unreachable","updates":0}]`,
		"addresses": `[{"address":"10.0.0.1:80","cluster":"local","service":"shop/web","slice":"","verdict":"served"},` +
			`{"address":"10.0.0.1:80","cluster":"east","detail":"clients get it from shop/web@local, slice ","service":"shop/web","slice":"","verdict":"taken"},` +
			`{"address":"10.1.0.1:80","cluster":"east","service":"shop/web","slice":"","verdict":"served"},` +
			`{"address":"` + odd + `","cluster":"east","detail":"` + odd + `","service":"shop/web","slice":"shop/web-x","target":"` + odd + `","verdict":"unusable-text"},` +
			`{"address":"10.1.0.2","cluster":"east","service":"shop/web","slice":"shop/web-x","target":"Pod shop/web-2","verdict":"terminating"},` +
			`{"address":"` + strings.Repeat(`\u003c`, maxRepeated) + `…","changed":"2001-09-09T01:46:40Z","cluster":"east","service":"shop/web","slice":"shop/web-y","target":"` +
			strings.Repeat(`\u003c`, maxRepeated) + `…","verdict":"unusable-text"}]`,
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
	if err := json.Unmarshal(w.Body.Bytes(), &page); err != nil || page["defined"] != false || !strings.HasPrefix(page["refused"].(string), "NotFound: ") {
		t.Errorf("no such service: %s, %v", w.Body, err)
	}
}

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
	late := &explainer{authorities: *someAuthorities(), explain: func(ctx context.Context, _ grpcapi.Question) (*grpcapi.Explanation, error) {
		if _, ok := ctx.Deadline(); !ok {
			t.Error("an explanation may take any time")
		}
		return nil, status.Error(codes.DeadlineExceeded, "too much")
	}}
	if w := getExplain(late.handler(), url.Values{"authority": {"shop/web"}}); w.Code != http.StatusServiceUnavailable || w.Body.String() != "too much\n" {
		t.Errorf("too late: %d %s", w.Code, w.Body)
	}
}

// TestExplainsAreBounded: one is answered at a time. Others wait their turn, and get 429 after
// some time.
func TestExplainsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow, codes := make(chan struct{}), make(chan int, 10)
		running := 0
		h := (&explainer{authorities: *someAuthorities(), explain: func(context.Context, grpcapi.Question) (*grpcapi.Explanation, error) {
			running++
			<-slow
			return nil, status.Error(13, "done")
		}}).handler()
		request := func() { codes <- getExplain(h, url.Values{"authority": {"shop/web"}}).Code }
		for range maxExplains + 2 {
			go request()
			synctest.Wait()
		}
		if running != maxExplains || len(codes) > 0 {
			t.Fatalf("%d run, %d have been answered", running, len(codes))
		}
		slow <- struct{}{} // the next one begins
		synctest.Wait()
		if code := <-codes; code != http.StatusServiceUnavailable || running != maxExplains+1 {
			t.Errorf("%d, %d have run", code, running)
		}
		time.Sleep(explainWait)
		synctest.Wait()
		if len(codes) != 1 || <-codes != http.StatusTooManyRequests {
			t.Error("the last one was not refused")
		}
		close(slow)
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
		for range maxExplainClients - 1 {
			w := untaken{httptest.NewRecorder(), taken}
			answers = append(answers, w)
			go h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/debug/explain?authority=shop/web", nil))
			synctest.Wait()
		}
		began := time.Now()
		if w := getExplain(h, url.Values{"authority": {"shop/web"}}); w.Code != http.StatusOK || !time.Now().Equal(began) {
			t.Errorf("%d after %v: %s", w.Code, time.Since(began), w.Body)
		}
		go h.ServeHTTP(untaken{httptest.NewRecorder(), taken}, httptest.NewRequest(http.MethodGet, "/debug/explain?authority=shop/web", nil))
		synctest.Wait()
		if w := getExplain(h, url.Values{"authority": {"shop/web"}}); w.Code != http.StatusTooManyRequests || w.Header().Get("Retry-After") == "" {
			t.Errorf("one more: %d %s", w.Code, w.Body)
		}
		close(taken)
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
	_, text, _ = strings.Cut(text, "Default: ")
	text, _, _ = strings.Cut(text, ".")
	if limit, err := time.ParseDuration(text); err != nil || limit <= explainWait+explainLimit {
		t.Errorf("--timeout is %q, not more than %v (%v)", text, explainWait+explainLimit, err)
	}
}
