package reach

import (
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"isthmus/clusterstore/kube"
	"isthmus/federation"
)

// TestCredentials checks credentials that a replica rejects in link Secrets. The credentials work
// in a user's kubeconfig, as in kubectl. Examples are programs, files, impersonation and a proxy.
func TestCredentials(t *testing.T) {
	var mu sync.Mutex
	var token, user string
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		token, user = r.Header.Get("Authorization"), r.Header.Get("Impersonate-User")
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w,
			`{"kind":"PodList","apiVersion":"v1","items":[{"metadata":{"namespace":"linkerd","name":"p"},`+
				`"status":{"conditions":[{"type":"Ready","status":"True"}]}}]}`)
	}))
	defer server.Close()
	proxied := 0
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		proxied++
		mu.Unlock()
		there, err := net.Dial("tcp", r.Host)
		if err != nil {
			t.Error(err)
			return
		}
		defer there.Close()
		w.WriteHeader(http.StatusOK)
		here, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer here.Close()
		go func() { io.Copy(there, here); there.Close() }()
		io.Copy(here, there)
	}))
	defer proxy.Close()
	ca := base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE",
		Bytes: server.Certificate().Raw}))
	program := `{"exec":{"apiVersion":"client.authentication.k8s.io/v1","interactiveMode":"Never",` +
		`"command":"sh","args":["-c",` +
		`"echo '{\"kind\":\"ExecCredential\",\"apiVersion\":\"client.authentication.k8s.io/v1\",` +
		`\"status\":{\"token\":\"FROM-EXEC\"}}'"]}}`
	for name, c := range map[string]struct{ user, token, as string }{
		"a program":     {program, "Bearer FROM-EXEC", ""},
		"a file":        {fmt.Sprintf(`{"tokenFile":%q}`, write(t, "FROM-FILE")), "Bearer FROM-FILE", ""},
		"impersonation": {`{"token":"SECRET","as":"somebody"}`, "Bearer SECRET", "somebody"},
	} {
		t.Run(name, func(t *testing.T) {
			text := strings.NewReplacer(`{"token":"SECRET"}`, c.user, `{"server"`,
				fmt.Sprintf(`{"certificate-authority-data":%q,"proxy-url":%q,"server"`, ca,
					proxy.URL)).Replace(kubeconfig(server.URL))
			cluster, err := (&Options{Kubeconfig: write(t, text), Namespace: "linkerd"}).Open()
			if err != nil {
				t.Fatal(err)
			}
			replicas, err := cluster.Replicas(t.Context())
			cluster.Close()
			mu.Lock()
			defer mu.Unlock()
			if err != nil || len(replicas) != 1 || token != c.token || user != c.as || proxied == 0 {
				t.Errorf("%v, %v, token %q, user %q, %d connections through the proxy", replicas, err, token, user,
					proxied)
			}
			proxied = 0
		})
	}
}

// TestConfigIsGuarded checks that clients with their own limits send no token over plain HTTP and
// limit the size of responses.
func TestConfigIsGuarded(t *testing.T) {
	ask := func(config *rest.Config) error {
		client, err := kube.New(federation.Local, config, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		if err := client.AddTyped(); err != nil {
			t.Fatal(err)
		}
		_, err = client.ConfigMaps("linkerd").Get(t.Context(), "x", metav1.GetOptions{})
		return err
	}
	plain := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("%s with token %q", r.URL.Path, r.Header.Get("Authorization"))
	}))
	defer plain.Close()
	config := open(t, plain.URL).Config()
	config.BearerToken = "SECRET" // client-go ignores the kubeconfig's token for plain HTTP
	if err := ask(config); err == nil || !strings.Contains(err.Error(), "plain HTTP") {
		t.Error(err)
	}
	large := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, `{"gitVersion":"`+strings.Repeat("x", 2<<20)+`"}`)
	}))
	defer large.Close()
	text := strings.Replace(kubeconfig(large.URL), `{"server"`, `{"insecure-skip-tls-verify":true,"server"`, 1)
	c, err := (&Options{Kubeconfig: write(t, text), Namespace: "linkerd"}).Open()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := ask(c.Config()); err == nil || !strings.Contains(err.Error(), "larger than 1 MiB") {
		t.Errorf("%.300v", err)
	}
}
