package kube

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"isthmus/clusterstore/budget"
)

// discoveryTimeout is how long an answer of API discovery may take.
const discoveryTimeout = 10 * time.Second

// Serves asks API discovery whether the API server has a resource in this version. An
// error means that it is not known: discovery fails, is forbidden, contradicts itself,
// or answers what no API server would, or more than the budget of ctx's request allows.
func (c *Client) Serves(ctx context.Context, resource schema.GroupVersionResource) (bool, error) {
	if c.config == nil {
		return false, errors.New("this client has no discovery")
	}
	version := resource.GroupVersion()
	path := "/apis/" + version.String()
	if version.Group == "" {
		path = "/api/" + version.Version
	}
	var list metav1.APIResourceList
	switch err := c.discover(ctx, path, &list); {
	case apierrors.IsNotFound(err) && version.Group != "":
		return false, c.lacksVersion(ctx, version)
	case err != nil:
		return false, err
	case list.GroupVersion != version.String():
		return false, fmt.Errorf("API discovery of %s has no list of resources", version)
	}
	return slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == resource.Resource }), nil
}

// lacksVersion returns nil if the API server's list of groups does not have the version.
func (c *Client) lacksVersion(ctx context.Context, version schema.GroupVersion) error {
	var list metav1.APIGroupList
	if err := c.discover(ctx, "/apis", &list); err != nil {
		return err
	}
	if len(list.Groups) == 0 {
		return errors.New("API discovery has no list of groups")
	}
	for _, g := range list.Groups {
		for _, v := range g.Versions {
			if v.GroupVersion == version.String() {
				return fmt.Errorf("API discovery lists %s and does not find it", version)
			}
		}
	}
	return nil
}

func (c *Client) discover(ctx context.Context, path string, into runtime.Object) error {
	ctx, stop := context.WithTimeout(ctx, discoveryTimeout)
	defer stop()
	// Each answer has the turn to be decoded for itself: the next one may take long to come.
	ctx, request := budget.From(ctx).Another(ctx)
	defer request.End()
	return c.REST.Get().AbsPath(path).Do(ctx).Into(into)
}
