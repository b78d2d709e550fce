package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"isthmus/clusterstore/check"
	"isthmus/federation"
)

// TestVerbsHaveAllFields: what the verbs print as JSON is all that the pages have.
func TestVerbsHaveAllFields(t *testing.T) {
	var clusters clustersPage
	fill(reflect.ValueOf(&clusters).Elem())
	services := make([]serviceEntry, 1)
	fill(reflect.ValueOf(&services).Elem())
	explained := explainPage{Addresses: make(explainedEntries, 1)}
	fill(reflect.ValueOf(&explained).Elem())
	pages := map[string]any{"/debug/clusters": clusters, "/debug/services": services, "/debug/explain": explained}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { servePage(w, pages[r.URL.Path]) }))
	defer server.Close()
	for verb, want := range map[string]any{"clusters": clusters, "services": map[string]any{"services": services}, "explain shop/web": explained} {
		code, out, err := call(append(strings.Fields(verb), "-o", "json", "--admin", strings.TrimPrefix(server.URL, "http://"))...)
		if code > 1 {
			t.Fatalf("%s: exit code %d, %s", verb, code, err)
		}
		got, page := map[string]any{}, map[string]any{}
		text, encodeErr := json.Marshal(want)
		if encodeErr != nil {
			t.Fatal(encodeErr)
		}
		for text, into := range map[string]*map[string]any{out: &got, string(text): &page} {
			if err := json.Unmarshal([]byte(text), into); err != nil {
				t.Fatal(err)
			}
		}
		if got["time"] == nil || got["gateway"] == nil {
			t.Errorf("%s: no time or gateway in %s", verb, out)
		}
		delete(got, "time")
		delete(got, "gateway")
		if !reflect.DeepEqual(got, page) {
			t.Errorf("%s prints\n%v\nthe page has\n%v", verb, got, page)
		}
	}
}

// TestVerbKnowsVerdicts: isthmus explain has a sentence for each verdict of the gateway.
func TestVerbKnowsVerdicts(t *testing.T) {
	var entries explainedEntries
	page := explainPage{Authority: "web:80", Verdicts: map[string]int{}}
	for v := range federation.OtherFamily + 1 {
		page.Verdicts[v.String()] = 1
		entries = append(entries, explainedEntry{Address: "10.0.0.1", Verdict: v.String()})
	}
	page.Addresses = entries
	page.Set.Endpoints = 1
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { servePage(w, page) }))
	defer server.Close()
	code, out, err := call("explain", "shop/web", "--admin", strings.TrimPrefix(server.URL, "http://"))
	if code != 0 {
		t.Fatalf("exit code %d, %s", code, err)
	}
	for v := range page.Verdicts {
		line := regexp.MustCompile(`(?m)^.* 10\.0\.0\.1 +` + v + ` .*$`).FindString(out)
		if line == "" || strings.HasSuffix(line, "  "+v) {
			t.Errorf("%s: %q", v, line)
		}
	}
}

// explainedEntries is a pageList of entries that are made already.
type explainedEntries []explainedEntry

func (l explainedEntries) Len() int     { return len(l) }
func (l explainedEntries) At(i int) any { return &l[i] }

// fill gives a value, and all that is in it, something that is not zero.
func fill(v reflect.Value) {
	if v.Type() == reflect.TypeFor[time.Time]() {
		v.Set(reflect.ValueOf(time.Date(2026, 9, 1, 12, 0, 0, 0, time.UTC)))
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString("x")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(7)
	case reflect.Uint16, reflect.Uint64:
		v.SetUint(7)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0))
	case reflect.Interface:
		fill(reflect.ValueOf(v.Interface()).Index(0)) // a list that is there already
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(key)
		fill(value)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i))
		}
	default:
		panic("a field of kind " + v.Kind().String())
	}
}

// TestCheckHasAllFields: the verb reads all that the page of checks has.
func TestCheckHasAllFields(t *testing.T) {
	var page checkPage
	fill(reflect.ValueOf(&page).Elem())
	page.Results[0].Level = check.Warning
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/check", func(w http.ResponseWriter, _ *http.Request) { servePage(w, page) })
	server := httptest.NewServer(mux)
	defer server.Close()
	admin := strings.TrimPrefix(server.URL, "http://")
	code, out, err := call("check", "-o", "json", "--admin", admin)
	var got struct {
		Gateways []struct {
			Version, Replica string
			Leading          bool
		}
		Results []check.Result
	}
	if decodeErr := json.Unmarshal([]byte(out), &got); decodeErr != nil || code != 0 {
		t.Fatalf("%v: exit code %d, %s: %s", decodeErr, code, err, out)
	}
	if len(got.Gateways) != 1 || got.Gateways[0].Version != page.Version || got.Gateways[0].Replica != page.Replica || !got.Gateways[0].Leading {
		t.Errorf("%+v", got.Gateways)
	}
	if !slices.Contains(got.Results, page.Results[0]) {
		t.Errorf("%+v does not have %+v", got.Results, page.Results[0])
	}
}
