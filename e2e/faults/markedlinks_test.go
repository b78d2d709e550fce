package faults

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"isthmus/e2e/harness/kube"
)

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
	in("ca-broken", "certificate-authority-data", []byte("-----BEGIN CERTIFICATE-----\n"+marker+"\n-----END CERTIFICATE-----\n"))
	in("ca-with-header", "certificate-authority-data", []byte("-----BEGIN CERTIFICATE-----\n"+marker+": "+marker+"\n\nAAAA\n-----END CERTIFICATE-----\n"))
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
	in("exec", "exec", fields{"apiVersion": "client.authentication.k8s.io/v1", "command": marker, "args": []string{marker},
		"env": []fields{{"name": marker, "value": marker}}, "interactiveMode": "Never"})
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
