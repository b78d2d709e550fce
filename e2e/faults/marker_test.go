package faults

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"isthmus/e2e/gateway"
	"isthmus/e2e/proxy"
)

// TestSecretsStaySecret links clusters by credentials that carry a marker wherever a kubeconfig can hold something, good
// ones and such as can't be used, and looks for it in everything that the gateway says of them: its log at the deepest
// level, in both formats, the pages of the admin server, and the errors that proxies get.
func TestSecretsStaySecret(t *testing.T) {
	sites := startSites(t, "west", "north")
	w := &world{west: sites[0], north: sites[1]}
	must(t, w.west.apply(t.Context(), linkNamespace, ""))
	must(t, w.north.apply(t.Context(), "marker", remoteObjects))
	token, err := w.north.token(t.Context(), "marker")
	must(t, err)
	key, err := os.ReadFile(filepath.Join(w.north.cluster().Dir(), "pki", "admin.key"))
	must(t, err)
	links := w.markedLinks(t, token)
	for name, o := range links {
		must(t, w.writeLink(t.Context(), o))
		must(t, w.west.apply(t.Context(), "marker", strings.NewReplacer("name: mirror", "name: "+name, "remote-discovery: $NS", "remote-discovery: "+name).Replace(mirrorObject)))
	}
	secrets := map[string]string{"the marker": marker, "the token in use": token[len(token)-40:], "a client's key": strings.Split(string(key), "\n")[1]}
	for _, format := range []string{"json", "plain"} {
		t.Run(format, func(t *testing.T) {
			said := w.listen(t, format, links)
			if len(said["log"]) < 10_000 || !strings.Contains(said["log"], "client-go") {
				t.Errorf("the log is no deep one: %d bytes", len(said["log"]))
			}
			for where, text := range said {
				for what, secret := range secrets {
					if at := leak(text, secret); at != "" {
						t.Errorf("%s is in the %s:\n%s", what, where, at)
					}
				}
			}
		})
	}
}

// marker is like no text that the gateway says by itself.
const marker = "mArKeR-7f3c9b2e41"

const mirrorObject = `
apiVersion: v1
kind: Service
metadata:
  name: mirror
  namespace: $NS
  labels: {multicluster.linkerd.io/remote-discovery: $NS, multicluster.linkerd.io/remote-service: far}
spec: {ports: [{name: http, port: 80}]}
`

// leak returns where a text says a secret, as it is or as base64, in which it can begin at three places.
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

