package commands

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"isthmus/internal/adminapi"
)

// startAdmin serves pages for one test, by their path, at noon, and returns its address.
func startAdmin(t *testing.T, pages map[string]http.HandlerFunc) string {
	t.Helper()
	mux := http.NewServeMux()
	for path, page := range pages {
		mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Date", noon.Format(http.TimeFormat))
			w.Header().Set(adminapi.FormatHeader, strconv.Itoa(adminapi.Format))
			page(w, r)
		})
	}
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://")
}

func answer(s string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, s) }
}
