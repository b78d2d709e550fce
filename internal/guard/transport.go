package guard

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"strings"

	"isthmus/internal/text"
)

// These limits apply to response bodies after decompression.
const (
	// MaxAnswer applies to successful responses such as objects, access reviews and tokens, but not
	// to pages of lists.
	MaxAnswer = 1 << 20
	// MaxList applies to pages of lists, which are the responses to requests with the parameter
	// "limit".
	MaxList = 16 << 20
	// MaxError applies to error responses. Longer error responses are truncated.
	MaxError = 64 << 10
)

// answerLimits are the limits for one response. A page of 200 Pods contains about 10,000 array
// elements, and ten times as many fields in managedFields.
var answerLimits = Limits{Elements: 100_000, Fields: 1_000_000}

var errPlain = errors.New("tokens are never sent over plain HTTP: use an address that begins with https://")

// Transport wraps a RoundTripper for requests to an API server, and limits the size of responses.
// Pass Transport to [k8s.io/client-go/rest.Config.Wrap], which applies it below the RoundTrippers
// that add credentials. Connection upgrades are allowed only for port forwarding.
func Transport(next http.RoundTripper) http.RoundTripper { return transport{next, false} }

// Sized is like [Transport], but also accepts protobuf responses. Clients must limit the number of
// elements in a protobuf response themselves.
func Sized(next http.RoundTripper) http.RoundTripper { return transport{next, true} }

type transport struct {
	next     http.RoundTripper
	protobuf bool // whether protobuf responses are allowed
}

// WrappedRoundTripper lets client-go find the wrapped RoundTripper and close its idle connections.
func (t transport) WrappedRoundTripper() http.RoundTripper { return t.next }

func (t transport) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.URL.Scheme != "https" && request.Header.Get("Authorization") != "" {
		if request.Body != nil {
			request.Body.Close()
		}
		return nil, errPlain
	}
	host := request.URL.Host
	list := request.URL.Query().Has("limit")
	forward := strings.HasSuffix(
		request.URL.Path, "/portforward",
	)
	response, err := t.next.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	if response.StatusCode == http.StatusSwitchingProtocols && forward {
		return response, nil // the body is the connection
	}
	limit := int64(MaxAnswer)
	if list {
		limit = MaxList
	}
	if err := bound(response, limit, t.protobuf); err != nil {
		response.Body.Close()
		return nil, fmt.Errorf("%s: %w", host, err)
	}
	return response, nil
}

// The bound function limits the size of a response body, or returns an error if the response must
// not be read at all.
func bound(response *http.Response, limit int64, protobuf bool) error {
	status := response.StatusCode
	kind, _, err := mime.ParseMediaType(cmp.Or(response.Header.Get("Content-Type"), "application/json"))
	isJSON := err == nil && kind == "application/json"
	isText := err == nil && strings.HasPrefix(kind, "text/")
	switch {
	case status < 200 || status >= 300 && status < 400:
		return fmt.Errorf("the server responded with unexpected status %d: check that it is an API server", status)
	case status >= 400 && !isJSON && !isText:
		response.Header.Del("Content-Type") // the status is enough
		response.Body = body{http.NoBody, response.Body}
		return nil
	case status >= 400:
		response.Body = body{Limited(response.Body, MaxError, io.EOF), response.Body}
	case isJSON || protobuf && err == nil && kind == "application/vnd.kubernetes.protobuf":
		response.Body = body{
			Limited(response.Body, limit, fmt.Errorf("the response is larger than %d MiB", limit>>20)),
			response.Body,
		}
	default:
		return fmt.Errorf("the server responded with content that is not JSON: check that it is an API server")
	}
	if isJSON {
		response.Body = body{JSON(response.Body, answerLimits), response.Body}
	}
	return nil
}

// Limited wraps a reader. The returned reader yields at most the given number of bytes, and then
// fails with the given error if the input contains more.
func Limited(from io.Reader, size int64, beyond error) io.Reader {
	return &limitedReader{from, size, beyond}
}

type body struct {
	io.Reader
	io.Closer
}

type limitedReader struct {
	from   io.Reader
	left   int64
	beyond error
}

func (l *limitedReader) Read(b []byte) (int, error) {
	if l.left < 0 {
		return 0, l.beyond
	}
	// Read one more byte than allowed, to distinguish a body of exactly the maximum size from a
	// larger body.
	n, err := l.from.Read(b[:min(int64(len(b)), l.left+1)])
	if l.left -= int64(n); l.left < 0 {
		return n - 1, l.beyond
	}
	return n, err
}

// Certificate returns a printable description of what is wrong with a server's certificate, or ""
// if err has a different cause. The second result is true if the client does not trust the issuer
// of the certificate.
func Certificate(err error) (why string, authority bool) {
	failed, ok := errors.AsType[*tls.CertificateVerificationError](err)
	if !ok {
		return "", false
	}
	if _, ok := errors.AsType[x509.UnknownAuthorityError](failed.Err); !ok || len(failed.UnverifiedCertificates) == 0 {
		return text.Clean(failed.Err.Error(), text.Long), false
	}
	return fmt.Sprintf("the issuer %s is not the certificate authority in the kubeconfig",
		text.Clean(failed.UnverifiedCertificates[0].Issuer.String(), text.Long)), true
}

// RefusedCertificate returns the text of the TLS alert that a server sent because the client's
// certificate was missing or not accepted. If err has a different cause, the result is "".
func RefusedCertificate(err error) string {
	alert, ok := errors.AsType[*net.OpError](err)
	if !ok || alert.Op != "remote error" { // crypto/tls uses this Op for alerts of the peer
		return ""
	}
	why, ok := strings.CutPrefix(alert.Err.Error(), "tls: ")
	if !ok || !strings.Contains(why, "certificate") {
		return ""
	}
	return why
}
