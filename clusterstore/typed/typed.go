package typed

import (
	"cmp"
	"context"
	"net/http"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	authenticationv1client "k8s.io/client-go/kubernetes/typed/authentication/v1"
	authorizationv1client "k8s.io/client-go/kubernetes/typed/authorization/v1"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	discoveryv1client "k8s.io/client-go/kubernetes/typed/discovery/v1"
	rbacv1client "k8s.io/client-go/kubernetes/typed/rbac/v1"
	"k8s.io/client-go/rest"
)

// Resource is a client of one kind, with the methods that are used of client-go's. A list
// of objects T is an L.
type Resource[T, L any] interface {
	Get(context.Context, string, metav1.GetOptions) (T, error)
	List(context.Context, metav1.ListOptions) (L, error)
	Watch(context.Context, metav1.ListOptions) (watch.Interface, error)
	Create(context.Context, T, metav1.CreateOptions) (T, error)
	Update(context.Context, T, metav1.UpdateOptions) (T, error)
	Patch(ctx context.Context, name string, how types.PatchType, patch []byte, options metav1.PatchOptions, subresources ...string) (T, error)
	Delete(context.Context, string, metav1.DeleteOptions) error
}

// Namespaced returns the client of one kind in a namespace, or in all: "".
type Namespaced[T, L any] func(namespace string) Resource[T, L]

// Review is a client of a kind that is only created, as a question to the API server.
type Review[T any] interface {
	Create(context.Context, T, metav1.CreateOptions) (T, error)
}

// Clients are those of one API server.
type Clients struct {
	ConfigMaps Namespaced[*corev1.ConfigMap, *corev1.ConfigMapList]
	//lint:ignore SA1019 they are read with --enable-endpoint-slices=false
	Endpoints       Namespaced[*corev1.Endpoints, *corev1.EndpointsList]
	EndpointSlices  Namespaced[*discoveryv1.EndpointSlice, *discoveryv1.EndpointSliceList]
	Leases          Namespaced[*coordinationv1.Lease, *coordinationv1.LeaseList]
	Pods            Namespaced[*corev1.Pod, *corev1.PodList]
	Secrets         Namespaced[*corev1.Secret, *corev1.SecretList]
	ServiceAccounts Namespaced[*corev1.ServiceAccount, *corev1.ServiceAccountList]
	Services        Namespaced[*corev1.Service, *corev1.ServiceList]

	ClusterRoleBindings Resource[*rbacv1.ClusterRoleBinding, *rbacv1.ClusterRoleBindingList]
	ClusterRoles        Resource[*rbacv1.ClusterRole, *rbacv1.ClusterRoleList]
	Namespaces          Resource[*corev1.Namespace, *corev1.NamespaceList]
	Nodes               Resource[*corev1.Node, *corev1.NodeList]

	SelfSubjectAccessReviews Review[*authorizationv1.SelfSubjectAccessReview]
	SelfSubjectReviews       Review[*authenticationv1.SelfSubjectReview]
	SubjectAccessReviews     Review[*authorizationv1.SubjectAccessReview]

	// CreateToken asks for a token of a ServiceAccount.
	CreateToken func(ctx context.Context, namespace, account string, request *authenticationv1.TokenRequest) (*authenticationv1.TokenRequest, error)

	// REST makes requests of other paths. Fakes have none.
	REST rest.Interface
}

// New makes the clients of an API server. They share the connections of client.
func New(config *rest.Config, client *http.Client) (*Clients, error) {
	core, err1 := corev1client.NewForConfigAndClient(config, client)
	authentication, err2 := authenticationv1client.NewForConfigAndClient(config, client)
	authorization, err3 := authorizationv1client.NewForConfigAndClient(config, client)
	coordination, err4 := coordinationv1client.NewForConfigAndClient(config, client)
	discovery, err5 := discoveryv1client.NewForConfigAndClient(config, client)
	rbac, err6 := rbacv1client.NewForConfigAndClient(config, client)
	if err := cmp.Or(err1, err2, err3, err4, err5, err6); err != nil {
		return nil, err
	}
	c := Of(core, authentication, authorization, coordination, discovery, rbac)
	c.REST = core.RESTClient()
	return c, nil
}

// Of returns these of client-go's clients, which may be fakes, without REST.
func Of(
	core corev1client.CoreV1Interface, authentication authenticationv1client.AuthenticationV1Interface, authorization authorizationv1client.AuthorizationV1Interface,
	coordination coordinationv1client.CoordinationV1Interface, discovery discoveryv1client.DiscoveryV1Interface, rbac rbacv1client.RbacV1Interface,
) *Clients {
	return &Clients{
		ConfigMaps:      namespaced(core.ConfigMaps),
		Endpoints:       namespaced(core.Endpoints),
		EndpointSlices:  namespaced(discovery.EndpointSlices),
		Leases:          namespaced(coordination.Leases),
		Pods:            namespaced(core.Pods),
		Secrets:         namespaced(core.Secrets),
		ServiceAccounts: namespaced(core.ServiceAccounts),
		Services:        namespaced(core.Services),

		ClusterRoleBindings: rbac.ClusterRoleBindings(),
		ClusterRoles:        rbac.ClusterRoles(),
		Namespaces:          core.Namespaces(),
		Nodes:               core.Nodes(),

		SelfSubjectAccessReviews: authorization.SelfSubjectAccessReviews(),
		SelfSubjectReviews:       authentication.SelfSubjectReviews(),
		SubjectAccessReviews:     authorization.SubjectAccessReviews(),

		CreateToken: func(ctx context.Context, namespace, account string, request *authenticationv1.TokenRequest) (*authenticationv1.TokenRequest, error) {
			return core.ServiceAccounts(namespace).CreateToken(ctx, account, request, metav1.CreateOptions{})
		},
	}
}

// namespaced makes its result of an interface the one that is used.
func namespaced[T, L any, R Resource[T, L]](in func(string) R) Namespaced[T, L] {
	return func(namespace string) Resource[T, L] { return in(namespace) }
}
