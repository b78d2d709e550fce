package links

import (
	"encoding/json"
	"encoding/pem"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// apiServer responds to the requests of commands. The handlers in hostile take precedence for their
// paths.
type apiServer struct {
	name    string
	hostile map[string]http.HandlerFunc // by method and path

	mu    sync.Mutex
	asked []string
}

// requests returns the received requests, by method and path.
func (s *apiServer) requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.asked)
}

func (s *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	sent, _ := io.ReadAll(r.Body)
	what := r.Method + " " + r.URL.Path
	s.mu.Lock()
	s.asked = append(s.asked, what)
	s.mu.Unlock()
	if answer := s.hostile[what]; answer != nil {
		answer(w, r)
		return
	}
	status, answer := http.StatusOK, any(nil)
	switch {
	case what == "GET /api/v1/namespaces/kube-system":
		answer = &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-system", UID: types.UID("uid-" + s.name)}}
	case strings.HasSuffix(what, "/selfsubjectaccessreviews"):
		answer = &authorizationv1.SelfSubjectAccessReview{
			Status: authorizationv1.SubjectAccessReviewStatus{Allowed: true},
		}
	case strings.HasSuffix(what, "/selfsubjectreviews"):
		user := authenticationv1.UserInfo{Username: "system:serviceaccount:linkerd-multicluster:isthmus-remote-access"}
		answer = &authenticationv1.SelfSubjectReview{
			Status: authenticationv1.SelfSubjectReviewStatus{UserInfo: user},
		}
	case what == "POST "+tokens:
		answer = &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: defaultAccount.Namespace, Name: "t1"}}
	case what == "GET "+tokens+"/t1":
		answer = &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "t1"},
			Data: map[string][]byte{"token": []byte("NEW")}}
	case r.Method == http.MethodGet && strings.HasSuffix(what, "/secrets"):
		answer = &corev1.SecretList{}
	case r.Method == http.MethodGet:
		status, answer = http.StatusNotFound,
			&metav1.Status{Status: metav1.StatusFailure, Reason: metav1.StatusReasonNotFound, Code: http.StatusNotFound}
	case r.Method == http.MethodDelete:
		answer = &metav1.Status{Status: metav1.StatusSuccess}
	default:
		answer = json.RawMessage(sent)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(answer)
}

const tokens = "/api/v1/namespaces/linkerd-multicluster/secrets"

// hostileWorld returns a kubeconfig with two clusters. The cluster west is an ordinary cluster, and
// east is hostile.
func hostileWorld(
	t *testing.T, hostile map[string]http.HandlerFunc,
) (kubeconfig string, east *apiServer, config *clientcmdapi.Config) {
	t.Helper()
	config = clientcmdapi.NewConfig()
	config.CurrentContext = "west"
	for _, name := range []string{"west", "east"} {
		api := &apiServer{name: name}
		if name == "east" {
			east, api.hostile = api, hostile
		}
		server := httptest.NewUnstartedServer(api)
		server.Config.ErrorLog = log.New(io.Discard, "", 0)
		server.StartTLS()
		t.Cleanup(server.Close)
		ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
		config.Clusters[name] = &clientcmdapi.Cluster{Server: server.URL, CertificateAuthorityData: ca}
		config.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: "SECRET-" + name}
		config.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	}
	kubeconfig = filepath.Join(t.TempDir(), "config")
	write(t, kubeconfig, config)
	return kubeconfig, east, config
}

func write(t *testing.T, file string, config *clientcmdapi.Config) {
	t.Helper()
	text, err := clientcmd.Write(*config)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

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
			"the answer has more than 1 MiB"},
		"endless error": {"link", system, endless(403, `{"message":"`, "x", 400<<20),
			"you may not read namespace kube-system"},
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
			"the answer has more than 1 MiB"},
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
				t.Errorf("no %s in %.1000s%.1000s", c.want, out, errs)
			}
			if took := (after.TotalAlloc - before.TotalAlloc) >> 20; took > 200 {
				t.Errorf("%d MiB are allocated", took)
			}
			if strings.Contains(out+errs, "SECRET") {
				t.Errorf("a token is shown: %s%s", out, errs)
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
			want := "answers with status 308, which is not followed"
			if plain {
				server, want = other.URL, "plain HTTP, by which no token is sent"
			}
			_, out, errs := call(t, "link", "east", "--context", "east", "--kubeconfig", kubeconfig, "--server", server)
			if !strings.Contains(errs, "the link can't be tried from here") || !strings.Contains(errs, want) ||
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
	if want := "issued by O=Acme Co, which is not the certificate authority that the kubeconfig has"; code != 1 ||
		!strings.Contains(errs, want) {
		t.Errorf("exit code %d, %s", code, errs)
	}
}
