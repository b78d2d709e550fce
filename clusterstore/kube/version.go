package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/version"
)

// maxVersion is how much of an answer with a version is read, in bytes.
const maxVersion = 4 << 10

// Version is what an API server answers about itself.
type Version struct {
	GitVersion string // such as v1.36.3; not cleaned of what a terminal may obey
	Status     int    // of HTTP; 0: there was no answer
	// Date is when the server answered, by its clock, in whole seconds; zero: it did not send it.
	Date time.Time
	// Sent and Received are when that was, by the clock of this process.
	Sent, Received time.Time
}

// Version asks an API server for its version and its clock. With a refusal (a status other
// than 200) it returns an error and what else is known. The Client must be made by [New].
func (c *Client) Version(ctx context.Context) (v Version, err error) {
	if c.config == nil {
		return v, errors.New("this client has no version")
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.REST.Get().AbsPath("/version").URL().String(), nil)
	if err != nil {
		return v, err
	}
	v.Sent = time.Now()
	answer, err := c.http.Do(request)
	v.Received = time.Now()
	if err != nil {
		return v, c.Printable(err)
	}
	defer answer.Body.Close()
	v.Status = answer.StatusCode
	v.Date, _ = http.ParseTime(answer.Header.Get("Date"))
	if answer.StatusCode != http.StatusOK {
		return v, fmt.Errorf("the API server answers %d %s for its version", answer.StatusCode, http.StatusText(answer.StatusCode))
	}
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxVersion))
	if err != nil {
		return v, c.Printable(err)
	}
	var info version.Info
	if err := json.Unmarshal(text, &info); err != nil || info.GitVersion == "" {
		return v, errors.New("the answer about its version is not that of an API server")
	}
	v.GitVersion = Clip(info.GitVersion)
	return v, nil
}
