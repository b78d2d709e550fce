package main

import (
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
	"time"
	"unicode"

	"isthmus/clusterstore/cluster"
	"isthmus/federation"
	"isthmus/grpcapi"
)

// explained is a source with one slice, and what it leaves out.
type explained struct {
	*source
	left []federation.Considered
}

func (x explained) Explain(federation.ServiceID, uint16) iter.Seq[federation.Considered] {
	return slices.Values(x.left)
}

const hostile = "\x1b[31m</script><b>\u009b\u202e\xff\n"

// newExplainedGateway returns a page over a table with web, federated over here and east.
func newExplainedGateway(t testing.TB) http.Handler {
	t.Helper()
	table := federation.NewTable(federation.Options{})
	web := shopID("web")
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
	api, err := grpcapi.New(table, directory{}, grpcapi.Options{Linger: -1})
	if err != nil {
		t.Fatal(err)
	}
	s := newShop(table)
	s.linked = linkedShops{
		{Cluster: "north", ClusterStatus: cluster.Status{State: cluster.Rejected}},
		{Cluster: "north", ClusterStatus: cluster.Status{State: cluster.Unreachable, Reason: "dial" + hostile}},
	}
	s.served.explain = api.Explain
	return s.explainHandler()
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
	const odd = `\ufffd[31m\u003c/script\u003e\u003cb\u003e\ufffd\ufffd\ufffd `
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
			`{"address":"` + strings.Repeat(`\u003c`, maxRepeated-3) + `…","changed":"2001-09-09T01:46:40Z","cluster":"east","service":"shop/web","slice":"shop/web-y","target":"` +
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
	if err := json.Unmarshal(w.Body.Bytes(), &page); err != nil || page["defined"] != false || !strings.HasPrefix(page["refused"].(string), "NotFound: ") {
		t.Errorf("no such service: %s, %v", w.Body, err)
	}
}
