package kube

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	"isthmus/federation"
	"isthmus/internal/legible"
)

// Limits of the body of an answer that client-go reads, decompressed: that of a single object, or
// of an error. It reads bodies as a whole, and would read on until there is no memory left. What
// is followed has other limits: package decode reads it object by object.
const (
	// maxAnswer is in bytes. A page of Nodes has less, and etcd takes objects of 1.5 MiB: those
	// that are read by themselves are small.
	maxAnswer = 1 << 20
	// maxOwnAnswer is for answers of the own cluster, whose Services the slice writer lists by client-go.
	maxOwnAnswer = 64 << 20
	// answerTimeout is for a body from the end of the header on.
	answerTimeout = 40 * time.Second
	// maxError is for the body of an error: an API server's have a few hundred bytes,
	// a load balancer's page some kilobytes.
	maxError = 64 << 10
	// errorTimeout is as answerTimeout, for the body of an error.
	errorTimeout = 5 * time.Second
)

var (
	errTooLarge = errors.New("the API server's answer is larger than it may be")
	errTooSlow  = fmt.Errorf("the API server began to answer and did not come to an end within %v", answerTimeout)
)

// limitFor is how large an answer of a cluster may be that client-go reads, in bytes.
func limitFor(name federation.ClusterName) int64 {
	if name == federation.Local {
		return maxOwnAnswer
	}
	return maxAnswer
}

// boundBody limits the body of an answer in bytes and in time. Only the body of a watch with
// status 200 has no limits, which the slice writer has of the own cluster alone: for any other
// status client-go reads it as a whole, for watches too. cancel ends the request's ctx; it is
// called once the body is closed. The error is for an answer that client-go would neither read
// nor close.
func boundBody(ctx context.Context, cancel context.CancelCauseFunc, limit int64, request *http.Request, response *http.Response) error {
	watching := request.URL.Query().Get("watch")
	isWatch := watching != "" && watching != "false"
	switch status := response.StatusCode; {
	case status == http.StatusSwitchingProtocols:
		// What comes after this status is the connection itself, which does not end
		// with the request's context.
		return fmt.Errorf("API server %s switched protocols, which was not requested: check that the kubeconfig's server is an API server", request.URL.Host)
	case isWatch && status == http.StatusOK:
		if err := checkWatchType(request, response); err != nil {
			return err
		}
		response.Body = &endingBody{response.Body, cancel}
	case isWatch || status < 200 || status > 299:
		// The status is the error. A body that is cut off only makes its text shorter, and one of a
		// type that is not decoded has none.
		if checkType(request, response) != nil {
			response.Header.Del("Content-Type")
		}
		response.Body = newBoundedBody(ctx, cancel, response.Body, boundedBody{left: maxError, tooLarge: io.EOF, tooSlow: io.EOF}, errorTimeout)
	default:
		if err := checkType(request, response); err != nil {
			return err
		}
		response.Body = newBoundedBody(ctx, cancel, response.Body, boundedBody{
			left:     limit,
			tooLarge: fmt.Errorf("%s: %w: %d MiB", request.URL.Host, errTooLarge, limit>>20),
			tooSlow:  fmt.Errorf("%s: %w", request.URL.Host, errTooSlow),
		}, answerTimeout)
	}
	return nil
}

// checkWatchType returns an error for a watch of a content type that client-go can't read. It
// would leave the body, and with it the connection, open.
func checkWatchType(request *http.Request, response *http.Response) error {
	contentType := response.Header.Get("Content-Type")
	mediaType, _, _ := mime.ParseMediaType(contentType)
	switch mediaType {
	case "", runtime.ContentTypeJSON, runtime.ContentTypeProtobuf:
		return nil
	}
	return fmt.Errorf("API server %s answered a watch by content of type %q, which is not an API server's: check that the kubeconfig's server is an API server, and what is in front of it",
		request.URL.Host, legible.Beginning(contentType, legible.Short))
}

// checkType returns an error for what client-go would decode and API servers send only if
// asked to: small documents of YAML can become large.
func checkType(request *http.Request, response *http.Response) error {
	mediaType, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type"))
	switch mediaType {
	case runtime.ContentTypeYAML, runtime.ContentTypeCBOR, runtime.ContentTypeCBORSequence:
		return fmt.Errorf("API server %s answered by content of type %s, which was not requested: check what is in front of it", request.URL.Host, mediaType)
	}
	return nil
}

// boundedBody fails beyond a size and after a time. io.EOF instead of an error cuts it off.
type boundedBody struct {
	io.ReadCloser
	left              int64
	tooLarge, tooSlow error

	ctx    context.Context // the request's
	cancel context.CancelCauseFunc
	timer  *time.Timer // cancels ctx with errTooSlow
}

// newBoundedBody sets the limits to a body, and starts its time. A body that has become
// too slow is ended by the context of its request, since nothing else ends a Read that
// waits, for the connection or within the decompression.
func newBoundedBody(ctx context.Context, cancel context.CancelCauseFunc, body io.ReadCloser, b boundedBody, limit time.Duration) *boundedBody {
	b.ReadCloser, b.ctx, b.cancel = body, ctx, cancel
	b.timer = time.AfterFunc(limit, func() { cancel(errTooSlow) })
	return &b
}

func (b *boundedBody) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, b.tooLarge
	}
	n, err := b.ReadCloser.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	if err != nil && err != io.EOF && errors.Is(context.Cause(b.ctx), errTooSlow) {
		err = b.tooSlow
	}
	return n, err
}

func (b *boundedBody) Close() error {
	b.timer.Stop()
	defer b.cancel(nil)
	return b.ReadCloser.Close()
}
