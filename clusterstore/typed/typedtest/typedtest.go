// Package typedtest makes typed clients of client-go's fake clientset.
package typedtest

import (
	"k8s.io/client-go/kubernetes"

	"isthmus/clusterstore/typed"
)

// Clients are those of a fake. They have no REST.
func Clients(api kubernetes.Interface) *typed.Clients {
	return typed.Of(api.CoreV1(), api.AuthenticationV1(), api.AuthorizationV1(), api.CoordinationV1(), api.DiscoveryV1(), api.RbacV1())
}
