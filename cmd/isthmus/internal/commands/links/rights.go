package links

import (
	"context"
	"fmt"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// right is one that a verb needs of the user. namespace: empty for a resource that is
// not in one. name: empty for any.
type permission struct {
	verbs, group, resource, namespace, name string
}

// remoteRights are needed in the cluster that is linked.
func remotePermissions(a *access, bound bool) []permission {
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

// revokeRights are needed in a linked cluster to take back what it grants.
func revokePermissions(namespace string) []permission {
	return []permission{
		{"list delete", "", "secrets", namespace, ""},
		{"get delete", "", "serviceaccounts", namespace, ""},
		{"get delete", rbacGroup, "clusterroles", "", ""},
		{"get delete", rbacGroup, "clusterrolebindings", "", ""},
	}
}

// localRights are needed in the gateway's cluster.
func localPermissions(namespace, verbs string) []permission {
	return []permission{{verbs, "", "secrets", namespace, ""}}
}

const rbacGroup = "rbac.authorization.k8s.io"

// require returns an error that names all the rights that the user lacks.
func (c *cluster) require(ctx context.Context, rights []permission) error {
	var missing []string
	for _, r := range rights {
		for verb := range strings.FieldsSeq(r.verbs) {
			allowed, err := c.allowed(ctx, verb, r)
			if err != nil {
				return c.failed("ask what you may do", err)
			}
			if !allowed {
				missing = append(missing, r.describe(verb))
			}
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return fmt.Errorf("%s: you may not\n  %s\n  Nothing has been changed. Ask who administers that cluster for these rights, or name a context with another user",
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

func (r permission) describe(verb string) string {
	text := verb + " " + r.resource
	for _, part := range [][2]string{{".", r.group}, {" ", r.name}, {" in namespace ", r.namespace}} {
		if part[1] != "" {
			text += part[0] + part[1]
		}
	}
	return text
}
