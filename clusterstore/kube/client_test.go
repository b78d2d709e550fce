package kube

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
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

// TestNoRedirect checks that a client follows no redirect, so that no other server gets a request
// or credentials.
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

// TestNoProxyForLinks checks that only the client of the local cluster uses the proxy of the
// environment.
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

// TestHostileError checks that the text of a server is cut to a maximum length and has no control
// characters.
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

// TestTokenIsWithheld checks that no error shows a token that a server sends back. A cut text does
// not end with a part of the token either.
func TestTokenIsWithheld(t *testing.T) {
	for _, token := range []string{"s3cret", `s3"cr\et`} {
		c := &Client{config: &rest.Config{BearerToken: token}}
		for _, err := range []error{
			fmt.Errorf("you sent %s", token), fmt.Errorf("you sent %q", token),
			fmt.Errorf("%s %s", strings.Repeat("x", 480), token),
		} {
			if text := c.Printable(err).Error(); strings.Contains(text, "s3") || !strings.Contains(text, "[token]") {
				t.Errorf("%v became %q", err, text)
			}
		}
	}
	if err := (&Client{config: &rest.Config{BearerToken: "s3cret"}}).Printable(
		apierrors.NewUnauthorized("no s3cret"),
	); !apierrors.IsUnauthorized(err) || err.Error() != "no [token]" {
		t.Errorf("a refusal became %v", err)
	}
	plain := errors.New("connection refused")
	if withoutToken(plain, "token") != plain || withoutToken(plain, "") != plain {
		t.Error("a plain error was changed")
	}
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestRetryAfter checks that a client sends each request once, even if the response contains
// Retry-After. Errors of Sources have the requested pause. client-go, which writes Leases, does not
// wait.
func TestRetryAfter(t *testing.T) {
	fromSources := map[string]bool{"watch": true, "watch of a custom resource": true, "list": true}
	for _, code := range []int{http.StatusTooManyRequests, http.StatusServiceUnavailable} {
		for verb, request := range verbs {
			t.Run(fmt.Sprint(code, " ", verb), func(t *testing.T) {
				t.Parallel()
				var requests atomic.Int32
				server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					requests.Add(1)
					w.Header().Set("Retry-After", "30")
					w.WriteHeader(code)
				}))
				defer server.Close()
				c := newClient(t, federation.Local, &rest.Config{Host: server.URL}, nil)
				defer c.Close()
				err := request(t.Context(), c)
				seconds, _ := apierrors.SuggestsClientDelay(err)
				if n := requests.Load(); err == nil || n != 1 || fromSources[verb] != (seconds == 30) {
					t.Errorf("%d requests and a pause of %d s: %v", n, seconds, err)
				}
			})
		}
	}
}

const (
	withServers = `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"policy.linkerd.io/v1beta3",` +
		`"resources":[{"name":"httproutes"},{"name":"servers"}]}`
	withoutServers = `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"policy.linkerd.io/v1beta3",` +
		`"resources":[{"name":"servers/status"}]}`
	groupList = `{"kind":"APIGroupList","apiVersion":"v1","groups":[{"name":"policy.linkerd.io",` +
		`"versions":[{"groupVersion":"policy.linkerd.io/%s","version":"v1"}]}]}`
	notFoundStatus = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`
)

// TestServes checks that a resource counts as absent only if API discovery returns valid responses
// without the resource.
func TestServes(t *testing.T) {
	type answer struct {
		code int
		text string
	}
	groups := func(version string) answer { return answer{200, fmt.Sprintf(groupList, version)} }
	const list = "/apis/policy.linkerd.io/v1beta3"
	for name, c := range map[string]struct {
		groups, version answer // version has the resources of v1beta3
		serves, unknown bool
		asked           string // requested paths except /apis
	}{
		"there":            {groups("v1beta3"), answer{200, withServers}, true, false, list},
		"another resource": {groups("v1beta3"), answer{200, withoutServers}, false, false, list},
		"no resources": {
			groups("v1beta3"),
			answer{
				200,
				`{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"policy.linkerd.io/v1beta3",` +
					`"resources":null}`,
			},
			false,
			false,
			list,
		},
		"another version":         {groups("v1beta4"), answer{}, false, false, ""},
		"an older version":        {groups("v1beta2"), answer{}, false, true, "/apis/policy.linkerd.io/v1beta2"},
		"a contradiction":         {groups("v1beta3"), answer{404, notFoundStatus}, false, true, list},
		"everything is not found": {answer{404, notFoundStatus}, answer{}, false, true, ""},
		"no groups": {
			answer{200, `{"kind":"APIGroupList","apiVersion":"v1","groups":[]}`},
			answer{},
			false,
			true,
			"",
		},
		"resources for groups": {answer{200, withServers}, answer{}, false, true, ""},
		"forbidden":            {groups("v1beta3"), answer{403, "{}"}, false, true, list},
		"groups are forbidden": {answer{403, "{}"}, answer{}, false, true, ""},
		"another kind": {
			groups("v1beta3"),
			answer{200, `{"kind":"Status","apiVersion":"v1","status":"Success"}`},
			false,
			true,
			list,
		},
		"a list of another version": {
			groups("v1beta3"),
			answer{200, `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"v1","resources":[]}`},
			false,
			true,
			list,
		},
		"a web page": {answer{200, "<html>"}, answer{}, false, true, ""},
		"nothing":    {answer{200, ""}, answer{}, false, true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			asked := ""
			client := hostileClient(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				is := c.groups
				if r.URL.Path != "/apis" {
					asked += r.URL.Path
					is = answer{404, notFoundStatus}
				}
				if r.URL.Path == list {
					is = c.version
				}
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(is.code)
				_, _ = w.Write([]byte(is.text))
			}), false)
			const group = "policy.linkerd.io"
			serves, err := client.Sources.Serves(
				t.Context(),
				"servers",
				schema.GroupVersion{Group: group, Version: "v1beta3"},
				schema.GroupVersion{Group: group, Version: "v1beta2"},
			)
			if serves != c.serves || (err != nil) != c.unknown || asked != c.asked {
				t.Errorf("%v, %v; requested %s", serves, err, asked)
			}
		})
	}
}
