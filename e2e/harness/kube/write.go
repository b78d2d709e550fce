package kube

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes/scheme"

	"isthmus/e2e/harness"
)

const fieldManager = "isthmus-e2e"

// Apply writes objects by server-side apply, one after the other. The status of unstructured ones is written too, that of
// typed ones is not.
func (c *Client) Apply(ctx context.Context, objects ...runtime.Object) error {
	for _, o := range objects {
		u, err := Unstructured(o)
		if err != nil {
			return fmt.Errorf("cluster %s: %w", c.Name, err)
		}
		resource, _, err := c.Resource(u.GroupVersionKind())
		if err != nil {
			return err
		}
		apply := func() error { return patiently(func() error { return c.apply(ctx, resource, u.DeepCopy()) }) }
		if err := onceServed(ctx, apply); err != nil {
			return fmt.Errorf("cluster %s: apply %s %s/%s: %w", c.Name, resource.Resource, u.GetNamespace(), u.GetName(), err)
		}
	}
	return nil
}

// ApplyYAML writes the objects of YAML documents.
func (c *Client) ApplyYAML(ctx context.Context, documents string) error {
	objects, err := Parse(documents)
	if err != nil {
		return fmt.Errorf("cluster %s: %w", c.Name, err)
	}
	for _, o := range objects {
		if err := c.Apply(ctx, o); err != nil {
			return err
		}
	}
	return nil
}

// Parse returns the objects of YAML documents in order. It refuses one without apiVersion, kind or name.
func Parse(documents string) (objects []*unstructured.Unstructured, err error) {
	decoder := yaml.NewYAMLOrJSONDecoder(strings.NewReader(documents), 4096)
	for {
		o := &unstructured.Unstructured{}
		switch err := decoder.Decode(&o.Object); {
		case errors.Is(err, io.EOF):
			return objects, nil
		case err != nil:
			return nil, err
		case len(o.Object) == 0: // nothing but comments
		case o.GetAPIVersion() == "" || o.GetKind() == "" || o.GetName() == "":
			return nil, errors.New("a document without apiVersion, kind or name")
		default:
			objects = append(objects, o)
		}
	}
}

// Unstructured returns an object as a new unstructured one. A typed one loses its status.
func Unstructured(o runtime.Object) (*unstructured.Unstructured, error) {
	if u, ok := o.(*unstructured.Unstructured); ok {
		return u.DeepCopy(), nil
	}
	kinds, _, err := scheme.Scheme.ObjectKinds(o)
	if err != nil {
		return nil, err
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		return nil, err
	}
	delete(content, "status")
	u := &unstructured.Unstructured{Object: content}
	u.SetGroupVersionKind(kinds[0])
	return u, nil
}

// apply writes an object, and its status if it has one. It may change o.
func (c *Client) apply(ctx context.Context, resource schema.GroupVersionResource, o *unstructured.Unstructured) error {
	to, options := c.In(resource, o.GetNamespace()), metav1.ApplyOptions{FieldManager: fieldManager, Force: true}
	status, hasStatus := o.Object["status"]
	delete(o.Object, "status")
	if _, err := to.Apply(ctx, o.GetName(), o, options); err != nil || !hasStatus {
		return err
	}
	head := map[string]any{"name": o.GetName()}
	if o.GetNamespace() != "" {
		head["namespace"] = o.GetNamespace()
	}
	_, err := to.ApplyStatus(ctx, o.GetName(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": o.GetAPIVersion(), "kind": o.GetKind(), "metadata": head, "status": status,
	}}, options)
	return err
}

// Resource returns the resource of a kind, and whether its objects have namespaces.
func (c *Client) Resource(kind schema.GroupVersionKind) (schema.GroupVersionResource, bool, error) {
	m, err := c.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return schema.GroupVersionResource{}, false, fmt.Errorf("cluster %s: %w", c.Name, err)
	}
	return m.Resource, m.Scope.Name() == meta.RESTScopeNameNamespace, nil
}

// ResourceNamed returns a resource by its lower-case name, singular or plural, and whether its objects have namespaces.
func (c *Client) ResourceNamed(name string) (schema.GroupVersionResource, bool, error) {
	kind, err := c.mapper.KindFor(schema.GroupVersionResource{Resource: name})
	if err != nil {
		return schema.GroupVersionResource{}, false, fmt.Errorf("cluster %s: %w", c.Name, err)
	}
	return c.Resource(kind)
}

// In returns the API of a resource in a namespace, or (empty) of one whose objects have none.
func (c *Client) In(resource schema.GroupVersionResource, namespace string) dynamic.ResourceInterface {
	if namespace == "" {
		return c.Dynamic.Resource(resource)
	}
	return c.Dynamic.Resource(resource).Namespace(namespace)
}

// API is how client-go writes objects of a type.
type API[T any] interface {
	Create(context.Context, T, metav1.CreateOptions) (T, error)
	Update(context.Context, T, metav1.UpdateOptions) (T, error)
}

// Put creates an object or replaces it, whatever its version. It costs the API server less than Apply.
func Put[T any](ctx context.Context, to API[T], o T) (written T, err error) {
	err = patiently(func() (err error) {
		written, err = to.Update(ctx, o, metav1.UpdateOptions{})
		if apierrors.IsNotFound(err) {
			written, err = to.Create(ctx, o, metav1.CreateOptions{})
		}
		return err
	})
	return written, err
}

// patiently writes again, twice at most, if etcd was too slow: a disk under load has such moments, and each takes seconds.
// What is written must be the same each time.
func patiently(write func() error) (err error) {
	for range 3 {
		if err = write(); err == nil || !strings.Contains(err.Error(), "etcdserver: request timed out") {
			return err
		}
	}
	return err
}

// servedWithin is how long an API server may answer 404 for a resource that its discovery names already.
const servedWithin = 10 * time.Second

// onceServed repeats a write while the API server does not serve the resource, which happens for a moment after a CRD
// was created or its served versions changed. Such a 404 is not a Status of the API, as one of a missing object is.
func onceServed(ctx context.Context, write func() error) error {
	deadline := time.Now().Add(servedWithin)
	for {
		err := write()
		notServed := apierrors.IsNotFound(err) &&
			apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
		if !notServed || time.Now().After(deadline) {
			return err
		}
		if ended := harness.Pause(ctx, 20*time.Millisecond); ended != nil {
			return err
		}
	}
}

// Create creates objects, which must not be there, one after the other. It costs the API server less than Apply.
func Create[T any](ctx context.Context, to API[T], objects ...T) error {
	for _, o := range objects {
		if _, err := to.Create(ctx, o, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	return nil
}
