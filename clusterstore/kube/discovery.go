package kube

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Serves asks API discovery whether the API server has a resource in this version. An
// error means that it is not known: discovery fails, is forbidden, contradicts itself,
// or answers what no API server would.
func (c *Client) Serves(ctx context.Context, resource schema.GroupVersionResource) (bool, error) {
	if c.Sources.Serves == nil {
		return false, errors.New("this client has no discovery")
	}
	return c.Sources.Serves(ctx, resource)
}
