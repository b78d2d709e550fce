package links

import (
	"context"
	"errors"
	"fmt"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"isthmus/cmd/isthmus/internal/commands"
	"isthmus/cmd/isthmus/internal/reach"
	"isthmus/internal/guard"
)

type cluster struct {
	*reach.Cluster
	kube  *rest.Config
	title string    // for messages
	uid   types.UID // UID of the namespace kube-system, which identifies the cluster; empty until read
}

// The open function returns a cluster without sending a request.
func open(by reach.Options) (*cluster, error) {
	c, err := by.Open()
	if err != nil {
		return nil, err
	}
	return &cluster{Cluster: c, kube: c.Config(), title: "context " + commands.Printable(c.Context)}, nil
}

func identify(ctx context.Context, clusters ...*cluster) error {
	for _, c := range clusters {
		system, err := c.API.Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
		if err != nil {
			return c.failed("read namespace kube-system, whose UID identifies the cluster", err)
		}
		c.uid = system.UID
	}
	return nil
}

// failed returns an error for a failed request, with a hint about how to fix the problem.
func (c *cluster) failed(doing string, err error) error {
	text := commands.Printable(err.Error())
	if invalid, _ := guard.Certificate(err); invalid != "" {
		return fmt.Errorf("%s: could not %s: the certificate of the API server is not valid: %s\n"+
			"  Correct the server or its certificate authority in the kubeconfig", c.title, doing, invalid)
	}
	switch {
	case errors.Is(err, context.Canceled):
		return fmt.Errorf("interrupted: could not %s in %s", doing, c.title)
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%s did not respond in time (--timeout): could not %s", c.title, doing)
	case apierrors.IsForbidden(err):
		return fmt.Errorf("%s: you are not allowed to %s: %s\n"+
			"  Ask an administrator of the cluster for this permission, and run the command again to continue",
			c.title, doing, text)
	case apierrors.IsUnauthorized(err):
		return fmt.Errorf("%s: the API server rejects your credentials: log in to the cluster again "+
			"(could not %s: %s)", c.title, doing, text)
	}
	return fmt.Errorf("%s: could not %s: %s", c.title, doing, text)
}

// require returns an error that lists all permissions that the user lacks.
func (c *cluster) require(ctx context.Context, rights []permission) error {
	var missing []string
	for _, r := range rights {
		for verb := range strings.FieldsSeq(r.verbs) {
			allowed, err := c.allowed(ctx, verb, r)
			if err != nil {
				return c.failed("check your permissions", err)
			}
			if !allowed {
				missing = append(missing, r.describe(verb))
			}
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return fmt.Errorf("%s: you lack these permissions:\n  %s\n  Nothing has been changed. "+
		"Ask an administrator of the cluster for the permissions, or choose the context of another user",
		c.title, strings.Join(missing, "\n  "))
}

func (c *cluster) allowed(ctx context.Context, verb string, r permission) (bool, error) {
	resource, sub, _ := strings.Cut(r.resource, "/")
	review, err := c.API.SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{
		Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
			Namespace: r.namespace, Verb: verb, Group: r.group, Resource: resource, Subresource: sub, Name: r.name,
		}},
	}, metav1.CreateOptions{})
	if err != nil {
		return false, err
	}
	return review.Status.Allowed, nil
}

func (c *cluster) foreign(object, why string) error {
	return fmt.Errorf("%s: %s already exists and %s: choose another --service-account, "+
		"or change the object to match manifests/link/remote-access.yaml", c.title, object, why)
}

// permission describes API requests that the user of a command must be allowed to send. The
// namespace is empty for cluster-scoped resources. An empty name means any object.
type permission struct {
	verbs, group, resource, namespace, name string
}

func (r permission) describe(verb string) string {
	text := verb + " " + r.resource
	for _, part := range [][2]string{{".", r.group}, {" ", r.name}, {" in namespace ", r.namespace}} {
		if part[1] != "" {
			text += part[0] + part[1]
		}
	}
	return text
}

func remotePermissions(a *remoteAccess, bound bool) []permission {
	namespace, name := a.account.Namespace, a.account.Name
	list := []permission{
		{"get", "", "namespaces", "", metav1.NamespaceSystem},
		{"get", "", "namespaces", "", namespace},
		{"get create", "", "serviceaccounts", namespace, ""},
		{"get create update", rbacGroup, "clusterroles", "", ""},
		{"get create", rbacGroup, "clusterrolebindings", "", ""},
		{"get list create delete", "", "secrets", namespace, ""},
	}
	if bound {
		list = append(list, permission{"create", "", "serviceaccounts/token", namespace, name})
	}
	return list
}

func revokePermissions(namespace string) []permission {
	return []permission{
		{"list delete", "", "secrets", namespace, ""},
		{"get delete", "", "serviceaccounts", namespace, ""},
		{"get delete", rbacGroup, "clusterroles", "", ""},
		{"get delete", rbacGroup, "clusterrolebindings", "", ""},
	}
}

func localPermissions(namespace, verbs string) []permission {
	return []permission{{verbs, "", "secrets", namespace, ""}}
}

const rbacGroup = "rbac.authorization.k8s.io"
