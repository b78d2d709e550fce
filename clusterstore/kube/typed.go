package kube

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	goruntime "runtime"
	"runtime/debug"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/gentype"
	authenticationv1 "k8s.io/client-go/kubernetes/typed/authentication/v1"
	authorizationv1 "k8s.io/client-go/kubernetes/typed/authorization/v1"
	coordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	discoveryv1 "k8s.io/client-go/kubernetes/typed/discovery/v1"
	rbacv1 "k8s.io/client-go/kubernetes/typed/rbac/v1"
	"k8s.io/client-go/rest"
	mcs "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"
)

// Clients contains typed clients for one API server. For requests to other paths, use the
// [rest.Interface] from CoreV1Interface.RESTClient.
type Clients struct {
	authenticationv1.AuthenticationV1Interface
	authorizationv1.AuthorizationV1Interface
	coordinationv1.CoordinationV1Interface
	corev1.CoreV1Interface
	discoveryv1.DiscoveryV1Interface
	rbacv1.RbacV1Interface
}

// UserAgent returns the user agent of requests to API servers, in the form isthmus/VERSION
// (OS/ARCHITECTURE). When Isthmus writes an object, the API server records the part of the user
// agent before the slash as the field manager.
func UserAgent() string {
	version := "unknown"
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		version = strings.Trim(info.Main.Version, "()") // "(devel)" would be a comment
	}
	return fmt.Sprintf("isthmus/%s (%s/%s)", version, goruntime.GOOS, goruntime.GOARCH)
}

// NewTyped returns typed clients for an API server, without sending a request. The typed clients
// share the connections of the given HTTP client, and are safe for concurrent use. Only watches
// start goroutines.
func NewTyped(config *rest.Config, client *http.Client) (*Clients, error) {
	authentication, err1 := authenticationv1.NewForConfigAndClient(config, client)
	authorization, err2 := authorizationv1.NewForConfigAndClient(config, client)
	coordination, err3 := coordinationv1.NewForConfigAndClient(config, client)
	core, err4 := corev1.NewForConfigAndClient(config, client)
	discovery, err5 := discoveryv1.NewForConfigAndClient(config, client)
	rbac, err6 := rbacv1.NewForConfigAndClient(config, client)
	return &Clients{
		authentication, authorization, coordination, core, discovery, rbac,
	}, cmp.Or(err1, err2, err3, err4, err5, err6)
}

// WithStatus is a client for a kind with a status subresource. WithStatus contains only the
// client-go methods that Isthmus uses.
type WithStatus[T any] interface {
	Get(context.Context, string, metav1.GetOptions) (T, error)
	Create(context.Context, T, metav1.CreateOptions) (T, error)
	Update(context.Context, T, metav1.UpdateOptions) (T, error)
	UpdateStatus(context.Context, T, metav1.UpdateOptions) (T, error)
	Delete(context.Context, string, metav1.DeleteOptions) error
}

// MCS contains functions that return clients for a namespace. All of the clients use the same
// version of the MCS-API.
type MCS struct {
	ServiceImports func(namespace string) WithStatus[*mcs.ServiceImport]
	ServiceExports func(namespace string) WithStatus[*mcs.ServiceExport]
}

// NewMCS returns clients for v1beta1 or v1alpha1 of the MCS-API, without sending a request. The
// versions v1beta1 and v1alpha1 have the same fields.
func NewMCS(version string, config *rest.Config, client *http.Client) (MCS, error) {
	v := schema.GroupVersion{Group: mcs.GroupName, Version: version}
	s := runtime.NewScheme()
	s.AddKnownTypes(v, &mcs.ServiceImport{}, &mcs.ServiceExport{})
	metav1.AddToGroupVersion(s, v)
	metav1.AddToGroupVersion(s, schema.GroupVersion{Version: "v1"}) // for errors
	c := rest.CopyConfig(config)
	c.GroupVersion = &v
	c.APIPath = "/apis"
	c.NegotiatedSerializer = serializer.NewCodecFactory(s).WithoutConversion()
	c.ContentType = runtime.ContentTypeJSON
	c.AcceptContentTypes = runtime.ContentTypeJSON
	api, err := rest.RESTClientForConfigAndClient(c, client)
	if err != nil {
		return MCS{}, err
	}
	options := runtime.NewParameterCodec(s)
	return MCS{
		ServiceImports: func(namespace string) WithStatus[*mcs.ServiceImport] {
			return gentype.NewClient(mcs.ServiceImportPluralName, api, options, namespace, func() *mcs.ServiceImport {
				return &mcs.ServiceImport{}
			})
		},
		ServiceExports: func(namespace string) WithStatus[*mcs.ServiceExport] {
			return gentype.NewClient(mcs.ServiceExportPluralName, api, options, namespace, func() *mcs.ServiceExport {
				return &mcs.ServiceExport{}
			})
		},
	}, nil
}
