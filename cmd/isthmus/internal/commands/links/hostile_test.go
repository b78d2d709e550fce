package links

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// endless responds with JSON that starts with begin and repeats again, up to size bytes.
func endless(status int, begin, again string, size int) http.HandlerFunc {
	return ending(status, begin, again, size, "")
}

// ending is like endless, but appends end.
func ending(status int, begin, again string, size int, end string) http.HandlerFunc {
	part := strings.Repeat(again, 1+1<<20/len(again))
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		io.WriteString(w, begin)
		for sent := 0; sent < size; sent += len(part) {
			if _, err := io.WriteString(w, part); err != nil {
				return
			}
		}
		io.WriteString(w, end)
	}
}

// aliases responds with a ConfigMap whose YAML aliases expand to gigabytes.
func aliases(w http.ResponseWriter, _ *http.Request) {
	values := "a: &a " + strings.Repeat("x", 100<<10) + "\nb: [" + strings.Repeat("*a, ", 30<<10) +
		"]\nclusterDomain: b.test\nidentityTrustDomain: a.test\n"
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(&corev1.ConfigMap{Data: map[string]string{"values": values}})
}

// TestHostileCluster checks that no response of a cluster makes a command use more than a fixed
// amount of memory.
func TestHostileCluster(t *testing.T) {
	const system, config = "GET /api/v1/namespaces/kube-system",
		"GET /api/v1/namespaces/linkerd/configmaps/linkerd-config"
	for name, c := range map[string]struct {
		verb, path string
		answer     http.HandlerFunc
		want       string
	}{
		"endless object": {"link", system, endless(200, `{"metadata":{"name":"`, "x", 400<<20),
			"the response is larger than 1 MiB"},
		"endless error": {"link", system, endless(403, `{"message":"`, "x", 400<<20),
			"you are not allowed to read namespace kube-system"},
		"large list": {"link", "GET " + tokens, ending(200, `{"items":[`, "{},", 33_000_000, "{}]}"),
			"too many elements"},
		"large list to revoke": {"unlink", "GET " + tokens, ending(200, `{"items":[`, "{},", 33_000_000, "{}]}"),
			"too many elements"},
		"pages without end": {"unlink", "GET " + tokens, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			io.WriteString(w, `{"metadata":{"continue":"more"},"items":[{}]}`)
		}, "there are more than 4000"},
		"aliases": {"link", config, aliases, "reads east"},
		"endless token": {"link", "POST " + tokens, endless(201, `{"data":{"token":"`, "x", 400<<20),
			"the response is larger than 1 MiB"},
	} {
		t.Run(name, func(t *testing.T) {
			kubeconfig, _, _ := hostileWorld(t, map[string]http.HandlerFunc{c.path: c.answer})
			args := []string{"link", "east", "--apply", "--dry-run"}
			if name == "endless token" {
				args = args[:2]
			}
			if c.verb == "unlink" {
				args = []string{"unlink", "east", "--revoke", "--yes"}
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, out, errs := call(t, append(args, "--context", "east", "--kubeconfig", kubeconfig, "--timeout", "1m")...)
			runtime.ReadMemStats(&after)
			if !strings.Contains(out+errs, c.want) || len(out+errs) > 100<<10 {
				t.Errorf("%s is missing in %.1000s%.1000s", c.want, out, errs)
			}
			if took := (after.TotalAlloc - before.TotalAlloc) >> 20; took > 200 {
				t.Errorf("%d MiB were allocated", took)
			}
			if strings.Contains(out+errs, "SECRET") {
				t.Errorf("the output contains a token: %s%s", out, errs)
			}
		})
	}
}

// TestHostileTry checks that the new token is sent only to the link's own server, over TLS. A
// server that this server names receives no token.
func TestHostileTry(t *testing.T) {
	for name, plain := range map[string]bool{"a redirect": false, "plain HTTP": true} {
		t.Run(name, func(t *testing.T) {
			other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				t.Errorf("%s %s with token %q", r.Method, r.URL.Path, r.Header.Get("Authorization"))
			}))
			defer other.Close()
			kubeconfig, _, config := hostileWorld(t, map[string]http.HandlerFunc{
				"POST /apis/authentication.k8s.io/v1/selfsubjectreviews": func(w http.ResponseWriter, r *http.Request) {
					http.Redirect(w, r, other.URL, http.StatusPermanentRedirect)
				},
			})
			server := config.Clusters["east"].Server
			want := "responded with unexpected status 308"
			if plain {
				server, want = other.URL, "tokens are never sent over plain HTTP"
			}
			_, out, errs := call(t, "link", "east", "--context", "east", "--kubeconfig", kubeconfig, "--server", server)
			if !strings.Contains(errs, "cannot test the link from this machine") || !strings.Contains(errs, want) ||
				!strings.Contains(out, "token: NEW") {
				t.Errorf("%s\n%s", out, errs)
			}
		})
	}
}

// TestWrongAuthority checks that the error names the issuer of the server's certificate.
func TestWrongAuthority(t *testing.T) {
	kubeconfig, _, config := hostileWorld(t, nil)
	config.Clusters["east"].CertificateAuthorityData = nil // use the certificate authorities of this machine
	write(t, kubeconfig, config)
	code, _, errs := call(t, "link", "east", "--context", "east", "--kubeconfig", kubeconfig)
	if want := "the issuer O=Acme Co is not the certificate authority in the kubeconfig"; code != 1 ||
		!strings.Contains(errs, want) {
		t.Errorf("exit code %d, %s", code, errs)
	}
}
