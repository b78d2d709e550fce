// Package kubetest makes typed clients of client-go's fake clientset.
package kubetest

import (
	"k8s.io/client-go/kubernetes"

	"isthmus/clusterstore/kube"
)

// Clients are those of a fake.
func Clients(api kubernetes.Interface) *kube.Clients {
	return &kube.Clients{
		AuthenticationV1Interface: api.AuthenticationV1(),
		AuthorizationV1Interface:  api.AuthorizationV1(),
		CoordinationV1Interface:   api.CoordinationV1(),
		CoreV1Interface:           api.CoreV1(), DiscoveryV1Interface: api.DiscoveryV1(), RbacV1Interface: api.RbacV1(),
	}
}
