package kube

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	"isthmus/clusterstore/budget"
)

// Limits of the body of an answer, decompressed. client-go reads all bodies but those
// of watches as a whole, those of errors included, and would read on until there is no
// memory left.
const (
	// maxAnswer is for a page of a list, in bytes.
	maxAnswer = 256 << 20
	// answerTimeout is for a body from the end of the header on. clusterstore/follow
	// gives a page of a list 30 s in all: this is for other requests.
	answerTimeout = 40 * time.Second
	// maxError is for the body of an error: an API server's have a few hundred bytes,
	// a load balancer's page some kilobytes.
	maxError = 64 << 10
	// errorTimeout is as answerTimeout, for the body of an error.
	errorTimeout = 5 * time.Second
)

var (
	errTooLarge = fmt.Errorf("the API server's answer is larger than %d MiB", maxAnswer>>20)
	errTooSlow  = fmt.Errorf("the API server began to answer and did not come to an end within %v", answerTimeout)
)

// boundBody limits the body of an answer in bytes and in time, and by the budget of the
// request, if it has one. Only the body of a watch with status 200 has no limits but
// those of its events: for any other status client-go reads it as a whole, for watches
// too. cancel ends the request's ctx; it is called once the body is closed.
// The error is for an answer that client-go would neither read nor close.
func boundBody(ctx context.Context, cancel context.CancelCauseFunc, request *http.Request, response *http.Response) error {
	watching := request.URL.Query().Get("watch")
	isWatch := watching != "" && watching != "false"
	switch status := response.StatusCode; {
	case status == http.StatusSwitchingProtocols:
		// What comes after this status is the connection itself, which does not end
		// with the request's context.
		return fmt.Errorf("API server %s switched protocols, which was not requested: check that the kubeconfig's server is an API server", request.URL.Host)
	case isWatch && status == http.StatusOK:
		mediaType, err := checkWatchType(request, response)
		if err != nil {
			return err
		}
		response.Body = newEventBody(ctx, cancel, response.Body, mediaType)
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
			left:     maxAnswer,
			tooLarge: fmt.Errorf("%s: %w", request.URL.Host, errTooLarge),
			tooSlow:  fmt.Errorf("%s: %w", request.URL.Host, errTooSlow),
			request:  budget.From(ctx),
			whole:    true,
		}, answerTimeout)
	}
	return nil
}

// checkWatchType returns the content type of a watch without its parameters, or an error
// if client-go can't read that. It would leave the body, and with it the connection, open.
func checkWatchType(request *http.Request, response *http.Response) (string, error) {
	contentType := response.Header.Get("Content-Type")
	mediaType, _, _ := mime.ParseMediaType(contentType)
	switch mediaType {
	case "", runtime.ContentTypeJSON, runtime.ContentTypeProtobuf:
		return mediaType, nil
	}
	return "", fmt.Errorf("API server %s answered a watch by content of type %q, which is not an API server's: check that the kubeconfig's server is an API server, and what is in front of it",
		request.URL.Host, Clip(contentType))
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

// boundedBody fails beyond a size, beyond the budget, and after a time. io.EOF instead of
// an error cuts it off.
type boundedBody struct {
	io.ReadCloser
	left              int64
	tooLarge, tooSlow error
	request           *budget.Request // its caller ends it; may be nil
	whole             bool            // it is decoded as a whole: its objects are measured before
	have              *bytes.Buffer   // what has come, if it is; nil: nothing

	ctx    context.Context // the request's
	cancel context.CancelCauseFunc
	timer  *time.Timer // cancels ctx with errTooSlow
}

// collected are buffers for what has come of answers: without them there would be as much
// garbage as the lists of a start have bytes, several times.
var collected = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// maxCollected is how large a buffer may be that is used again, in bytes: pages of ordinary
// objects have less.
const maxCollected = 2 << 20

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
	if over := b.request.Took(int64(n)); over != nil {
		return 0, over
	}
	if b.whole {
		b.collect(p[:n])
	}
	if err == io.EOF && b.whole {
		// All is there. What comes next is decoding, which takes no part in the time that
		// the server has.
		b.timer.Stop()
		if refused := b.admit(); refused != nil {
			return n, refused
		}
	}
	if err != nil && err != io.EOF && errors.Is(context.Cause(b.ctx), errTooSlow) {
		err = b.tooSlow
	}
	return n, err
}

// collect keeps what has come until all is there.
func (b *boundedBody) collect(p []byte) {
	if b.have == nil {
		b.have = collected.Get().(*bytes.Buffer)
	}
	b.have.Write(p)
}

// admit waits until the answer may be decoded, and charges what its objects take then. They
// are measured before, since that takes processor time and no memory.
func (b *boundedBody) admit() error {
	size := int64(b.have.Len())
	objects, err := measureAnswer(b.have.Bytes(), cmp.Or(b.request.What(), "an answer"))
	if b.have.Cap() <= maxCollected {
		b.have.Reset()
		collected.Put(b.have)
	}
	b.have, b.whole = nil, false
	if errors.Is(err, budget.ErrOver) {
		b.request.Fail(err)
	}
	if err != nil {
		return err
	}
	if late := b.request.AwaitTurn(b.ctx); late != nil {
		return late
	}
	return b.request.Charge(budget.Beyond(size, objects))
}

func (b *boundedBody) Close() error {
	b.timer.Stop()
	defer b.cancel(nil)
	return b.ReadCloser.Close()
}
