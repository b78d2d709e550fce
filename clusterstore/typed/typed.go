package typed

import (
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

	// NoWatchList: the API can't stream a list (test fakes can't).
	NoWatchList bool
}

// IsWatchListSemanticsUnSupported is how client-go's informers ask for NoWatchList.
func (c *Clients) IsWatchListSemanticsUnSupported() bool { return c.NoWatchList }

// New makes the clients of an API server. They share the connections of client.
func New(config *rest.Config, client *http.Client) (*Clients, error) {
	g := groups{config: config, http: client}
	core := g.client(corev1.SchemeGroupVersion)
	authentication, authorization := g.client(authenticationv1.SchemeGroupVersion), g.client(authorizationv1.SchemeGroupVersion)
	coordination, discovery := g.client(coordinationv1.SchemeGroupVersion), g.client(discoveryv1.SchemeGroupVersion)
	rbac := g.client(rbacv1.SchemeGroupVersion)
	if g.err != nil {
		return nil, g.err
	}
	return &Clients{
		ConfigMaps: namespaced[corev1.ConfigMap, corev1.ConfigMapList](core, "configmaps"),
		//lint:ignore SA1019 as above
		Endpoints:       namespaced[corev1.Endpoints, corev1.EndpointsList](core, "endpoints"),
		EndpointSlices:  namespaced[discoveryv1.EndpointSlice, discoveryv1.EndpointSliceList](discovery, "endpointslices"),
		Leases:          namespaced[coordinationv1.Lease, coordinationv1.LeaseList](coordination, "leases"),
		Pods:            namespaced[corev1.Pod, corev1.PodList](core, "pods"),
		Secrets:         namespaced[corev1.Secret, corev1.SecretList](core, "secrets"),
		ServiceAccounts: namespaced[corev1.ServiceAccount, corev1.ServiceAccountList](core, "serviceaccounts"),
		Services:        namespaced[corev1.Service, corev1.ServiceList](core, "services"),

		ClusterRoleBindings: namespaced[rbacv1.ClusterRoleBinding, rbacv1.ClusterRoleBindingList](rbac, "clusterrolebindings")(""),
		ClusterRoles:        namespaced[rbacv1.ClusterRole, rbacv1.ClusterRoleList](rbac, "clusterroles")(""),
		Namespaces:          namespaced[corev1.Namespace, corev1.NamespaceList](core, "namespaces")(""),
		Nodes:               namespaced[corev1.Node, corev1.NodeList](core, "nodes")(""),

		SelfSubjectAccessReviews: review[authorizationv1.SelfSubjectAccessReview](authorization, "selfsubjectaccessreviews"),
		SelfSubjectReviews:       review[authenticationv1.SelfSubjectReview](authentication, "selfsubjectreviews"),
		SubjectAccessReviews:     review[authorizationv1.SubjectAccessReview](authorization, "subjectaccessreviews"),

		CreateToken: func(ctx context.Context, namespace, account string, request *authenticationv1.TokenRequest) (*authenticationv1.TokenRequest, error) {
			answer := new(authenticationv1.TokenRequest)
			err := core.Post().UseProtobufAsDefault().Namespace(namespace).Resource("serviceaccounts").Name(account).SubResource("token").
				Body(request).Do(ctx).Into(answer)
			return answer, err
		},
		REST: core,
	}, nil
}
