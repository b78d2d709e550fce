package kube

import (
	"cmp"
	"fmt"
	"net/http"
	"runtime"
	"runtime/debug"
	"strings"

	authenticationv1 "k8s.io/client-go/kubernetes/typed/authentication/v1"
	authorizationv1 "k8s.io/client-go/kubernetes/typed/authorization/v1"
	coordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	discoveryv1 "k8s.io/client-go/kubernetes/typed/discovery/v1"
	rbacv1 "k8s.io/client-go/kubernetes/typed/rbac/v1"
	"k8s.io/client-go/rest"
)

// Clients are those of one API server. Requests of other paths are for [rest.Interface] of
// one of them: CoreV1Interface.RESTClient().
type Clients struct {
	authenticationv1.AuthenticationV1Interface
	authorizationv1.AuthorizationV1Interface
	coordinationv1.CoordinationV1Interface
	corev1.CoreV1Interface
	discoveryv1.DiscoveryV1Interface
	rbacv1.RbacV1Interface
}

// UserAgent returns the user agent of requests to API servers: isthmus/VERSION (OS/ARCHITECTURE). The part before the
// slash is the field manager of what is written.
func UserAgent() string {
	version := "unknown"
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		version = strings.Trim(info.Main.Version, "()") // "(devel)" would be a comment
	}
	return fmt.Sprintf("isthmus/%s (%s/%s)", version, runtime.GOOS, runtime.GOARCH)
}

// NewTyped makes the clients of an API server. They share the connections of client.
func NewTyped(config *rest.Config, client *http.Client) (*Clients, error) {
	authentication, err1 := authenticationv1.NewForConfigAndClient(config, client)
	authorization, err2 := authorizationv1.NewForConfigAndClient(config, client)
	coordination, err3 := coordinationv1.NewForConfigAndClient(config, client)
	core, err4 := corev1.NewForConfigAndClient(config, client)
	discovery, err5 := discoveryv1.NewForConfigAndClient(config, client)
	rbac, err6 := rbacv1.NewForConfigAndClient(config, client)
	return &Clients{authentication, authorization, coordination, core, discovery, rbac}, cmp.Or(err1, err2, err3, err4, err5, err6)
}
