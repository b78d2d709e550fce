package faults

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	pb "github.com/linkerd/linkerd2-proxy-api/go/destination"
	corev1 "k8s.io/api/core/v1"

	"isthmus/e2e/harness"
	"isthmus/e2e/harness/kube"
	"isthmus/e2e/proxy"
)

// TestSecretsStaySecret links clusters by credentials that carry a marker wherever a kubeconfig can
// hold something, usable ones and unusable ones, rotates one in use to others that do not work, and
// looks for the marker in everything that the gateway shows about them: its log at the deepest
// level, in both formats, the pages of the admin server and the verbs that read them, the errors
// that proxies get, and what it sends to a collector of traces.
func TestSecretsStaySecret(t *testing.T) {
	inTurn(t)
	sites := startSites(t, "west", "north")
	w := &world{west: sites[0], north: sites[1]}
	must(t, w.west.apply(t.Context(), kube.LinkNamespace))
	must(t, w.north.admit(t.Context(), "marker"))
	token, err := w.north.client().Token(t.Context(), "marker", accountName)
	must(t, err)
	key, err := os.ReadFile(filepath.Join(w.north.cluster().Dir(), "pki", "admin.key"))
	must(t, err)
	links := w.markedLinks(t, token)
	for name, o := range links {
		must(t, w.writeLink(t.Context(), o))
		must(t, w.west.apply(t.Context(), "marker", kube.Mirror("marker", name, name, "far")))
	}
	secrets := map[string]string{
		"the marker":       marker,
		"the token in use": token[len(token)-40:],
		"a client's key":   strings.Split(string(key), "\n")[1],
	}
	for _, format := range []string{"json", "plain"} {
		t.Run(format, func(t *testing.T) {
			shown := w.listen(t, format, links)
			if !strings.Contains(shown["traces"], pb.Destination_Get_FullMethodName[1:]) {
				t.Errorf("the traces contain no call: %q", shown["traces"])
			}
			if len(shown["log"]) < 10_000 || !strings.Contains(shown["log"], "client-go") {
				t.Errorf("the log is too short for the deepest level: %d bytes", len(shown["log"]))
			}
			for where, text := range shown {
				for what, secret := range secrets {
					if at := leak(text, secret); at != "" {
						t.Errorf("%s is in the %s:\n%s", what, where, at)
					}
				}
			}
		})
	}
}

// marker is like no text that the gateway writes by itself.
const marker = "mArKeR-7f3c9b2e41"

// leak returns the text around a secret, as it is or as base64, in which it can begin at three places.
func leak(text, secret string) (around string) {
	forms := []string{secret}
	for skip := range 3 {
		encoded := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("x", skip) + secret))
		from, to := (skip*8+5)/6, (skip+len(secret))*8/6
		forms = append(forms, encoded[from:to])
	}
	for _, form := range forms {
		if i := strings.Index(text, form); i >= 0 {
			return text[max(0, i-200):min(len(text), i+200)]
		}
	}
	return ""
}

// listen runs a gateway until it has tried all links, and returns what it has shown, by where it did.
func (w *world) listen(t *testing.T, format string, links map[string]*corev1.Secret) map[string]string {
	var log bytes.Buffer
	var mu sync.Mutex
	traces := collectTraces(t)
	must(t, w.writeLink(t.Context(), links["good"])) // which has been rotated if this is not the first time
	g, err := harness.StartReplica(
		t.Context(),
		harness.ReplicaConfig{Kubeconfig: w.west.cluster().Kubeconfig(), Output: locked{&mu, &log},
			Args: []string{"-log-level=trace", "-log-format=" + format, "-trace-collector=" + traces.addr}},
	)
	must(t, err)
	defer func() { must(t, g.Stop()) }()
	w.gateway = g
	w.awaitState(t, "good", "ready", recovery)
	shown := map[string]string{}
	for name, o := range links {
		await(t, notice, func() error {
			c, err := w.cluster(t.Context(), name)
			if err == nil && (c.State == "absent" || c.State == "pending") {
				err = fmt.Errorf("Secret %s is %+v", o.Name, c)
			}
			return err
		})
		shown["errors"] += w.refusal(t, name)
	}
	served := w.subscribe(t, proxy.Get, "good", "marker") // or there would be nothing on /debug/streams
	await(t, recovery, func() error { return w.streams(t.Context(), 1) })
	w.readPages(t, "", shown)
	for name := range links {
		shown["output of isthmus explain"] += w.verb(t, "explain", "marker/"+name)
	}
	w.rotate(t, links["good"], links["token-echoed"], "new credentials do not work")
	w.readPages(t, " while new credentials do not work", shown)
	w.rotate(t, links["good"], links["no-yaml"], "the current version of the Secret cannot be used")
	w.readPages(t, " while the Secret can't be used", shown)
	served.Close()
	await(t, recovery, func() error { return w.streams(t.Context(), 0) })
	must(t, g.Stop())
	shown["traces"] = traces.text()
	mu.Lock()
	defer mu.Unlock()
	shown["log"] = log.String()
	return shown
}

