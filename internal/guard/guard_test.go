package guard

import (
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// ask sends a request to a handler, over TLS unless plain is true, and returns the readable
// response.
func ask(t *testing.T, plain bool, path, token string, handler http.HandlerFunc) (status int, body string, err error) {
	t.Helper()
	server := httptest.NewUnstartedServer(handler)
	if plain {
		server.Start()
	} else {
		server.StartTLS()
	}
	defer server.Close()
	client := server.Client()
	client.Transport = Transport(client.Transport)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+path, strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := client.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return response.StatusCode, string(text), err
}

// send returns a handler that responds with a status, a content type, and a repeated text as the
// body.
func send(status int, kind, text string, times int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind)
		w.WriteHeader(status)
		for range times {
			if _, err := io.WriteString(w, text); err != nil {
				return
			}
		}
	}
}

// TestTransport checks which responses are passed to the client.
func TestTransport(t *testing.T) {
	const json, kB = "application/json", 1 << 10
	blank := strings.Repeat(" ", kB)
	for name, c := range map[string]struct {
		path   string
		answer http.HandlerFunc
		status int
		size   int
		want   string // in the error
	}{
		"an answer": {"/x", send(200, json, "{}", 1), 200, 2, ""},
		"without type": {"/x", func(w http.ResponseWriter, _ *http.Request) {
			w.Header()["Content-Type"] = nil
			io.WriteString(w, "{}")
		}, 200, 2, ""},
		"as large as it may be": {"/x", send(200, json, blank, MaxAnswer/kB), 200, MaxAnswer, ""},
		"larger": {
			"/x", send(200, json, blank, MaxAnswer/kB+1), 200, MaxAnswer, "the response is larger than 1 MiB",
		},
		"a list": {"/x?limit=5", send(200, json, blank, MaxList/kB), 200, MaxList, ""},
		"a larger one": {
			"/x?limit=5", send(200, json, blank, MaxList/kB+1), 200, MaxList,
			"the response is larger than 16 MiB",
		},
		"an error":         {"/x", send(403, json, "{}", 1), 403, 2, ""},
		"a text":           {"/x", send(503, "text/plain", "x", 1), 503, 1, ""},
		"an endless error": {"/x", send(500, json, blank, 1<<20), 500, MaxError, ""},
		"an endless text":  {"/x?limit=5", send(500, "text/html", blank, 1<<20), 500, MaxError, ""},
		"many elements": {
			"/x?limit=5", send(200, json, "[{},{},{},{}],{}", 1<<20), 200, -1,
			"the JSON has too many elements",
		},
		"many brackets": {
			"/x?limit=5", send(200, json, "[", 1<<20), 200, -1, "the JSON is nested too deeply",
		},
		"many fields in an error": {"/x", send(403, json, "{\"\":0},", 1<<20), 403, MaxError, ""},
		"YAML": {
			"/x", send(200, "application/yaml", "a: b", 1), 0, 0, "responded with content that is not JSON",
		},
		"protobuf": {
			"/x", send(200, "application/vnd.kubernetes.protobuf", "k8s", 1), 0, 0,
			"responded with content that is not JSON",
		},
		"an error in YAML":   {"/x", send(403, "application/yaml", "a: b", 1), 403, 0, ""},
		"no type of content": {"/x", send(200, ";", "{}", 1), 0, 0, "responded with content that is not JSON"},
		"a redirect": {
			"/x",
			func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/y", http.StatusTemporaryRedirect) },
			0, 0, "responded with unexpected status 307",
		},
		"another status":         {"/x", send(304, json, "", 0), 0, 0, "unexpected status 304"},
		"an upgrade":             {"/x", upgrade, 0, 0, "unexpected status 101"},
		"an upgrade, for a port": {"/api/v1/namespaces/n/pods/p/portforward", upgrade, 101, 5, ""},
		"no upgrade, for a port ": {
			"/api/v1/namespaces/n/pods/p/portforward", send(500, "text/plain", blank, 1<<20), 500, MaxError,
			"",
		},
	} {
		t.Run(name, func(t *testing.T) {
			status, body, err := ask(t, false, c.path, "SECRET", c.answer)
			if status != c.status || c.size >= 0 && len(body) != c.size || (err != nil) != (c.want != "") ||
				err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("status %d, %d bytes, %v", status, len(body), err)
			}
		})
	}
}

