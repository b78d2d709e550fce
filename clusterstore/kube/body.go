package kube

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

// Limits of the body of an error: an API server's have a few hundred bytes, a load balancer's page some kilobytes.
// Other bodies are for their readers to bound: package decode, guard ([Client.AddTyped]).
const (
	maxError     = 64 << 10
	errorTimeout = 5 * time.Second // from the end of the header on
)

var errLate = errors.New("the body of an error did not come to an end")

// boundBody limits the body of an error, which is cut off: the status is the error, and the text is only shorter. cancel
// ends the request's ctx; it is called once the body is closed.
func boundBody(ctx context.Context, cancel context.CancelCauseFunc, request *http.Request, response *http.Response) error {
	from, status := response.Body, response.StatusCode
	switch {
	case status == http.StatusSwitchingProtocols:
		// What comes after this status is the connection itself, which does not end
		// with the request's context.
		return fmt.Errorf("API server %s switched protocols, which was not requested: check that the kubeconfig's server is an API server", request.URL.Host)
	case status == http.StatusOK, status/100 == 2 && request.Method != http.MethodGet:
		response.Body = &body{from, from, func() { cancel(nil) }}
	default:
		timer := time.AfterFunc(errorTimeout, func() { cancel(errLate) })
		response.Body = &body{cutOff{ctx, io.LimitReader(from, maxError)}, from, func() { timer.Stop(); cancel(nil) }}
	}
	return nil
}

// body is one that ends its request when it is closed.
type body struct {
	io.Reader
	from io.Closer
	end  func()
}

func (b *body) Close() error {
	defer b.end()
	return b.from.Close()
}

// cutOff ends what is late. Nothing but the context of its request ends a Read that waits, for the connection or within the
// decompression.
type cutOff struct {
	ctx context.Context // of the request
	io.Reader
}

func (c cutOff) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	if err != nil && context.Cause(c.ctx) == errLate {
		err = io.EOF
	}
	return n, err
}
