// Package kube builds Kubernetes objects and writes them to real API servers.
//
// Functions such as [Pod] and [Slice] return a new object with common default values. Callers set
// all other fields on the object:
//
//	pod := kube.Mesh(kube.Pod("shop", "web-1", "web"))
//	pod.Annotations = map[string]string{"config.linkerd.io/opaque-ports": "8080"}
//	slice := kube.Slice("shop", "web", "1", kube.PodEndpoint("10.1.0.1", "shop", pod.Name))
//
// All objects are valid for a real API server. Labels, annotations, the proxy's container and link
// Secrets use Linkerd's names. Services have a port 80 with the name http, and their EndpointSlices
// a port 8080 with the same name. Kinds without types in client-go are unstructured. Objects do not
// share memory.
//
// A [Client] has administrator permissions for one cluster. It writes typed, unstructured and YAML
// objects with server-side apply, so that applying an object again updates it. It also issues
// credentials for other users. All methods are safe for concurrent use.
package kube

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/mcs-api/config/crd"
	mcs "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"isthmus/e2e/harness"
)

// Client is a client with administrator permissions for one cluster. It must be closed after use.
type Client struct {
	kubernetes.Interface
	Name    string // name of the cluster
	Dynamic dynamic.Interface

	config *rest.Config
	http   *http.Client
	mapper meta.RESTMapper
}

// NewClient returns a client. It does not send any request.
func NewClient(cluster string, config *rest.Config) (*Client, error) {
	fail := func(err error) (*Client, error) { return nil, fmt.Errorf("cluster %s: %w", cluster, err) }
	config = rest.CopyConfig(config)
	// This suppresses the warnings that core Endpoints are deprecated.
	config.WarningHandlerWithContext, config.WarningHandler = nil, rest.NoWarnings{}
	if err := rest.LoadTLSFiles(config); err != nil {
		return fail(err)
	}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return fail(err)
	}
	c := &Client{Name: cluster, config: config, http: client}
	if c.Interface, err = kubernetes.NewForConfigAndClient(config, client); err != nil {
		return fail(err)
	}
	if c.Dynamic, err = dynamic.NewForConfigAndClient(config, client); err != nil {
		return fail(err)
	}
	c.mapper = restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(c.Discovery()))
	return c, nil
}

// Close closes idle connections.
func (c *Client) Close() { utilnet.CloseIdleConnectionsFor(c.http.Transport) }

// Token returns a token for a ServiceAccount. The token is valid for an hour.
func (c *Client) Token(ctx context.Context, namespace, account string) (string, error) {
	answer, err := c.CoreV1().
		ServiceAccounts(namespace).
		CreateToken(ctx, account, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("cluster %s: token of %s/%s: %w", c.Name, namespace, account, err)
	}
	return answer.Status.Token, nil
}

// Admin returns the client's own credentials.
func (c *Client) Admin() clientcmdapi.AuthInfo {
	return clientcmdapi.AuthInfo{
		ClientCertificateData: c.config.CertData,
		ClientKeyData:         c.config.KeyData,
		Token:                 c.config.BearerToken,
	}
}

// Server returns the address of the API server as https://HOST:PORT.
func (c *Client) Server() string { return c.config.Host }

// Kubeconfig returns a kubeconfig for a user, with the cluster's certificate authority. The server
// is the API server or a proxy in front of it.
func (c *Client) Kubeconfig(server string, user clientcmdapi.AuthInfo) ([]byte, error) {
	text, err := Kubeconfig(
		c.Name,
		clientcmdapi.Cluster{Server: server, CertificateAuthorityData: c.config.CAData},
		user,
	)
	if err != nil {
		return nil, fmt.Errorf("cluster %s: kubeconfig: %w", c.Name, err)
	}
	return text, nil
}

