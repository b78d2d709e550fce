package typed

import (
	"net/http"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/gentype"
	"k8s.io/client-go/rest"
)

// Scheme has the groups of the kinds of [Clients].
var Scheme = newScheme()

var (
	codecs     = serializer.NewCodecFactory(Scheme)
	parameters = runtime.NewParameterCodec(Scheme)
)

func newScheme() *runtime.Scheme {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		authenticationv1.AddToScheme, authorizationv1.AddToScheme, coordinationv1.AddToScheme,
		corev1.AddToScheme, discoveryv1.AddToScheme, rbacv1.AddToScheme,
	} {
		if err := add(s); err != nil {
			panic(err) // two types for one kind
		}
	}
	return s
}

// groups makes clients of API groups, until one can't be made.
type groups struct {
	config *rest.Config
	http   *http.Client
	err    error
}

func (g *groups) client(v schema.GroupVersion) rest.Interface {
	c := rest.CopyConfig(g.config)
	c.GroupVersion, c.NegotiatedSerializer, c.APIPath = &v, codecs.WithoutConversion(), "/apis"
	if v.Group == "" {
		c.APIPath = "/api"
	}
	if c.UserAgent == "" {
		c.UserAgent = rest.DefaultKubernetesUserAgent()
	}
	client, err := rest.RESTClientForConfigAndClient(c, g.http)
	if err != nil && g.err == nil {
		g.err = err
	}
	return client
}

type object[T any] interface {
	*T
	runtime.Object
	metav1.Object
}

type list[L any] interface {
	*L
	runtime.Object
}

func namespaced[T, L any, PT object[T], PL list[L]](client rest.Interface, resource string) Namespaced[PT, PL] {
	return func(namespace string) Resource[PT, PL] {
		return gentype.NewClientWithList(resource, client, parameters, namespace,
			func() PT { return new(T) }, func() PL { return new(L) }, gentype.PrefersProtobuf[PT]())
	}
}

func review[T any, PT object[T]](client rest.Interface, resource string) Review[PT] {
	return gentype.NewClient(resource, client, parameters, "", func() PT { return new(T) }, gentype.PrefersProtobuf[PT]())
}
