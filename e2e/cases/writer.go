package cases

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"isthmus/e2e/harness"
	"isthmus/e2e/harness/kube"
)

var (
	slicesResource   = schema.GroupVersionResource{Group: "discovery.k8s.io", Version: "v1", Resource: "endpointslices"}
	servicesResource = schema.GroupVersionResource{Version: "v1", Resource: "services"}
)

// writer writes the objects of cases to one cluster. It is used by one case at a time.
type writer struct{ *kube.Client }

// written is an object that a case has written.
type written struct {
	resource        schema.GroupVersionResource
	namespace, name string
}

func newWriter(name string, cfg *rest.Config) (*writer, error) {
	cfg = rest.CopyConfig(cfg)
	cfg.Timeout = 30 * time.Second
	client, err := kube.NewClient(name, cfg)
	return &writer{client}, err
}

// delete deletes an object by its lower-case singular kind. Objects without namespaces ignore the one given.
func (w *writer) delete(ctx context.Context, kind, namespace, name string, grace int64) error {
	resource, namespaced, err := w.ResourceNamed(kind)
	if err != nil {
		return err
	}
	if !namespaced {
		namespace = ""
	}
	return w.remove(ctx, written{resource, namespace, name}, grace)
}

func (w *writer) remove(ctx context.Context, o written, grace int64) error {
	background := metav1.DeletePropagationBackground
	err := w.In(o.resource, o.namespace).Delete(ctx, o.name,
		metav1.DeleteOptions{GracePeriodSeconds: &grace, PropagationPolicy: &background})
	if err != nil {
		return fmt.Errorf("cluster %s: delete %s %s/%s: %w", w.Name, o.resource.Resource, o.namespace, o.name, err)
	}
	return nil
}

// ensureNamespace returns when the namespace and its ServiceAccount default are there. A namespace on its way out is
// waited for and made anew.
func (w *writer) ensureNamespace(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	final := func(err error) error { // ends the wait if that can't help
		if apierrors.IsForbidden(err) || apierrors.IsInvalid(err) {
			cancel()
		}
		return err
	}
	err := harness.Poll(ctx, time.Minute, 50*time.Millisecond, func() error {
		err := kube.Create(ctx, w.CoreV1().Namespaces(), kube.Namespace(name))
		if !apierrors.IsAlreadyExists(err) {
			return final(err)
		}
		found, err := w.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
		if err == nil && found.DeletionTimestamp != nil {
			err = errors.New("that of before is still being deleted")
		}
		return final(err)
	})
	if err == nil {
		err = harness.Poll(ctx, time.Minute, 5*time.Millisecond, func() error {
			_, err := w.CoreV1().ServiceAccounts(name).Get(ctx, "default", metav1.GetOptions{})
			return final(err)
		})
	}
	if err != nil {
		return fmt.Errorf("cluster %s: namespace %s: %w", w.Name, name, err)
	}
	return nil
}

// removeEach deletes the objects of a kind in a namespace that have these labels; empty: any.
func (w *writer) removeEach(ctx context.Context, of schema.GroupVersionResource, namespace, labels string) error {
	err := w.In(of, namespace).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: labels})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("cluster %s: delete the %s of %s: %w", w.Name, of.Resource, namespace, err)
	}
	return nil
}

// answers returns an error unless the API server answers that it is ready.
func (w *writer) answers(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if _, err := w.Discovery().RESTClient().Get().AbsPath("/readyz").DoRaw(ctx); err != nil {
		return fmt.Errorf("cluster %s: /readyz: %w", w.Name, err)
	}
	return nil
}
