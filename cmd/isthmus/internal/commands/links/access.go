package links

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"isthmus/manifests"
)

// The label managedByLabel, with the value managedBy, marks the objects that "isthmus link" creates
// in a linked cluster. In a linked cluster, the commands never change or delete an object that
// lacks the label app.kubernetes.io/managed-by=isthmus-link.
const (
	managedByLabel = "app.kubernetes.io/managed-by"
	managedBy      = "isthmus-link"
)

func managed(o metav1.Object) bool { return o.GetLabels()[managedByLabel] == managedBy }

// remoteAccess contains the objects that give replicas access to a linked cluster: a
// ServiceAccount, its permissions, and the Secret for its token. The objects come from
// manifests/link/remote-access.yaml but have the names that the user chose.
type remoteAccess struct {
	account corev1.ServiceAccount
	role    rbacv1.ClusterRole
	binding rbacv1.ClusterRoleBinding
	token   corev1.Secret // has no name
}

// newRemoteAccess returns the objects of the built-in manifest, with the account's name and
// namespace filled in. The function panics if the manifest is invalid.
func newRemoteAccess(of types.NamespacedName) *remoteAccess {
	a := new(remoteAccess)
	into := map[string]any{
		"ServiceAccount": &a.account, "Secret": &a.token,
		"ClusterRole": &a.role, "ClusterRoleBinding": &a.binding,
	}
	for document := range strings.SplitSeq(string(manifests.RemoteAccess), "\n---\n") {
		var kind metav1.TypeMeta
		err := yaml.Unmarshal([]byte(document), &kind)
		if err == nil {
			err = yaml.UnmarshalStrict([]byte(document), into[kind.Kind])
		}
		if err != nil {
			panic(fmt.Sprintf("the built-in remote-access.yaml: %v", err))
		}
	}
	a.account.Name = of.Name
	a.account.Namespace = of.Namespace
	a.role.Name = of.Name
	a.binding.Name = of.Name
	a.binding.RoleRef.Name = of.Name
	a.binding.Subjects = []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: of.Name, Namespace: of.Namespace}}
	a.token.ObjectMeta = metav1.ObjectMeta{
		Namespace: of.Namespace, GenerateName: of.Name + "-token-",
		Annotations: map[string]string{corev1.ServiceAccountNameKey: of.Name},
	}
	for _, o := range []metav1.Object{&a.account, &a.role, &a.binding, &a.token} {
		o.SetLabels(map[string]string{managedByLabel: managedBy})
	}
	return a
}

// ensure creates the objects that are missing and updates objects that "isthmus link" created.
func (a *remoteAccess) ensure(ctx context.Context, w *work, c *cluster) error {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: a.account.Namespace}}
	if _, err := ensureOne(ctx, w, c, c.API.Namespaces(), "Namespace "+namespace.Name, namespace); err != nil {
		return err
	}
	accounts := c.API.ServiceAccounts(namespace.Name)
	if _, err := ensureOne(ctx, w, c, accounts, "ServiceAccount "+key(&a.account), &a.account); err != nil {
		return err
	}
	if err := a.ensureRole(ctx, w, c); err != nil {
		return err
	}
	name := "ClusterRoleBinding " + a.binding.Name
	found, err := ensureOne(ctx, w, c, c.API.ClusterRoleBindings(), name, &a.binding)
	if found != nil && err == nil && !a.boundBy(found) {
		return c.foreign(name, "binds a different role or account")
	}
	return err
}

// boundBy reports whether a binding binds the role to the account and to nothing else. "isthmus
// link" binds the role to a ServiceAccount, but remote-access.yaml binds the role to the user name
// of the account.
func (a *remoteAccess) boundBy(found *rbacv1.ClusterRoleBinding) bool {
	if found.RoleRef != a.binding.RoleRef || len(found.Subjects) != 1 {
		return false
	}
	user := rbacv1.Subject{
		Kind:     rbacv1.UserKind,
		APIGroup: rbacv1.GroupName,
		Name:     "system:serviceaccount:" + a.account.Namespace + ":" + a.account.Name,
	}
	return found.Subjects[0] == a.binding.Subjects[0] || found.Subjects[0] == user
}

// ensureRole creates the ClusterRole, or adds the rules that an existing ClusterRole lacks. The
// function never removes a rule, because a newer version of Isthmus may need the rule.
func (a *remoteAccess) ensureRole(ctx context.Context, w *work, c *cluster) error {
	roles := c.API.ClusterRoles()
	name := "ClusterRole " + a.role.Name
	found, err := ensureOne(ctx, w, c, roles, name, &a.role)
	switch {
	case err != nil || found == nil || equality.Semantic.DeepEqual(found.Rules, a.role.Rules):
		return err
	case !managed(found):
		return c.foreign(name, "has different rules")
	}

	missing := missingRules(found.Rules, a.role.Rules)
	if len(missing) == 0 {
		return nil
	}
	found.Rules = append(found.Rules, missing...)
	return w.do(ctx, c, "update", name, func(ctx context.Context) error {
		_, err := roles.Update(ctx, found, metav1.UpdateOptions{})
		return err
	})
}

