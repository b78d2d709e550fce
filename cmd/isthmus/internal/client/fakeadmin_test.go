package client

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// startAdmin serves pages for one test, by their path, at noon, and returns its address.
func startAdmin(t *testing.T, pages map[string]http.HandlerFunc) string {
	t.Helper()
	mux := http.NewServeMux()
	for path, page := range pages {
		mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Date", noon.Format(http.TimeFormat))
			page(w, r)
		})
	}
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://")
}

// shown returns what is wanted of a verb, written for noon and for the address ADMIN.
func shown(want, admin string) string {
	return strings.NewReplacer("12:00:00.000", noon.Local().Format("15:04:05.000"), "ADMIN", admin).Replace(want)
}

func text(s string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, s) }
}

// before returns the time that was so long before noon, as JSON.
func before(d time.Duration) string { return noon.Add(-d).Format(`"2006-01-02T15:04:05Z"`) }
