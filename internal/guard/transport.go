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

// Limits on the size of a response body after decompression, in bytes.
const (
	// MaxAnswer applies to all responses except pages of lists, such as an object, a review or a
	// token.
	MaxAnswer = 1 << 20
	// MaxList applies to a page of a list, which is the response to a request with a limit.
	MaxList = 16 << 20
	// MaxError applies to an error. The rest of a longer error is cut off.
	MaxError = 64 << 10
)

// answerLimits limits the elements of one response. A page of 200 Pods has about ten thousand array
// elements. Its managed fields have ten times as many fields.
var answerLimits = Limits{Elements: 100_000, Fields: 1_000_000}

var errPlain = errors.New("its address is plain HTTP, by which no token is sent: give one that begins with https://")

// Transport returns a RoundTripper that sends requests to an API server through next, and bounds
// the responses. Pass it to [k8s.io/client-go/rest.Config.Wrap], which puts it below the round
// trippers that add credentials. next is then the RoundTripper that connects. Transport allows
// connection upgrades for port forwarding only.
func Transport(next http.RoundTripper) http.RoundTripper { return transport{next, false} }

// Sized is like [Transport], for a client that requests protobuf. Sized limits the size of a
// protobuf response. The client must limit the number of its elements.
func Sized(next http.RoundTripper) http.RoundTripper { return transport{next, true} }

type transport struct {
	next     http.RoundTripper
	protobuf bool // whether protobuf responses are allowed
}

// WrappedRoundTripper lets client-go find the RoundTripper that connects and close its idle
// connections.
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
		return nil, fmt.Errorf("%s %w", host, err)
	}
	return response, nil
}

// bound limits the body of a response. It returns an error if the response must not be read at all.
func bound(response *http.Response, limit int64, protobuf bool) error {
	status := response.StatusCode
	kind, _, err := mime.ParseMediaType(cmp.Or(response.Header.Get("Content-Type"), "application/json"))
	isJSON := err == nil && kind == "application/json"
	isText := err == nil && strings.HasPrefix(kind, "text/")
	switch {
	case status < 200 || status >= 300 && status < 400:
		return fmt.Errorf("answers with status %d, which is not followed: is it an API server?", status)
	case status >= 400 && !isJSON && !isText:
		response.Header.Del("Content-Type") // the status is enough
		response.Body = body{http.NoBody, response.Body}
		return nil
	case status >= 400:
		response.Body = body{Limited(response.Body, MaxError, io.EOF), response.Body}
	case isJSON || protobuf && err == nil && kind == "application/vnd.kubernetes.protobuf":
		response.Body = body{
			Limited(response.Body, limit, fmt.Errorf("the answer has more than %d MiB", limit>>20)),
			response.Body,
		}
	default:
		return fmt.Errorf("answers with content that is not JSON: is it an API server?")
	}
	if isJSON {
		response.Body = body{JSON(response.Body, answerLimits), response.Body}
	}
	return nil
}

// Limited returns a reader of the first size bytes. If from has more bytes, the reader returns the
// error beyond.
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
	// Read one more byte than allowed, to tell a body of exactly the limit from a larger one.
	n, err := l.from.Read(b[:min(int64(len(b)), l.left+1)])
	if l.left -= int64(n); l.left < 0 {
		return n - 1, l.beyond
	}
	return n, err
}

// Certificate returns what is wrong with a server's certificate, in printable form, if that is the
// cause of err. Otherwise it returns the empty string. authority reports whether another
// certificate authority than the client's issued the certificate.
func Certificate(err error) (why string, authority bool) {
	failed, ok := errors.AsType[*tls.CertificateVerificationError](err)
	if !ok {
		return "", false
	}
	if _, ok := errors.AsType[x509.UnknownAuthorityError](failed.Err); !ok || len(failed.UnverifiedCertificates) == 0 {
		return text.Clean(failed.Err.Error(), text.Long), false
	}
	return fmt.Sprintf("it was issued by %s, which is not the certificate authority that the kubeconfig has",
		text.Clean(failed.UnverifiedCertificates[0].Issuer.String(), text.Long)), true
}

// RefusedCertificate returns the TLS alert with which a server rejects the client's certificate or
// the lack of one. If that is not the cause of err, it returns the empty string.
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
