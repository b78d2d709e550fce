package decode

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

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
func (a *api) serves(ctx context.Context, resource string, in ...schema.GroupVersion) (bool, error) {
	var all metav1.APIGroupList
	if err := a.document(ctx, "/apis", &all); err != nil {
		return false, err
	}
	if len(all.Groups) == 0 {
		return false, errors.New("API discovery has no list of groups")
	}
	for _, version := range in {
		if version.Group != "" && !slices.ContainsFunc(all.Groups, func(g metav1.APIGroup) bool {
			return slices.ContainsFunc(g.Versions, func(v metav1.GroupVersionForDiscovery) bool { return v.GroupVersion == version.String() })
		}) {
			continue
		}
		var list metav1.APIResourceList
		switch err := a.document(ctx, pathOf(version), &list); {
		case err != nil:
			return false, fmt.Errorf("API discovery of %s: %w", version, err)
		case list.GroupVersion != version.String():
			return false, fmt.Errorf("API discovery of %s has no list of resources", version)
		case slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == resource }):
			return true, nil
		}
	}
	return false, nil
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
	data, err := io.ReadAll(limited(body, maxDocument))
	if err == nil {
		err = countable(data)
	}
	switch {
	case err != nil:
		return fmt.Errorf("the API server's answer can't be read: %w: check that the server is an API server", cutOff(err))
	case json.Unmarshal(data, into) != nil:
		return errNoJSON
	}
	return nil
}