func upgrade(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Connection", "Upgrade")
	w.Header().Set("Upgrade", "x")
	w.WriteHeader(http.StatusSwitchingProtocols)
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	io.WriteString(conn, "hello")
	conn.Close()
}

// TestPlain checks that requests with a token are not sent over plain HTTP, and others are.
func TestPlain(t *testing.T) {
	asked := 0
	count := func(w http.ResponseWriter, _ *http.Request) { asked++; io.WriteString(w, "{}") }
	if _, _, err := ask(t, true, "/x", "SECRET", count); !errors.Is(err, errPlain) || asked != 0 {
		t.Errorf("%d requests, %v", asked, err)
	}
	w := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		count(w, r)
	}
	if status, _, err := ask(t, true, "/x", "", w); err != nil || status != 200 || asked != 1 {
		t.Errorf("%d requests, status %d, %v", asked, status, err)
	}
}

// FuzzJSON checks that JSON counts the same parts as a decoder and passes all bytes through. With a
// limit that is lower by one, JSON must fail.
func FuzzJSON(f *testing.F) {
	for _, text := range []string{
		"", "1", "[1,{\"a\":[]}]", `{"a":"\"}]","b":[[],[1, 2]]}`, "[}", `"\`, "[,]", "{},{}", "[[],[ ],{}]",
		"{ }", `["a,b","[{,\",","\\",null]`, "]]]",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got := &counter{from: strings.NewReader(text), left: Limits{1e6, 1e6}}
		if read, err := io.ReadAll(got); err != errDepth && (err != nil || string(read) != text) {
			t.Fatalf("%s: %s, %v", text, read, err)
		}
		if !json.Valid([]byte(text)) {
			return
		}
		var want Limits
		countValue(t, json.NewDecoder(strings.NewReader(text)), &want)
		if counted := (Limits{1e6 - got.left.Elements, 1e6 - got.left.Fields}); counted != want {
			t.Errorf("%s: %+v, want %+v", text, counted, want)
		}
		for _, less := range []Limits{{want.Elements - 1, want.Fields}, {want.Elements, want.Fields - 1}} {
			if _, err := io.ReadAll(JSON(
				strings.NewReader(text), less,
			)); min(less.Elements, less.Fields) >= 0 && err != errElements && err != errFields {
				t.Errorf("%s with %+v: %v", text, less, err)
			}
		}
	})
}

// countValue counts the parts of the next value.
func countValue(t *testing.T, d *json.Decoder, n *Limits) {
	t.Helper()
	token, err := d.Token()
	if err != nil {
		t.Fatal(err)
	}
	if token != json.Delim('[') && token != json.Delim('{') {
		return
	}
	for d.More() {
		if token == json.Delim('[') {
			n.Elements++
		} else {
			n.Fields++
			if _, err := d.Token(); err != nil { // its name
				t.Fatal(err)
			}
		}
		countValue(t, d, n)
	}
	if _, err := d.Token(); err != nil {
		t.Fatal(err)
	}
}

// TestCertificate checks that a certificate of another authority is distinguished from other bad
// certificates and errors.
func TestCertificate(t *testing.T) {
	server := httptest.NewTLSServer(http.NotFoundHandler())
	defer server.Close()
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	get := func(url string, authorities *x509.CertPool) error {
		client := server.Client()
		transport := client.Transport.(*http.Transport).Clone()
		transport.TLSClientConfig.RootCAs = authorities
		defer transport.CloseIdleConnections()
		client.Transport = transport
		answer, err := client.Get(url)
		if err == nil {
			answer.Body.Close()
		}
		return err
	}
	own := x509.NewCertPool()
	own.AddCert(server.Certificate())
	if why, authority := Certificate(get(
		server.URL, x509.NewCertPool(),
	)); !authority ||
		why != "the issuer O=Acme Co is not the certificate authority in the kubeconfig" {
		t.Errorf("%q, %v", why, authority)
	}
	if why, authority := Certificate(get(
		strings.Replace(server.URL, "127.0.0.1", "localhost", 1), own,
	)); authority || !strings.Contains(why, "not localhost") {
		t.Errorf("%q, %v", why, authority)
	}
	for _, err := range []error{
		get(server.URL, own), get("https://127.0.0.1:1", own),
		errors.New("x509: certificate signed by unknown authority"),
	} {
		if why, authority := Certificate(err); why != "" || authority {
			t.Errorf("%v: %q", err, why)
		}
	}
}