// readPages adds the pages of the admin server to what was shown.
func (w *world) readPages(t *testing.T, when string, shown map[string]string) {
	t.Helper()
	for _, path := range []string{
		"/metrics",
		"/debug/clusters",
		"/debug/services",
		"/debug/streams",
		"/debug/explain?authority=good.marker.svc.cluster.local",
		"/ready",
	} {
		text, err := w.page(t.Context(), path)
		must(t, err)
		shown[path+when] = text
	}
	for _, verb := range []string{"clusters", "services", "explain marker/good", "explain marker/good -o json"} {
		shown["output of isthmus "+verb+when] = w.verb(t, strings.Fields(verb)...)
	}
}

// verb returns what a verb of the isthmus command prints.
func (w *world) verb(t *testing.T, args ...string) string {
	t.Helper()
	isthmus, err := harness.Isthmus.Path(t.Context())
	must(t, err)
	out, err := exec.CommandContext(t.Context(), isthmus, append(args, "--admin", w.gateway.MetricsAddr())...).
		CombinedOutput()
	if failed, ok := errors.AsType[*exec.ExitError](err); ok && failed.ExitCode() == 1 { // a service without endpoints
		err = nil
	}
	must(t, err)
	if len(out) < 100 {
		t.Errorf("isthmus %v prints %q", args, out)
	}
	return string(out)
}

// rotate gives a link in use the credentials of another that do not work, and waits until the gateway shows why.
func (w *world) rotate(t *testing.T, serves, fails *corev1.Secret, reason string) {
	t.Helper()
	o := serves.DeepCopy()
	o.Data = fails.Data
	must(t, w.writeLink(t.Context(), o))
	await(t, notice, func() error {
		c, err := w.cluster(t.Context(), "good")
		if err == nil && (c.State != "ready" || !strings.Contains(fmt.Sprint(c.Warnings), reason)) {
			err = fmt.Errorf("the cluster is %+v", c)
		}
		return err
	})
}

type locked struct {
	mu *sync.Mutex
	to io.Writer
}

func (l locked) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.to.Write(b)
}

// refusal returns the error that a proxy gets which asks for a mirror of the cluster.
func (w *world) refusal(t *testing.T, name string) string {
	s := w.subscribe(t, proxy.Get, name, "marker")
	defer s.Close()
	must(t, s.Until(t.Context(), recovery, func() error {
		if now := s.Status(); now.Phase == proxy.Open && now.Messages == 0 {
			return fmt.Errorf("a stream of %s neither begins nor ends", name)
		}
		return nil
	}))
	return fmt.Sprintf("%s: %v\n", name, s.Status().Err)
}

