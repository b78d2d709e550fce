package shop

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"text/template"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
)

//go:embed objects/*.yaml
var objectFiles embed.FS

var objects = template.Must(template.New("").Option("missingkey=error").ParseFS(objectFiles, "objects/*.yaml"))

// render returns the objects of a template in order.
func render(name string, data any) ([]*unstructured.Unstructured, error) {
	var text bytes.Buffer
	if err := objects.ExecuteTemplate(&text, name, data); err != nil {
		return nil, fmt.Errorf("objects: %w", err)
	}
	list, err := decode(&text)
	if err != nil {
		return nil, fmt.Errorf("objects: %s: %w", name, err)
	}
	return list, nil
}

// decode returns the objects of YAML documents in order.
func decode(text io.Reader) ([]*unstructured.Unstructured, error) {
	var list []*unstructured.Unstructured
	decoder := yaml.NewYAMLOrJSONDecoder(text, 4096)
	for {
		object := &unstructured.Unstructured{}
		switch err := decoder.Decode(&object.Object); {
		case errors.Is(err, io.EOF):
			return list, nil
		case err != nil:
			return nil, err
		case object.Object != nil: // not a part without anything but comments
			list = append(list, object)
		}
	}
}

// apply writes the objects of a template by server-side apply; what is there
// already becomes what the template says.
func (c *Cluster) apply(ctx context.Context, name string, data any) error {
	list, err := render(name, data)
	if err != nil {
		return err
	}
	return c.applyAll(ctx, list)
}

// Apply writes the objects of YAML documents by server-side apply.
func (c *Cluster) Apply(ctx context.Context, documents io.Reader) error {
	list, err := decode(documents)
	if err != nil {
		return err
	}
	return c.applyAll(ctx, list)
}

func (c *Cluster) applyAll(ctx context.Context, list []*unstructured.Unstructured) error {
	for _, object := range list {
		if err := c.applyOne(ctx, object); err != nil {
			return fmt.Errorf("cluster %s: apply %s %s: %w", c.Name, object.GetKind(), object.GetName(), err)
		}
	}
	return nil
}

func (c *Cluster) applyOne(ctx context.Context, object *unstructured.Unstructured) error {
	kind := object.GroupVersionKind()
	mapping, err := c.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return err
	}
	var resource dynamic.ResourceInterface = c.dynamic.Resource(mapping.Resource)
	if namespace := object.GetNamespace(); namespace != "" {
		resource = c.dynamic.Resource(mapping.Resource).Namespace(namespace)
	}
	options := metav1.ApplyOptions{FieldManager: "isthmus-demo", Force: true}
	if _, err := resource.Apply(ctx, object.GetName(), object, options); err != nil {
		return err
	}
	if object.Object["status"] == nil {
		return nil
	}
	_, err = resource.ApplyStatus(ctx, object.GetName(), object, options)
	return err
}
