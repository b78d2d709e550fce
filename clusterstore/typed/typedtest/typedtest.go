// Package typedtest makes typed clients of client-go's fake clientset. It is for tests
// only: the clientset has the types of all of Kubernetes' API groups.
package typedtest

import (
	"context"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"isthmus/clusterstore/typed"
)

// Clients are those of a fake. They have no REST, and can't stream lists.
func Clients(api kubernetes.Interface) *typed.Clients {
	core := api.CoreV1()
	return &typed.Clients{
		ConfigMaps:      namespaced(core.ConfigMaps),
		Endpoints:       namespaced(core.Endpoints),
		EndpointSlices:  namespaced(api.DiscoveryV1().EndpointSlices),
		Leases:          namespaced(api.CoordinationV1().Leases),
		Pods:            namespaced(core.Pods),
		Secrets:         namespaced(core.Secrets),
		ServiceAccounts: namespaced(core.ServiceAccounts),
		Services:        namespaced(core.Services),

		ClusterRoleBindings: api.RbacV1().ClusterRoleBindings(),
		ClusterRoles:        api.RbacV1().ClusterRoles(),
		Namespaces:          core.Namespaces(),
		Nodes:               core.Nodes(),

		SelfSubjectAccessReviews: api.AuthorizationV1().SelfSubjectAccessReviews(),
		SelfSubjectReviews:       api.AuthenticationV1().SelfSubjectReviews(),
		SubjectAccessReviews:     api.AuthorizationV1().SubjectAccessReviews(),

		CreateToken: func(ctx context.Context, namespace, account string, request *authenticationv1.TokenRequest) (*authenticationv1.TokenRequest, error) {
			return core.ServiceAccounts(namespace).CreateToken(ctx, account, request, metav1.CreateOptions{})
		},
		NoWatchList: true,
	}
}

func namespaced[T, L any, R typed.Resource[T, L]](in func(string) R) typed.Namespaced[T, L] {
	return func(namespace string) typed.Resource[T, L] { return in(namespace) }
}
