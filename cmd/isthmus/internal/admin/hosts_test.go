package admin

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"
)

func testHosts() *Hosts {
	return NewHosts("Cluster.Local", "linkerd", []string{"gateway.example.com"})
}

func TestAdminHosts(t *testing.T) {
	h := testHosts()
	for _, host := range []string{
		"127.0.0.1", "127.0.0.1:9996", "10.1.2.3:80", "[::1]", "[::1]:9996", "::1", "[fe80::1%eth0]:9996",
		"[2001:db8::1]:9996",
		"localhost", "localhost:9996", "LOCALHOST:", "localhost.", "gateway", "gateway:9996", "my_machine",
		"isthmus.linkerd", "isthmus.linkerd:9996", "isthmus.linkerd.svc", "isthmus.linkerd.svc.cluster.local:9996",
		"Isthmus.Linkerd.SVC.Cluster.LOCAL.",
		"10-1-2-3.linkerd.pod.cluster.local", "gateway.example.com", "Gateway.Example.com.:443",
	} {
		if !h.admit(host) {
			t.Errorf("%q is rejected", host)
		}
	}
	for _, host := range []string{
		"", ":9996", ".", "..", "evil.example", "evil.example:9996", "evil.example.", "example.com",
		"x.gateway.example.com", "gateway.example.com.evil.example",
		"127.0.0.1.evil.example", "127.0.0.1.evil.example:9996", "[evil.example]:80", "[evil.example",
		"localhost.evil.example", "evil.linkerd.example",
		"evilsvc.example", "evil.cluster.local.example", "evil.example#.svc", "evil.example/.svc",
		"evil.example\x00.svc", "user@evil.svc", "a:b:c", "1.2.3.4.5",
	} {
		if h.admit(host) {
			t.Errorf("%q is admitted", host)
		}
	}
}

// TestAdminRefuses checks that requests that another site's page causes are rejected. Requests of
// kubelets and Prometheus are accepted.
func TestAdminRefuses(t *testing.T) {
	a, _ := newAdmin(true)
	a.hosts = testHosts()
	h := a.Handler()
	ask := func(path, host string, header ...string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(http.MethodGet, path, nil)
		r.Host = host
		for i := 0; i < len(header); i += 2 {
			r.Header.Set(header[i], header[i+1])
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w
	}
	for _, path := range []string{"/", "/debug/clusters", "/debug/pprof/", "/page/main.js", "/none", "//metrics"} {
		if w := ask(path, "evil.example:9996"); w.Code != http.StatusForbidden ||
			!strings.Contains(w.Body.String(), "--admin-hosts") ||
			!strings.Contains(w.Body.String(), `"evil.example:9996"`) {
			t.Errorf("%s with another host name: %d %s", path, w.Code, w.Body)
		}
		if w := ask(
			path,
			"localhost:9996",
			"Sec-Fetch-Site",
			"cross-site",
			"Sec-Fetch-Mode",
			"no-cors",
			"Sec-Fetch-Dest",
			"image",
		); w.Code != http.StatusForbidden {
			t.Errorf("%s from another site: %d", path, w.Code)
		}
	}
	for _, path := range []string{"/metrics", "/ping", "/ready"} {
		if w := ask(path, "evil.example:9996", "Sec-Fetch-Site", "cross-site"); w.Code == http.StatusForbidden {
			t.Errorf("%s is rejected: %s", path, w.Body)
		}
	}
	for name, header := range map[string][]string{
		"no browser": nil, "own page": {
			"Sec-Fetch-Site",
			"same-origin",
			"Sec-Fetch-Mode",
			"cors",
		}, "typed": {"Sec-Fetch-Site", "none"},
		"link": {"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"},
	} {
		if w := ask("/debug/clusters", "localhost:9996", header...); w.Code != http.StatusOK ||
			w.Header().Get("X-Content-Type-Options") != "nosniff" ||
			w.Header().Get("Cross-Origin-Resource-Policy") != "same-origin" {
			t.Errorf("%s: %d %v", name, w.Code, w.Header())
		}
	}
	frame := []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "iframe"}
	if w := ask("/debug/clusters", "localhost:9996", frame...); w.Code != http.StatusForbidden {
		t.Errorf("in a frame of another site: %d", w.Code)
	}
}

func TestParseAdminHosts(t *testing.T) {
	if got, err := ParseHosts(" Gateway.example.com, g2,"); err != nil ||
		!slices.Equal(got, []string{"gateway.example.com", "g2"}) {
		t.Errorf("%q, %v", got, err)
	}
	for _, bad := range []string{"https://x.example", "x.example:80", "*", "*.example.com", "a b", ".example.com"} {
		if _, err := ParseHosts(bad); err == nil || !strings.Contains(err.Error(), "comma-separated DNS names") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// FuzzAdminHosts checks that an admitted host is an address, has no dot, or has an admitted suffix.
func FuzzAdminHosts(f *testing.F) {
	for _, host := range []string{
		"",
		"[::1]:80",
		"localhost:9996",
		"evil.example",
		"x.svc.",
		"[fe80::1%25eth0]",
		"a:b:c",
		"gateway.example.com:1",
		"\x00.svc",
	} {
		f.Add(host)
	}
	h := testHosts()
	f.Fuzz(func(t *testing.T, host string) {
		if !h.admit(host) {
			return
		}
		name := hostName(host)
		if _, err := netip.ParseAddr(name); err == nil || name == "gateway.example.com" {
			return
		}
		if strings.ContainsAny(name, ":/@[]\x00 ") ||
			strings.Contains(name, ".") && !strings.HasSuffix(name, ".svc") && !strings.HasSuffix(name, ".linkerd") &&
				!strings.HasSuffix(name, ".cluster.local") {
			t.Errorf("%q is admitted as %q", host, name)
		}
	})
}
