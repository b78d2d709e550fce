package kube

import (
	"bytes"
	"context"
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

// boundBody reads the body of an error, of which what has come is enough: the status is the error, and the text is only
// shorter. cancel ends the request's ctx; for other answers it is called once the body is closed.
func boundBody(cancel context.CancelCauseFunc, request *http.Request, response *http.Response) error {
	switch status := response.StatusCode; {
	case status == http.StatusSwitchingProtocols:
		// What comes after this status is the connection itself, which does not end
		// with the request's context.
		return fmt.Errorf("API server %s switched protocols, which was not requested: check that the kubeconfig's server is an API server", request.URL.Host)
	case status == http.StatusOK, status/100 == 2 && request.Method != http.MethodGet:
		response.Body = body{response.Body, cancel}
		return nil
	}
	// Nothing but the context of its request ends a Read that waits, for the connection or within the decompression.
	late := time.AfterFunc(errorTimeout, func() { cancel(nil) })
	text, _ := io.ReadAll(io.LimitReader(response.Body, maxError))
	late.Stop()
	response.Body.Close()
	cancel(nil)
	response.Body = io.NopCloser(bytes.NewReader(text))
	return nil
}

// body is one that ends its request when it is closed.
type body struct {
	io.ReadCloser
	cancel context.CancelCauseFunc
}

func (b body) Close() error {
	defer b.cancel(nil)
	return b.ReadCloser.Close()
}
