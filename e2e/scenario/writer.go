package scenario

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
)

const fieldManager = "scenario"

var slicesResource = schema.GroupVersionResource{Group: "discovery.k8s.io", Version: "v1", Resource: "endpointslices"}

// writer writes the objects of cases to one cluster. It is used by one case at a time.
type writer struct {
	name    string
	rest    *rest.Config
	client  *http.Client
	typed   kubernetes.Interface
	dynamic dynamic.Interface
	mapper  meta.RESTMapper
}

// written is an object that a case has written.
type written struct {
	resource        schema.GroupVersionResource
	namespace, name string
}

func newWriter(name string, cfg *rest.Config) (*writer, error) {
	cfg = rest.CopyConfig(cfg)
	cfg.Timeout = 30 * time.Second
	cfg.WarningHandler = rest.NoWarnings{}
	client, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return nil, fmt.Errorf("cluster %s: %w", name, err)
	}
	typed, err := kubernetes.NewForConfigAndClient(cfg, client)
	if err != nil {
		return nil, fmt.Errorf("cluster %s: %w", name, err)
	}
	dyn, err := dynamic.NewForConfigAndClient(cfg, client)
	if err != nil {
		return nil, fmt.Errorf("cluster %s: %w", name, err)
	}
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(typed.Discovery()))
	return &writer{name: name, rest: cfg, client: client, typed: typed, dynamic: dyn, mapper: mapper}, nil
}

// close gives the connections back.
func (w *writer) close() { w.client.CloseIdleConnections() }

// in returns the client for a resource in a namespace, or for a cluster-scoped one.
func (w *writer) in(resource schema.GroupVersionResource, namespace string) dynamic.ResourceInterface {
	if namespace == "" {
		return w.dynamic.Resource(resource)
	}
	return w.dynamic.Resource(resource).Namespace(namespace)
}

// mapping returns the resource of an object's kind, and whether its objects have namespaces.
func (w *writer) mapping(kind schema.GroupVersionKind) (schema.GroupVersionResource, bool, error) {
	m, err := w.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return schema.GroupVersionResource{}, false, fmt.Errorf("cluster %s: %w", w.name, err)
	}
	return m.Resource, m.Scope.Name() == meta.RESTScopeNameNamespace, nil
}

// apply writes an object, and its status if it has one, by server-side apply.
func (w *writer) apply(ctx context.Context, resource schema.GroupVersionResource, o *unstructured.Unstructured) error {
	o = o.DeepCopy()
	status, hasStatus := o.Object["status"]
	delete(o.Object, "status")
	if err := w.patch(ctx, resource, o); err != nil || !hasStatus {
		return err
	}
	head := object{"name": o.GetName()}
	if o.GetNamespace() != "" {
		head["namespace"] = o.GetNamespace()
	}
	return w.patch(ctx, resource, &unstructured.Unstructured{Object: object{
		"apiVersion": o.GetAPIVersion(), "kind": o.GetKind(), "metadata": head, "status": status,
	}}, "status")
}

func (w *writer) patch(ctx context.Context, resource schema.GroupVersionResource, o *unstructured.Unstructured, sub ...string) error {
	body, err := json.Marshal(o.Object)
	if err != nil {
		return fmt.Errorf("%s %s: %w", resource.Resource, o.GetName(), err)
	}
	force := true
	_, err = w.in(resource, o.GetNamespace()).Patch(ctx, o.GetName(), types.ApplyPatchType, body,
		metav1.PatchOptions{FieldManager: fieldManager, Force: &force}, sub...)
	if err != nil {
		return fmt.Errorf("cluster %s: apply %s %s/%s: %w", w.name, resource.Resource, o.GetNamespace(), o.GetName(), err)
	}
	return nil
}

// delete deletes an object by its lower-case singular kind. Objects without namespaces ignore the one given.
func (w *writer) delete(ctx context.Context, kind, namespace, name string, grace int64) error {
	gvk, err := w.mapper.KindFor(schema.GroupVersionResource{Resource: kind})
	if err != nil {
		return fmt.Errorf("cluster %s: %w", w.name, err)
	}
	resource, namespaced, err := w.mapping(gvk)
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
	err := w.in(o.resource, o.namespace).Delete(ctx, o.name,
		metav1.DeleteOptions{GracePeriodSeconds: &grace, PropagationPolicy: &background})
	if err != nil {
		return fmt.Errorf("cluster %s: delete %s %s/%s: %w", w.name, o.resource.Resource, o.namespace, o.name, err)
	}
	return nil
}

// ensureNamespace returns when the namespace and its ServiceAccount default are there. A namespace on its way out is
// waited for and made anew.
func (w *writer) ensureNamespace(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	namespaces := w.typed.CoreV1().Namespaces()
	for {
		ns := &unstructured.Unstructured{Object: object{"apiVersion": "v1", "kind": "Namespace", "metadata": object{"name": name}}}
		_, err := w.dynamic.Resource(namespaceResource).Create(ctx, ns, metav1.CreateOptions{FieldManager: fieldManager})
		if err == nil {
			break
		}
		if !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("cluster %s: create namespace %s: %w", w.name, name, err)
		}
		found, err := namespaces.Get(ctx, name, metav1.GetOptions{})
		if err == nil && found.DeletionTimestamp == nil {
			break
		}
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("cluster %s: namespace %s: %w", w.name, name, err)
		}
		if err := pause(ctx, 50*time.Millisecond); err != nil {
			return fmt.Errorf("cluster %s: namespace %s of before is still being deleted: %w", w.name, name, err)
		}
	}
	for {
		_, err := w.typed.CoreV1().ServiceAccounts(name).Get(ctx, "default", metav1.GetOptions{})
		if err == nil {
			return nil
		}
		if !apierrors.IsNotFound(err) {
			return fmt.Errorf("cluster %s: service account default of %s: %w", w.name, name, err)
		}
		if err := pause(ctx, 5*time.Millisecond); err != nil {
			return fmt.Errorf("cluster %s: no service account default in %s: %w", w.name, name, err)
		}
	}
}

var namespaceResource = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}

// removeNamespace deletes a namespace, its EndpointSlices at once: the gateway writes some too. It does not wait until
// the namespace is gone.
func (w *writer) removeNamespace(ctx context.Context, name string) error {
	err := w.in(slicesResource, name).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("cluster %s: delete the slices of %s: %w", w.name, name, err)
	}
	err = w.typed.CoreV1().Namespaces().Delete(ctx, name, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("cluster %s: delete namespace %s: %w", w.name, name, err)
	}
	return nil
}

// answers returns an error when the API server does not say that it is ready.
func (w *writer) answers(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if _, err := w.typed.Discovery().RESTClient().Get().AbsPath("/readyz").DoRaw(ctx); err != nil {
		return fmt.Errorf("cluster %s: /readyz: %w", w.name, err)
	}
	return nil
}