// Refuses returns an error unless the API server rejects a token. The API server caches valid
// tokens and accepts a deleted or expired token for about ten more seconds.
func (c *Client) Refuses(ctx context.Context, token string) error {
	config := rest.AnonymousClientConfig(c.config)
	config.BearerToken = token
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return err
	}
	defer utilnet.CloseIdleConnectionsFor(client.Transport)
	other, err := kubernetes.NewForConfigAndClient(config, client)
	if err != nil {
		return err
	}
	_, err = other.CoreV1().Services("default").List(ctx, metav1.ListOptions{Limit: 1})
	if apierrors.IsUnauthorized(err) {
		return nil
	}
	return errors.Join(fmt.Errorf("cluster %s: the token is not rejected", c.Name), err)
}

const fieldManager = "isthmus-e2e"

// Apply writes objects one after the other with server-side apply. It also writes the status of
// unstructured objects, but not the status of typed objects.
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
			return fmt.Errorf(
				"cluster %s: apply %s %s/%s: %w",
				c.Name,
				resource.Resource,
				u.GetNamespace(),
				u.GetName(),
				err,
			)
		}
	}
	return nil
}

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

// Parse returns the objects from YAML documents in order. It rejects objects without apiVersion,
// kind or name.
func Parse(documents string) (objects []*unstructured.Unstructured, err error) {
	decoder := yaml.NewYAMLOrJSONDecoder(strings.NewReader(documents), 4096)
	for {
		o := &unstructured.Unstructured{}
		switch err := decoder.Decode(&o.Object); {
		case errors.Is(err, io.EOF):
			return objects, nil
		case err != nil:
			return nil, err
		case len(o.Object) == 0: // only comments
		case o.GetAPIVersion() == "" || o.GetKind() == "" || o.GetName() == "":
			return nil, errors.New("a document without apiVersion, kind or name")
		default:
			objects = append(objects, o)
		}
	}
}

// Unstructured converts an object to an unstructured object. A typed object loses its status.
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

// apply writes an object and, if set, its status. It may modify o.
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

// Resource returns the resource for a kind, and whether the resource is namespaced.
func (c *Client) Resource(kind schema.GroupVersionKind) (schema.GroupVersionResource, bool, error) {
	m, err := c.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return schema.GroupVersionResource{}, false, fmt.Errorf("cluster %s: %w", c.Name, err)
	}
	return m.Resource, m.Scope.Name() == meta.RESTScopeNameNamespace, nil
}

// ResourceNamed returns the resource with a lower-case singular or plural name, and whether it is
// namespaced.
func (c *Client) ResourceNamed(name string) (schema.GroupVersionResource, bool, error) {
	kind, err := c.mapper.KindFor(schema.GroupVersionResource{Resource: name})
	if err != nil {
		return schema.GroupVersionResource{}, false, fmt.Errorf("cluster %s: %w", c.Name, err)
	}
	return c.Resource(kind)
}

// In returns the API for a resource in a namespace. The namespace is empty for cluster-scoped
// resources.
func (c *Client) In(resource schema.GroupVersionResource, namespace string) dynamic.ResourceInterface {
	if namespace == "" {
		return c.Dynamic.Resource(resource)
	}
	return c.Dynamic.Resource(resource).Namespace(namespace)
}

// API is the part of client-go's typed interfaces that writes objects.
type API[T any] interface {
	Create(context.Context, T, metav1.CreateOptions) (T, error)
	Update(context.Context, T, metav1.UpdateOptions) (T, error)
}

// Put creates an object or replaces it, regardless of its resource version. Put is cheaper for the
// API server than Apply.
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

// patiently retries a write up to twice if etcd times out, because a busy disk can block for
// seconds. Each attempt must write the same object.
func patiently(write func() error) (err error) {
	for range 3 {
		if err = write(); err == nil || !strings.Contains(err.Error(), "etcdserver: request timed out") {
			return err
		}
	}
	return err
}

// servedWithin limits the time for which an API server may respond with 404 for a resource that is
// already in discovery.
const servedWithin = 10 * time.Second

// onceServed retries a write while the API server does not serve the resource, shortly after a CRD
// has been created or its served versions have changed. Unlike the 404 for a missing object, this
// 404 does not contain a Status.
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

