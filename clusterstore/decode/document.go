package decode

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

const (
	// documentTimeout is how long an answer may take that is decoded as a whole.
	documentTimeout = 10 * time.Second
	// maxDocument is for such an answer, in bytes. API discovery of all resources of a group has some kilobytes.
	maxDocument = 1 << 20
)

// serves implements [Sources].Serves.
func (a *api) serves(ctx context.Context, resource schema.GroupVersionResource) (there bool, err error) {
	var list struct {
		GroupVersion string `json:"groupVersion"`
		Resources    []struct {
			Name string `json:"name"`
		} `json:"resources"`
	}
	err = a.document(ctx, pathOf(resource.GroupVersion()), &list)
	switch {
	case apierrors.IsNotFound(err) && resource.Group != "":
		return false, a.lacksVersion(ctx, resource.GroupVersion())
	case err != nil:
		return false, err
	case list.GroupVersion != resource.GroupVersion().String():
		return false, fmt.Errorf("API discovery of %s has no list of resources", resource.GroupVersion())
	}
	for _, r := range list.Resources {
		there = there || r.Name == resource.Resource
	}
	return there, nil
}

// lacksVersion returns nil if the API server's list of groups does not have the version.
func (a *api) lacksVersion(ctx context.Context, version schema.GroupVersion) error {
	var list struct {
		Groups []struct {
			Versions []struct {
				GroupVersion string `json:"groupVersion"`
			} `json:"versions"`
		} `json:"groups"`
	}
	if err := a.document(ctx, "/apis", &list); err != nil {
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

// document implements [Sources].Document.
func (a *api) document(ctx context.Context, path string, into any) error {
	ctx, stop := context.WithTimeout(ctx, documentTimeout)
	defer stop()
	at := endpoint{a, path, schema.GroupResource{}}
	body, err := at.get(ctx, metav1.ListOptions{}, runtime.ContentTypeJSON)
	if err != nil {
		return err
	}
	defer body.Close()
	v := values{&input{bufio.NewReader(&bounded{body, maxDocument, maxDocument}), a, ctx}}
	return cutOff(v.value(func(data []byte, whole error) error {
		switch {
		case whole != nil:
			return fmt.Errorf("the API server's answer can't be read: %w: check that the server is an API server", whole)
		case json.Unmarshal(data, into) != nil:
			return errNoJSON
		}
		return nil
	}))
}
