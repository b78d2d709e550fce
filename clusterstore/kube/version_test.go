package kube

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/client-go/rest"
)

// TestVersion: an API server's version, and nothing of what
// it has to say besides.
func TestVersion(t *testing.T) {
	for _, c := range []struct {
		status        int
		body          string
		version, want string
	}{
		{200, `{"gitVersion":"v1.36.3"}`, "v1.36.3", ""},
		{200, `{"gitVersion":"` + strings.Repeat("v", 500) + `"}`, strings.Repeat("v", 77) + "…", ""},
		{200, `{}`, "", "is not that of an API server"},
		{200, `<html>secret`, "", "is not that of an API server"},
		{200, `{"gitVersion":"` + strings.Repeat("v", maxVersion) + `"}`, "", "is not that of an API server"},
		{401, `secret`, "", "401 Unauthorized"},
		{302, ``, "", "302 Found"},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Location", "http://127.0.0.1:1/")
			if r.URL.Path != "/version" || r.Header.Get("Authorization") != "Bearer secret" {
				t.Errorf("asked for %s", r.URL)
			}
			w.WriteHeader(c.status)
			io.WriteString(w, c.body)
		}))
		client, err := New("east", &rest.Config{Host: server.URL, BearerToken: "secret"}, nil)
		if err != nil {
			t.Fatal(err)
		}
		v, err := client.Version(t.Context())
		switch {
		case v != c.version:
			t.Errorf("%d %.30s: %s", c.status, c.body, v)
		case (err == nil) != (c.want == "") || err != nil && (!strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "secret")):
			t.Errorf("%d %.30s: %v, want %q", c.status, c.body, err, c.want)
		}
		client.Close()
		server.Close()
	}
}
