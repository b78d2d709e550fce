package decode

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

const (
	// discoveryTimeout is how long an answer of API discovery may take.
	discoveryTimeout = 10 * time.Second
	// maxDiscovery is for such an answer, in bytes. That with all resources of a group has some kilobytes.
	maxDiscovery = 1 << 20
	// maxNames is how many resources or groups it may have.
	maxNames = 10_000
)

// serves implements [Sources].Serves. Answers are looked through as they come.
func (a *api) serves(ctx context.Context, resource schema.GroupVersionResource) (there bool, err error) {
	e := newEndpoint(a, resource.GroupVersion(), resource.Resource, "")
	of := ""
	err = e.discover(ctx, e.path[:len(e.path)-len("/"+resource.Resource)], func(v *values, key string) (err error) {
		switch key {
		case "groupVersion":
			of, err = v.text()
		case "resources":
			err = v.each("name", func(name string) { there = there || name == resource.Resource })
		default:
			err = v.skip()
		}
		return err
	})
	switch {
	case apierrors.IsNotFound(err) && resource.Group != "":
		return false, e.lacksVersion(ctx, resource.GroupVersion())
	case err != nil:
		return false, err
	case of != resource.GroupVersion().String():
		return false, fmt.Errorf("API discovery of %s has no list of resources", resource.GroupVersion())
	}
	return there, nil
}

// lacksVersion returns nil if the API server's list of groups does not have the version.
func (e *endpoint) lacksVersion(ctx context.Context, version schema.GroupVersion) error {
	groups, there := 0, false
	err := e.discover(ctx, "/apis", func(v *values, key string) error {
		if key != "groups" {
			return v.skip()
		}
		return v.all('[', ']', func() error {
			if groups++; groups > maxNames {
				return errManyNames
			}
			return v.object(func(key string) error {
				if key != "versions" {
					return v.skip()
				}
				return v.each("groupVersion", func(name string) { there = there || name == version.String() })
			})
		})
	})
	switch {
	case err != nil:
		return err
	case groups == 0:
		return errors.New("API discovery has no list of groups")
	case there:
		return fmt.Errorf("API discovery lists %s and does not find it", version)
	}
	return nil
}

// discover asks for a document of API discovery and calls member for each of its members.
func (e *endpoint) discover(ctx context.Context, path string, member func(v *values, key string) error) error {
	ctx, stop := context.WithTimeout(ctx, discoveryTimeout)
	defer stop()
	at := *e
	at.path = path
	body, err := at.get(ctx, metav1.ListOptions{}, runtime.ContentTypeJSON)
	if err != nil {
		return err
	}
	defer body.Close()
	v := values{from: bufio.NewReader(&bounded{body, maxDiscovery, maxDiscovery}), api: e.api, ctx: ctx}
	return errCutText(v.object(func(key string) error { return member(&v, key) }))
}

var errManyNames = fmt.Errorf("an answer of API discovery has more than %d names: check that the server is an API server", maxNames)

// each calls f for a member of each object in a list.
func (v *values) each(member string, f func(string)) error {
	n := 0
	return v.all('[', ']', func() error {
		if n++; n > maxNames {
			return errManyNames
		}
		return v.object(func(key string) error {
			if key != member {
				return v.skip()
			}
			text, err := v.text()
			if err == nil {
				f(text)
			}
			return err
		})
	})
}