// echo is a server that is no API server, and sends back all that it is sent as the reason for its failure.
func echo(t *testing.T) string {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Warning", `299 - "`+r.Header.Get("Authorization")+`"`)
		w.Header().Set("Echo", r.Header.Get("Authorization"))
		w.WriteHeader(http.StatusInternalServerError)
		_ = r.Header.Write(w)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// markedLinks returns the link Secrets, by the cluster that they name.
func (w *world) markedLinks(t *testing.T, token string) map[string]*corev1.Secret {
	admin := w.north.cluster().REST()
	type fields = map[string]any
	list := func(name, key string, o any) []any { return []any{fields{"name": name, key: o}} }
	links := map[string]*corev1.Secret{}
	write := func(name string, kubeconfig []byte) {
		links[name] = kube.Link(name, kubeconfig)
		links[name].Data["more"] = []byte(marker)
	}
	// change makes a kubeconfig that is good except for what is changed.
	change := func(name string, how func(config, cluster, user fields)) {
		cluster := fields{"server": admin.Host, "certificate-authority-data": admin.CAData}
		user := fields{"token": marker}
		config := fields{"apiVersion": "v1", "kind": "Config", "current-context": "c",
			"contexts": list("c", "context", fields{"cluster": "c", "user": "u"}),
			"clusters": list("c", "cluster", cluster), "users": list("u", "user", user)}
		how(config, cluster, user)
		text, err := json.Marshal(config)
		must(t, err)
		write(name, text)
	}
	in := func(name, key string, value any) {
		change(name, func(_, cluster, user fields) {
			if _, is := cluster[key]; is || strings.HasPrefix(key, "proxy-") {
				cluster[key] = value
			} else {
				user[key] = value
			}
		})
	}
	change("good", func(_, _, user fields) { user["token"] = token })
	change("certificate", func(_, _, user fields) {
		delete(user, "token")
		user["client-certificate-data"], user["client-key-data"] = admin.CertData, admin.KeyData
	})
	in("token-refused", "token", marker)
	in("token-of-words", "token", "a "+marker)
	in("token-of-lines", "token", "a\n"+marker)
	in("token-echoed", "server", echo(t))
	in("server-with-user", "server", "https://"+marker+":"+marker+"@127.0.0.1:1")
	in("server-with-query", "server", admin.Host+"?token="+marker)
	in("server-no-url", "server", "://"+marker)
	in("server-odd-port", "server", "https://127.0.0.1:"+marker)
	in("ca-no-certificate", "certificate-authority-data", []byte(marker))
	in("ca-no-base64", "certificate-authority-data", "!"+marker)
	in(
		"ca-broken",
		"certificate-authority-data",
		[]byte("-----BEGIN CERTIFICATE-----\n"+marker+"\n-----END CERTIFICATE-----\n"),
	)
	in(
		"ca-with-header",
		"certificate-authority-data",
		[]byte("-----BEGIN CERTIFICATE-----\n"+marker+": "+marker+"\n\nAAAA\n-----END CERTIFICATE-----\n"),
	)
	in("proxy", "proxy-url", "http://"+marker+":"+marker+"@127.0.0.1:1")
	in("key-alone", "client-key-data", []byte(marker))
	change("key-and-certificate", func(_, _, user fields) {
		user["client-key-data"], user["client-certificate-data"] = []byte(marker), []byte(marker)
	})
	in("key-file", "client-key", "/"+marker)
	in("token-file", "tokenFile", "/"+marker)
	in("password", "password", marker)
	in("impersonation", "as", marker)
	in("auth-provider", "auth-provider", fields{"name": marker, "config": fields{marker: marker}})
	in(
		"exec",
		"exec",
		fields{"apiVersion": "client.authentication.k8s.io/v1", "command": marker, "args": []string{marker},
			"env": []fields{{"name": marker, "value": marker}}, "interactiveMode": "Never"},
	)
	in("exec-odd", "exec", marker)
	in("token-odd", "token", fields{marker: marker})
	change("user-missing", func(config, _, _ fields) {
		config["contexts"] = list("c", "context", fields{"cluster": "c", "user": marker})
	})
	change("cluster-missing", func(config, _, _ fields) {
		config["contexts"] = list("c", "context", fields{"cluster": marker, "user": "u"})
	})
	change("context-missing", func(config, _, _ fields) { config["current-context"] = marker })
	change("field-unknown", func(config, _, _ fields) { config[marker] = marker })
	change("kind-unknown", func(config, _, _ fields) { config["kind"], config["apiVersion"] = marker, marker })
	change("preferences-odd", func(config, _, _ fields) { config["preferences"] = marker })
	change("extension", func(config, _, _ fields) { config["extensions"] = list(marker, "extension", marker) })
	write("no-yaml", []byte("{["+marker))
	write("a-word", []byte(marker))
	write("tabs", []byte("a:\n\t"+marker+": 1\n b"))
	write("binary", []byte("\x00\xff"+marker))
	return links
}
