package faults

import (
	"encoding/base64"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	pb "github.com/linkerd/linkerd2-proxy-api/go/destination"

	"isthmus/e2e/harness/kube"
)

// TestSecretsStaySecret links clusters with usable and unusable credentials, which contain a marker
// in every field of the kubeconfig. It also rotates one link to credentials that do not work. The
// marker must not appear in the debug log, the pages of the admin server, the output of commands,
// the errors for proxies, or the exported traces.
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
						t.Errorf("%s appears in the %s:\n%s", what, where, at)
					}
				}
			}
		})
	}
}

// marker is a string that Isthmus never writes by itself.
const marker = "mArKeR-7f3c9b2e41"

// leak returns the text around a secret in plain text or in base64, where the secret can have three
// alignments.
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

type locked struct {
	mu *sync.Mutex
	to io.Writer
}

func (l locked) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.to.Write(b)
}

// echo starts a server that is not an API server. It fails every request with an error message that
// contains the request.
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