// Create creates new objects one after the other. Create is cheaper for the API server than Apply.
func Create[T any](ctx context.Context, to API[T], objects ...T) error {
	for _, o := range objects {
		if _, err := to.Create(ctx, o, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	return nil
}

// MCSVersions contains the versions of ServiceExports and ServiceImports in the MCS API.
var MCSVersions = []string{"v1alpha1", "v1beta1"}

// ServeMCS installs the CRDs of the MCS API with exactly the given served versions, and waits until
// the API server serves them. Without versions, existing objects stay stored but are not
// accessible.
func (c *Client) ServeMCS(ctx context.Context, versions ...string) error {
	definitions, err := mcsDefinitions()
	if err != nil {
		return err
	}
	for _, o := range definitions {
		all, _, err := unstructured.NestedSlice(o.Object, "spec", "versions")
		if err != nil {
			return err
		}
		for _, v := range all {
			v := v.(map[string]any)
			v["served"] = slices.Contains(versions, v["name"].(string))
		}
		if err := unstructured.SetNestedSlice(o.Object, all, "spec", "versions"); err != nil {
			return err
		}
		if err := c.Apply(ctx, o); err != nil {
			return err
		}
	}
	return c.awaitMCS(ctx, versions)
}

func (c *Client) RemoveMCS(ctx context.Context) error {
	definitions, err := mcsDefinitions()
	if err != nil {
		return err
	}
	resource, _, err := c.ResourceNamed("customresourcedefinition")
	if err != nil {
		return err
	}
	unserved, err := c.servesNoMCS(ctx, resource, definitions)
	if err != nil {
		return err
	}
	if unserved {
		// The API server lists the objects of a CRD before it deletes the CRD. Without a served
		// version, this list can fail for minutes, because the storage is not initialized.
		if err := c.ServeMCS(ctx, MCSVersions...); err != nil {
			return err
		}
	}
	for _, o := range definitions {
		if err := c.In(resource, "").Delete(ctx, o.GetName(), metav1.DeleteOptions{}); err != nil &&
			!apierrors.IsNotFound(err) {
			return fmt.Errorf("cluster %s: delete CRD %s: %w", c.Name, o.GetName(), err)
		}
	}
	if err := c.awaitMCS(ctx, nil); err != nil {
		return fmt.Errorf("%w; %s", err, c.leftOfMCS(ctx))
	}
	// The API server stops serving a CRD before it deletes the CRD. A CRD applied in between is
	// deleted a moment later.
	return harness.Poll(ctx, mcsPatience, 20*time.Millisecond, func() error {
		for _, o := range definitions {
			if _, err := c.In(resource, "").Get(ctx, o.GetName(), metav1.GetOptions{}); !apierrors.IsNotFound(err) {
				return fmt.Errorf("cluster %s: %s (%v)", c.Name, c.leftOfMCS(ctx), err)
			}
		}
		return nil
	})
}

func (c *Client) servesNoMCS(
	ctx context.Context,
	resource schema.GroupVersionResource,
	definitions []*unstructured.Unstructured,
) (bool, error) {
	for _, o := range definitions {
		found, err := c.In(resource, "").Get(ctx, o.GetName(), metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return false, err
		}
		versions, _, err := unstructured.NestedSlice(found.Object, "spec", "versions")
		if err != nil {
			return false, err
		}
		served := func(v any) bool {
			version, ok := v.(map[string]any)
			return ok && version["served"] == true
		}
		if !slices.ContainsFunc(versions, served) {
			return true, nil
		}
	}
	return false, nil
}

func (c *Client) leftOfMCS(ctx context.Context) string {
	definitions, err := mcsDefinitions()
	if err != nil {
		return err.Error()
	}
	resource, _, err := c.ResourceNamed("customresourcedefinition")
	if err != nil {
		return err.Error()
	}
	var left []string
	for _, o := range definitions {
		found, err := c.In(resource, "").Get(ctx, o.GetName(), metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			left = append(left, err.Error())
			continue
		}
		conditions, _, _ := unstructured.NestedSlice(found.Object, "status", "conditions")
		left = append(left, fmt.Sprintf("CRD %s is deleted since %v, with the finalizers %q and the conditions %v",
			o.GetName(), found.GetDeletionTimestamp(), found.GetFinalizers(), conditions))
	}
	if len(left) == 0 {
		return "no CRD is left"
	}
	return strings.Join(left, "; ")
}

func mcsDefinitions() ([]*unstructured.Unstructured, error) {
	return Parse(string(crd.ServiceExportCRD) + "\n---\n" + string(crd.ServiceImportCRD))
}

// mcsPatience is longer than the minute for which the API server waits for the objects of a deleted
// CRD before it tries again.
const mcsPatience = 3 * time.Minute

// awaitMCS waits until both the resources and discovery, which the mapper uses, match the given
// versions. The API server updates discovery and resources separately, so that a resource in
// discovery can still respond with 404.
func (c *Client) awaitMCS(ctx context.Context, versions []string) error {
	return harness.Poll(ctx, mcsPatience, 20*time.Millisecond, func() error {
		meta.MaybeResetRESTMapper(c.mapper)
		for _, version := range MCSVersions {
			served := slices.Contains(versions, version)
			if err := c.mcsDiscovered(version, served); err != nil {
				return err
			}
			if err := c.mcsAnswers(ctx, version, served); err != nil {
				return err
			}
		}
		return nil
	})
}

// mcsDiscovered returns an error unless the presence of a version's resources in discovery equals
// served.
func (c *Client) mcsDiscovered(version string, served bool) error {
	list, err := c.Discovery().ServerResourcesForGroupVersion(mcs.GroupName + "/" + version)
	if apierrors.IsNotFound(err) {
		list, err = &metav1.APIResourceList{}, nil
	}
	if err != nil {
		return err
	}
	n := 0
	if served {
		n = 4 // two kinds and their status
	}
	if len(list.APIResources) != n {
		return fmt.Errorf("cluster %s serves %d resources of version %s", c.Name, len(list.APIResources), version)
	}
	for _, kind := range []string{"ServiceExport", "ServiceImport"} {
		_, err := c.mapper.RESTMapping(schema.GroupKind{Group: mcs.GroupName, Kind: kind}, version)
		if (err == nil) != served {
			return fmt.Errorf("cluster %s, discovery of %s %s: %v", c.Name, version, kind, err)
		}
	}
	return nil
}

// mcsAnswers returns an error unless requests for a version's resources succeed exactly if the
// version is served. It also opens a watch, because the API server can reject watches for a moment
// after the first successful list ("storage is (re)initializing").
func (c *Client) mcsAnswers(ctx context.Context, version string, served bool) error {
	for _, name := range []string{"serviceexports", "serviceimports"} {
		resource := schema.GroupVersionResource{Group: mcs.GroupName, Version: version, Resource: name}
		_, err := c.Dynamic.Resource(resource).List(ctx, metav1.ListOptions{Limit: 1})
		switch {
		case err != nil && !apierrors.IsNotFound(err):
			return fmt.Errorf("cluster %s, list of %s %s: %w", c.Name, name, version, err)
		case (err == nil) != served:
			return fmt.Errorf("cluster %s, list of %s %s: served is %v, want %v",
				c.Name, name, version, err == nil, served)
		}
		if !served {
			continue
		}
		events, err := c.Discovery().RESTClient().Get().
			AbsPath("apis", mcs.GroupName, version, name).
			Param("watch", "true").
			Param("resourceVersion", "0").
			MaxRetries(0). // otherwise the client waits for a second after a rejection
			Stream(ctx)
		if err != nil {
			return fmt.Errorf("cluster %s, watch of %s %s: %w", c.Name, name, version, err)
		}
		_ = events.Close()
	}
	return nil
}
