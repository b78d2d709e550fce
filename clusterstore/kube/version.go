package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"k8s.io/apimachinery/pkg/version"

	"isthmus/internal/legible"
)

// maxVersion is how much of an answer with a version is read, in bytes.
const maxVersion = 4 << 10

// Version asks an API server for its version, such as v1.36.3. The Client must be made by [New].
func (c *Client) Version(ctx context.Context) (string, error) {
	if c.config == nil {
		return "", errors.New("this client has no version")
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base.JoinPath("version").String(), nil)
	if err != nil {
		return "", err
	}
	answer, err := c.http.Do(request)
	if err != nil {
		return "", c.Printable(err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return "", fmt.Errorf("the API server answers %d %s for its version", answer.StatusCode, http.StatusText(answer.StatusCode))
	}
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxVersion))
	if err != nil {
		return "", c.Printable(err)
	}
	var info version.Info
	if err := json.Unmarshal(text, &info); err != nil || info.GitVersion == "" {
		return "", errors.New("the answer about its version is not that of an API server")
	}
	return legible.Text(info.GitVersion, legible.Short), nil
}
