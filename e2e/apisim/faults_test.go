package apisim_test

import (
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"isthmus/internal/apisim"
)

const services = "/api/v1/services"

// TestMisbehave: the ways in which a server refuses, and that they end.
func TestMisbehave(t *testing.T) {
	a, s := newServer(t)
	for _, x := range []struct {
		name   string
		faults apisim.Faults
		query  string
		code   int
		text   string
	}{
		{"none", apisim.Faults{}, "", 200, `"kind":"ServiceList"`},
		{"no token is good", apisim.Faults{Unauthorized: true}, "", 401, `"reason":"Unauthorized"`},
		{"a resource", apisim.Faults{Forbidden: []string{"pods", "services"}}, "", 403, `"reason":"Forbidden"`},
		{"another resource", apisim.Faults{Forbidden: []string{"pods"}}, "", 200, `"kind":"ServiceList"`},
		{"all resources", apisim.Faults{Forbidden: []string{"*"}}, "", 403, `"reason":"Forbidden"`},
		{"failing", apisim.Faults{Failing: 503}, "", 503, `"kind":"Status"`},
		{"an older server", apisim.Faults{NoStreamedLists: true}, "?watch=true&sendInitialEvents=true", 422, `"reason":"Invalid"`},
		{"an older server's list", apisim.Faults{NoStreamedLists: true}, "", 200, `"kind":"ServiceList"`},
		{"none again", apisim.Faults{}, "", 200, `"kind":"ServiceList"`},
		{"an absent resource", apisim.Faults{Absent: []string{"services"}}, "", 404, ""},
		{"a selector", apisim.Faults{}, "?labelSelector=a%3Db", 400, `"reason":"BadRequest"`},
	} {
		s.Misbehave(x.faults)
		if code, text := a.read(services + x.query); code != x.code || !strings.Contains(text, x.text) {
			t.Errorf("%s: %d %s, want %d and %s", x.name, code, text, x.code, x.text)
		}
	}
	s.Misbehave(apisim.Faults{Absent: []string{"servers", "pods"}})
	for path, want := range map[string]string{"/apis/policy.linkerd.io/v1beta3": "404", "/apis/apps/v1": `"name":"replicasets"`, "/api/v1": `"name":"services"`, "/apis": `"name":"apps"`} {
		if code, text := a.read(path); !strings.Contains(strconv.Itoa(code)+text, want) || strings.Contains(text, "policy.linkerd.io") || strings.Contains(text, `"pods"`) {
			t.Errorf("%s: %d %s", path, code, text)
		}
	}
	s.Misbehave(apisim.Faults{})
	s.Revoke("good")
	if code, _ := a.read(services); code != http.StatusUnauthorized {
		t.Errorf("a revoked token: %d", code)
	}
}

// TestCompact: what has happened before can't be asked for any more, neither by lists nor by watches. A watch that is up
// to date goes on.
func TestCompact(t *testing.T) {
	a, s := newServer(t)
	for _, name := range []string{"a", "b", "c"} {
		a.must(s.Put(service(name, "")))
	}
	from := a.version(services)
	page := a.list("page", services+"?limit=1", "", "")
	current := a.watch("up to date", services+"?watch=true&resourceVersion="+from, "")
	a.must(s.Put(service("d", "")))
	current.next(1)
	s.Compact()
	if code, text := a.read(services + "?limit=1&continue=" + page.Metadata.Continue); code != http.StatusGone || !strings.Contains(text, `"reason":"Expired"`) {
		t.Errorf("the next page: %d %s", code, text)
	}
	a.notes = nil
	a.watch("old", services+"?watch=true&resourceVersion="+from, "").next(1)
	a.must(s.Put(service("e", "")))
	current.next(1)
	if len(a.notes) != 3 || !strings.Contains(a.notes[1], "ERROR v1 Status") || !strings.Contains(a.notes[2], "ADDED v1 Service e") {
		t.Errorf("%q", a.notes)
	}
	s.CutWatches()
	current.end()
	if last := a.notes[len(a.notes)-1]; last != "watch up to date: ended: EOF" {
		t.Error(last)
	}
}

// read returns what the server answers.
func (a *api) read(path string) (int, string) {
	a.t.Helper()
	resp := a.get(a.t.Context(), path, "", "")
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		a.t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

// TestEndless: the ways to answer without end, and what is answered as ever.
func TestEndless(t *testing.T) {
	a, s := newServer(t)
	const servers = "/apis/policy.linkerd.io/v1beta3/servers"
	const lists, streams, watches = services + "?limit=1", services + "?watch=true&sendInitialEvents=true", services + "?watch=true&resourceVersion=1"
	for how, endless := range map[apisim.Endless]map[string]bool{
		apisim.EndlessEvent:         {lists: false, streams: true, watches: true},
		apisim.EndlessInitialEvents: {lists: false, streams: true},
		apisim.EndlessPages:         {lists: false, streams: false},
		apisim.EndlessRepeats:       {lists: false, streams: true},
		apisim.EndlessBlanks:        {servers: true, servers + "?watch=true": true},
		apisim.EndlessLists:         {lists: true, streams: false},
		apisim.EndlessElements:      {lists: true, streams: false},
		apisim.EndlessObject:        {lists: false, streams: true, watches: true},
	} {
		s.Misbehave(apisim.Faults{Endless: how})
		for path, want := range endless {
			answer := a.get(t.Context(), path, "", "")
			n, _ := io.CopyN(io.Discard, answer.Body, 1<<20) // fails at the end
			answer.Body.Close()
			if got := n == 1<<20; got != want {
				t.Errorf("%s: %s has %d bytes", how, path, n)
			}
		}
	}
	s.Misbehave(apisim.Faults{Endless: apisim.EndlessPages})
	first, next := a.list("a page", lists, "", ""), a.list("the next page", lists+"&continue=x", "", "")
	s.Misbehave(apisim.Faults{Endless: apisim.EndlessRepeats})
	same, again := a.list("a page", lists, "", ""), a.list("the next page", lists+"&continue=x", "", "")
	if len(same.Items) < 500 || again.Metadata.Continue == "" || same.Items[0].Name != again.Items[0].Name {
		t.Errorf("pages of %d objects, %q and %q", len(same.Items), same.Items[0].Name, again.Items[0].Name)
	}
	if len(first.Items) < 500 || first.Metadata.Continue == "" || next.Metadata.Continue == first.Metadata.Continue {
		t.Errorf("pages of %d objects, %q and %q", len(first.Items), first.Metadata.Continue, next.Metadata.Continue)
	}
}
