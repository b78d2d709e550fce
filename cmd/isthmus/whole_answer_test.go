package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestWholeAnswer: an answer is sent as it was made, and one that is too large is neither kept nor sent.
func TestWholeAnswer(t *testing.T) {
	for name, c := range map[string]struct {
		make func(http.ResponseWriter)
		code int
		body string
	}{
		"nothing":     {func(http.ResponseWriter) {}, 200, ""},
		"a text":      {func(w http.ResponseWriter) { _, _ = w.Write([]byte("all ")); _, _ = w.Write([]byte("of it")) }, 200, "all of it"},
		"an error":    {func(w http.ResponseWriter) { http.Error(w, "no", http.StatusBadRequest) }, 400, "no\n"},
		"two codes":   {func(w http.ResponseWriter) { w.WriteHeader(404); w.WriteHeader(500) }, 404, ""},
		"the largest": {func(w http.ResponseWriter) { _, _ = w.Write(make([]byte, maxWhole)) }, 200, strings.Repeat("\x00", maxWhole)},
		"a byte more": {func(w http.ResponseWriter) { _, _ = w.Write(make([]byte, maxWhole)); _, _ = w.Write([]byte("1")) }, 507, "ask for less\n"},
	} {
		got := httptest.NewRecorder()
		a := &wholeAnswer{header: got.Header()}
		c.make(a)
		if a.over && len(a.pieces) > 0 {
			t.Errorf("%s: %d pieces are kept", name, len(a.pieces))
		}
		if a.send(got, "ask for less"); got.Code != c.code || got.Body.String() != c.body {
			t.Errorf("%s: %d %.40q, want %d", name, got.Code, got.Body, c.code)
		}
	}
}
