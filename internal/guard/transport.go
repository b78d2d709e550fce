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

// Limits of the body of an answer, in bytes, decompressed.
const (
	// MaxAnswer is for everything but a page of a list: one object, a review, a token.
	MaxAnswer = 1 << 20
	// MaxList is for a page of a list, which is what a request with a limit asks for.
	MaxList = 16 << 20
	// MaxError is for an error: what comes after it is left out.
	MaxError = 64 << 10
)

// answerLimits are for the elements of one answer: the 200 Pods of a page have some ten thousand
// elements of arrays, and their managed fields ten times as many fields.
var answerLimits = Limits{Elements: 100_000, Fields: 1_000_000}

var errPlain = errors.New("its address is plain HTTP, by which no token is sent: give one that begins with https://")

// Transport returns a RoundTripper that sends requests by next, to an API server, and bounds
// the answers. It is for [k8s.io/client-go/rest.Config.Wrap], which puts it beneath what adds
// credentials: next is then what connects. An upgrade of the connection is let through for
// forwarded ports only.
func Transport(next http.RoundTripper) http.RoundTripper { return transport{next, false} }

// Sized is [Transport] for a client that has API servers answer in protobuf: of such an answer the
// size is bounded, and its parts are for the client to bound.
func Sized(next http.RoundTripper) http.RoundTripper { return transport{next, true} }

type transport struct {
	next     http.RoundTripper
	protobuf bool // it may be answered
}

// WrappedRoundTripper lets client-go find what connects, for its idle connections.
func (t transport) WrappedRoundTripper() http.RoundTripper { return t.next }

func (t transport) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.URL.Scheme != "https" && request.Header.Get("Authorization") != "" {
		if request.Body != nil {
			request.Body.Close()
		}
		return nil, errPlain
	}
	host, list, forward := request.URL.Host, request.URL.Query().Has("limit"), strings.HasSuffix(
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

// bound bounds the body of an answer, or returns why it is not read at all.
func bound(response *http.Response, limit int64, protobuf bool) error {
	status := response.StatusCode
	kind, _, err := mime.ParseMediaType(cmp.Or(response.Header.Get("Content-Type"), "application/json"))
	isJSON, isText := err == nil && kind == "application/json", err == nil && strings.HasPrefix(kind, "text/")
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

// Limited returns a reader of the first size bytes, with the error beyond where there are more.
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
	// One byte more than there may be distinguishes a body of just that size from a larger one.
	n, err := l.from.Read(b[:min(int64(len(b)), l.left+1)])
	if l.left -= int64(n); l.left < 0 {
		return n - 1, l.beyond
	}
	return n, err
}

// Certificate returns why a server's certificate is not good, printable, if that is why err
// has come of a request; else an empty text. authority: the certificate is another
// authority's than those that the client was given.
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

// RefusedCertificate returns why a server refuses the certificate that the client has, or has not,
// shown it: the TLS alert that it sent, if that is why err has come of a request; else an empty text.
func RefusedCertificate(err error) string {
	alert, ok := errors.AsType[*net.OpError](err)
	if !ok || alert.Op != "remote error" { // as crypto/tls calls what the other end sent
		return ""
	}
	why, ok := strings.CutPrefix(alert.Err.Error(), "tls: ")
	if !ok || !strings.Contains(why, "certificate") {
		return ""
	}
	return why
}