// newToken creates a token. If duration is zero, the token does not expire.
func (a *remoteAccess) newToken(
	ctx context.Context, w *work, c *cluster, of linkKey, duration time.Duration,
) (made token, err error) {
	want := a.token.DeepCopy()
	want.Labels = of.labels()
	what := "a token of ServiceAccount " + key(&a.account) + " that does not expire"
	if duration > 0 {
		want.Type = corev1.SecretTypeOpaque
		what = fmt.Sprintf("a token of ServiceAccount %s for %v", key(&a.account), duration)
	}
	made.text = placeholder
	err = w.do(ctx, c, "create", what, func(ctx context.Context) error {
		secret, err := c.API.Secrets(want.Namespace).Create(ctx, want, metav1.CreateOptions{})
		if err != nil {
			return err
		}
		made.secret = secret.Name
		if duration > 0 {
			return made.request(ctx, c, secret, duration)
		}
		return made.await(ctx, c, secret.Namespace)
	})
	if err != nil {
		a.dropToken(ctx, w, c, made)
		return token{}, err
	}
	asked := time.Now().Add(duration)
	if duration > 0 && !made.expires.IsZero() && made.expires.Before(asked.Add(-time.Minute)) {
		w.warn("%s limits how long tokens are valid: the new token expires at %s", c.title,
			made.expires.UTC().Format(time.RFC3339))
	}
	return made, nil
}

// dropToken deletes an unused token, even after ctx has ended.
func (a *remoteAccess) dropToken(ctx context.Context, w *work, c *cluster, t token) {
	if t.secret == "" || w.dry {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	err := c.API.Secrets(a.token.Namespace).Delete(ctx, t.secret, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		w.warn("%v", c.failed("delete the unused token's Secret "+a.token.Namespace+"/"+t.secret, err))
	}
}

type resource[T any] interface {
	Get(context.Context, string, metav1.GetOptions) (T, error)
	Create(context.Context, T, metav1.CreateOptions) (T, error)
	Delete(context.Context, string, metav1.DeleteOptions) error
}

// ensureOne creates an object or returns the existing object with the same name.
func ensureOne[T metav1.Object](
	ctx context.Context, w *work, c *cluster, of resource[T], title string, want T,
) (found T, err error) {
	existing, err := of.Get(ctx, want.GetName(), metav1.GetOptions{})
	switch {
	case err == nil:
		return existing, nil
	case !apierrors.IsNotFound(err):
		return found, c.failed("read "+title, err)
	}
	return found, w.do(ctx, c, "create", title, func(ctx context.Context) error {
		_, err := of.Create(ctx, want, metav1.CreateOptions{})
		return err
	})
}

// missingRules returns the wanted rules that the granted rules do not fully cover.
func missingRules(granted, want []rbacv1.PolicyRule) (missing []rbacv1.PolicyRule) {
	for _, rule := range want {
		if !grantsAll(granted, rule) {
			missing = append(missing, rule)
		}
	}
	return missing
}

func grantsAll(granted []rbacv1.PolicyRule, rule rbacv1.PolicyRule) bool {
	names := rule.ResourceNames
	if len(names) == 0 {
		names = []string{""} // all objects
	}
	for _, group := range rule.APIGroups {
		for _, resource := range rule.Resources {
			for _, verb := range rule.Verbs {
				for _, name := range names {
					grants := func(r rbacv1.PolicyRule) bool { return grants(r, group, resource, verb, name) }
					if !slices.ContainsFunc(granted, grants) {
						return false
					}
				}
			}
		}
	}
	return true
}

// grants reports whether a rule grants a verb on the object with the given name. An empty name
// means all objects.
func grants(rule rbacv1.PolicyRule, group, resource, verb, name string) bool {
	return includes(rule.APIGroups, group, rbacv1.APIGroupAll) &&
		includes(rule.Resources, resource, rbacv1.ResourceAll) &&
		includes(rule.Verbs, verb, rbacv1.VerbAll) &&
		(len(rule.ResourceNames) == 0 || slices.Contains(rule.ResourceNames, name))
}

func includes(list []string, value, all string) bool {
	return slices.Contains(list, value) || slices.Contains(list, all)
}

func key(o metav1.Object) string { return o.GetNamespace() + "/" + o.GetName() }
