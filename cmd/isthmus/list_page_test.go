package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"isthmus/cmd/isthmus/internal/lists"
	"isthmus/internal/adminapi"
)

// TestListPages: a list is sent once for each snapshot, and lists are views of the pages that there were.
func TestListPages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := adminapi.ServiceLine{Namespace: "shop", Name: "web", Kind: "federated", Serving: 1}
		made := 0
		h := newListPages(func() lists.Content {
			made++
			return lists.Content{Services: []adminapi.ServiceLine{service, {Namespace: "shop", Name: "cart", Kind: "plain"}}}
		}).or(sharedPage(func() any { return "everything" }))
		ask := func(path, etag string) *httptest.ResponseRecorder {
			r := httptest.NewRequest(http.MethodGet, path, nil)
			r.Header.Set("If-None-Match", etag)
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			return w
		}
		first := ask("/debug/services?view=list&q=web", "")
		var list adminapi.ServiceList
		if err := json.Unmarshal(first.Body.Bytes(), &list); err != nil || first.Code != http.StatusOK || first.Header().Get("Content-Type") != "application/json" || list.All != 2 || list.Matching != 1 || list.Lines[0].Name != "web" {
			t.Errorf("%v: %d %s", err, first.Code, first.Body)
		}
		etag := first.Header().Get("ETag")
		if again := ask("/debug/services?view=list&q=web", etag); again.Code != http.StatusNotModified || again.Body.Len() > 0 || again.Header().Get("ETag") != etag || again.Header().Get("Cache-Control") != "no-store" {
			t.Errorf("of the same snapshot: %d %v %s", again.Code, again.Header(), again.Body)
		}
		if other := ask("/debug/clusters?view=list", ""); other.Header().Get("ETag") != etag || made != 1 {
			t.Errorf("the lists are of %d snapshots, %s and %s", made, etag, other.Header().Get("ETag"))
		}
		time.Sleep(2 * time.Second)
		service.Serving = 0
		later := ask("/debug/services?view=list&q=web", etag)
		if later.Code != http.StatusOK || later.Header().Get("ETag") == etag || !strings.Contains(later.Body.String(), `"severity":3`) {
			t.Errorf("of the next snapshot: %d %s", later.Code, later.Body)
		}
		for path, want := range map[string]string{
			"/debug/services":                       `"everything"`,
			"/debug/services?view=all":              `view is "all": give list`,
			"/debug/services?view=list&sort=colour": `sort is "colour": give problems, name`,
			"/debug/services?view=list&show=Get":    `show is "Get": give problems, import`,
			"/debug/services?view=list&limit=0":     `limit is "0": give a number from 1`,
		} {
			code := http.StatusBadRequest
			if path == "/debug/services" {
				code = http.StatusOK
			}
			if w := ask(path, later.Header().Get("ETag")); w.Code != code || !strings.HasPrefix(w.Body.String(), want) || w.Header().Get("ETag") != "" {
				t.Errorf("%s: %d %v %s", path, w.Code, w.Header(), w.Body)
			}
		}
		time.Sleep(time.Hour) // the last snapshot is dropped
	})
}

// TestListThatClientHas: an answer is not made for a client that has it. This one can't be made.
func TestListThatClientHas(t *testing.T) {
	h := newListPages(func() lists.Content {
		return lists.Content{Events: []adminapi.Event{{At: time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC)}}} // JSON has no such year
	}).or(nil)
	r := httptest.NewRequest(http.MethodGet, "/debug/events?view=list", nil)
	for _, code := range []int{http.StatusInternalServerError, http.StatusNotModified} {
		w := httptest.NewRecorder()
		if h.ServeHTTP(w, r); w.Code != code {
			t.Errorf("%d %s, want %d", w.Code, w.Body, code)
		}
		r.Header.Set("If-None-Match", w.Header().Get("ETag"))
	}
}
