package kube

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"

	"isthmus/federation"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestNoRedirect: no other server gets a request, least of all with the credentials.
func TestNoRedirect(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("requested %s with %q", r.URL, r.Header.Get("Authorization"))
	}))
	defer elsewhere.Close()
	var asked atomic.Bool
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") == "Bearer secret" && strings.HasPrefix(r.UserAgent(), "isthmus/") {
			asked.Store(true)
		}
		http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
	}))
	defer server.Close()
	c := newClient(t, "east", &rest.Config{Host: server.URL, BearerToken: "secret"}, nil)
	defer c.Close()
	for name, ask := range verbs {
		if err := ask(t.Context(), c); err == nil {
			t.Errorf("%s: a redirect was followed", name)
		}
	}
	if !asked.Load() {
		t.Error("the server got no request with token and user agent")
	}
}

// TestNoProxyForLinks: the environment's proxy is for the local cluster only.
func TestNoProxyForLinks(t *testing.T) {
	for name, want := range map[federation.ClusterName]bool{federation.Local: true, "east": false} {
		tr, err := newTransport(name, &rest.Config{Host: "https://east"})
		if err != nil {
			t.Fatal(err)
		}
		if got := tr.Proxy != nil; got != want {
			t.Errorf("%v: proxy %v", name, got)
		}
	}
}

// TestHostileError: a server's text is cut off and cleaned.
func TestHostileError(t *testing.T) {
	err := Printable(errors.New(strings.Repeat("line\n\x1b[31m", 1000)))
	if text := err.Error(); len(text) > 500 || strings.ContainsAny(text, "\n\x1b") {
		t.Errorf("%q", text)
	}
	plain := errors.New("connection refused")
	if Printable(plain) != plain {
		t.Error("a plain error was changed")
	}
}

// TestTokenIsWithheld: a token that a server sends back is not shown, not even the part
// of it that a clipped text ends with.
func TestTokenIsWithheld(t *testing.T) {
	for _, token := range []string{"s3cret", `s3"cr\et`} {
		c := &Client{config: &rest.Config{BearerToken: token}}
		for _, err := range []error{
			fmt.Errorf("you sent %s", token), fmt.Errorf("you sent %q", token), fmt.Errorf("%s %s", strings.Repeat("x", 480), token),
		} {
			if text := c.Printable(err).Error(); strings.Contains(text, "s3") || !strings.Contains(text, "[token]") {
				t.Errorf("%v became %q", err, text)
			}
		}
	}
	if err := (&Client{config: &rest.Config{BearerToken: "s3cret"}}).Printable(apierrors.NewUnauthorized("no s3cret")); !apierrors.IsUnauthorized(err) || err.Error() != "no [token]" {
		t.Errorf("a refusal became %v", err)
	}
	plain := errors.New("connection refused")
	if withoutToken(plain, "token") != plain || withoutToken(plain, "") != plain {
		t.Error("a plain error was changed")
	}
}