// listen runs a gateway until it has tried all links, and returns what it said, by where it did.
func (w *world) listen(t *testing.T, format string, links map[string]*corev1.Secret) map[string]string {
	var log bytes.Buffer
	var mu sync.Mutex
	g, err := gateway.Start(t.Context(), gateway.Config{Kubeconfig: w.west.cluster().Kubeconfig(), Output: locked{&mu, &log},
		Args: []string{"-log-level=trace", "-log-format=" + format}})
	must(t, err)
	defer func() { must(t, g.Stop()) }()
	w.gateway = g
	w.awaitState(t, "good", "ready", recovery)
	said := map[string]string{}
	for name, o := range links {
		await(t, notice, func() error {
			all, err := w.statuses(t.Context(), name)
			if err == nil && (len(all) != 1 || all[0].State == "pending") {
				err = fmt.Errorf("Secret %s is %+v", o.Name, all)
			}
			return err
		})
		said["errors"] += w.refusal(t, name)
	}
	for _, path := range []string{"/metrics", "/debug/clusters", "/ready"} {
		said[path], err = w.page(t.Context(), path)
		must(t, err)
	}
	must(t, g.Stop())
	mu.Lock()
	defer mu.Unlock()
	said["log"] = log.String()
	return said
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

// refusal returns what a proxy is told that asks for a mirror of the cluster.
func (w *world) refusal(t *testing.T, name string) string {
	s := w.subscribe(t, name, "marker")
	defer s.Close()
	for limit := time.After(recovery); ; {
		changed, now := s.Changed(), s.Snapshot()
		if now.Phase != proxy.Open || now.Messages > 0 {
			return fmt.Sprintf("%s: %v\n", name, now.Err)
		}
		select {
		case <-changed:
		case <-limit:
			t.Fatalf("a stream of %s neither begins nor ends", name)
		}
	}
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
	type object = map[string]any
	list := func(name, key string, o any) []any { return []any{object{"name": name, key: o}} }
	links := map[string]*corev1.Secret{}
	write := func(name string, kubeconfig []byte) {
		links[name] = linkSecret("cluster-credentials-"+name, name, kubeconfig)
		links[name].Data["more"] = []byte(marker)
	}
	// change makes a kubeconfig that is good but for what is changed.
	change := func(name string, how func(config, cluster, user object)) {
		cluster := object{"server": admin.Host, "certificate-authority-data": admin.CAData}
		user := object{"token": marker}
		config := object{"apiVersion": "v1", "kind": "Config", "current-context": "c",
			"contexts": list("c", "context", object{"cluster": "c", "user": "u"}),
			"clusters": list("c", "cluster", cluster), "users": list("u", "user", user)}
		how(config, cluster, user)
		text, err := json.Marshal(config)
		must(t, err)
		write(name, text)
	}
	in := func(name, key string, value any) {
		change(name, func(_, cluster, user object) {
			if _, is := cluster[key]; is || strings.HasPrefix(key, "proxy-") {
				cluster[key] = value
			} else {
				user[key] = value
			}
		})
	}
	change("good", func(_, _, user object) { user["token"] = token })
	change("certificate", func(_, _, user object) {
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
	in("ca-broken", "certificate-authority-data", []byte("-----BEGIN CERTIFICATE-----\n"+marker+"\n-----END CERTIFICATE-----\n"))
	in("ca-with-header", "certificate-authority-data", []byte("-----BEGIN CERTIFICATE-----\n"+marker+": "+marker+"\n\nAAAA\n-----END CERTIFICATE-----\n"))
	in("proxy", "proxy-url", "http://"+marker+":"+marker+"@127.0.0.1:1")
	in("key-alone", "client-key-data", []byte(marker))
	change("key-and-certificate", func(_, _, user object) {
		user["client-key-data"], user["client-certificate-data"] = []byte(marker), []byte(marker)
	})
	in("key-file", "client-key", "/"+marker)
	in("token-file", "tokenFile", "/"+marker)
	in("password", "password", marker)
	in("impersonation", "as", marker)
	in("auth-provider", "auth-provider", object{"name": marker, "config": object{marker: marker}})
	in("exec", "exec", object{"apiVersion": "client.authentication.k8s.io/v1", "command": marker, "args": []string{marker},
		"env": []object{{"name": marker, "value": marker}}, "interactiveMode": "Never"})
	in("exec-odd", "exec", marker)
	in("token-odd", "token", object{marker: marker})
	change("user-missing", func(config, _, _ object) {
		config["contexts"] = list("c", "context", object{"cluster": "c", "user": marker})
	})
	change("cluster-missing", func(config, _, _ object) {
		config["contexts"] = list("c", "context", object{"cluster": marker, "user": "u"})
	})
	change("context-missing", func(config, _, _ object) { config["current-context"] = marker })
	change("field-unknown", func(config, _, _ object) { config[marker] = marker })
	change("kind-unknown", func(config, _, _ object) { config["kind"], config["apiVersion"] = marker, marker })
	change("preferences-odd", func(config, _, _ object) { config["preferences"] = marker })
	change("extension", func(config, _, _ object) { config["extensions"] = list(marker, "extension", marker) })
	write("no-yaml", []byte("{["+marker))
	write("a-word", []byte(marker))
	write("tabs", []byte("a:\n\t"+marker+": 1\n b"))
	write("binary", []byte("\x00\xff"+marker))
	return links
}
