package links

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"

	"isthmus/manifests"
)

// What "isthmus link" makes in a linked cluster has this label, and only that is ever
// changed or deleted there.
const (
	managedByLabel = "app.kubernetes.io/managed-by"
	managedBy      = "isthmus-link"
)

func managed(o metav1.Object) bool { return o.GetLabels()[managedByLabel] == managedBy }

// access is what lets a ServiceAccount of a linked cluster read what the gateway needs:
// that of manifests/link/remote-access.yaml, under the names that the user has chosen.
type access struct {
	account corev1.ServiceAccount
	role    rbacv1.ClusterRole
	binding rbacv1.ClusterRoleBinding
	token   corev1.Secret // without name
}

func newAccess(of types.NamespacedName) (*access, error) {
	a := new(access)
	if err := a.decode(manifests.RemoteAccess); err != nil {
		return nil, fmt.Errorf("the built-in remote-access.yaml: %w", err)
	}
	a.account.Name, a.account.Namespace = of.Name, of.Namespace
	a.role.Name, a.binding.Name, a.binding.RoleRef.Name = of.Name, of.Name, of.Name
	a.binding.Subjects[0].Name, a.binding.Subjects[0].Namespace = of.Name, of.Namespace
	a.token.ObjectMeta = metav1.ObjectMeta{
		Namespace: of.Namespace, GenerateName: of.Name + "-token-",
		Annotations: map[string]string{corev1.ServiceAccountNameKey: of.Name},
	}
	for _, o := range []metav1.Object{&a.account, &a.role, &a.binding, &a.token} {
		o.SetLabels(map[string]string{managedByLabel: managedBy})
	}
	return a, nil
}

// decode reads the four documents of remote-access.yaml.
func (a *access) decode(text []byte) error {
	into := map[string]any{"ServiceAccount": &a.account, "Secret": &a.token, "ClusterRole": &a.role, "ClusterRoleBinding": &a.binding}
	documents := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text)))
	for {
		document, err := documents.Read()
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		var kind metav1.TypeMeta
		if err := yaml.Unmarshal(document, &kind); err != nil {
			return err
		}
		if into[kind.Kind] == nil {
			return fmt.Errorf("it has an unexpected %q", kind.Kind)
		}
		if err := yaml.UnmarshalStrict(document, into[kind.Kind]); err != nil {
			return err
		}
		delete(into, kind.Kind)
	}
	if len(into) > 0 || len(a.binding.Subjects) != 1 {
		return errors.New("it is not one ServiceAccount with its rights and token")
	}
	return nil
}

// ensure makes what is missing, and brings what "isthmus link" has made up to date.
func (a *access) ensure(ctx context.Context, w *work, c *cluster) error {
	for _, step := range []func(context.Context, *work, *cluster) error{a.ensureNamespace, a.ensureAccount, a.ensureRole, a.ensureBinding} {
		if err := step(ctx, w, c); err != nil {
			return err
		}
	}
	return nil
}

func (a *access) ensureNamespace(ctx context.Context, w *work, c *cluster) error {
	name := a.account.Namespace
	namespaces := c.api.Namespaces
	_, err := namespaces.Get(ctx, name, metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		return c.unless(err, "read namespace "+name)
	}
	return w.do(ctx, c, "create", "Namespace "+name, func(ctx context.Context) error {
		_, err := namespaces.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		return err
	})
}

func (a *access) ensureAccount(ctx context.Context, w *work, c *cluster) error {
	accounts, name := c.api.ServiceAccounts(a.account.Namespace), "ServiceAccount "+key(&a.account)
	_, err := accounts.Get(ctx, a.account.Name, metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		return c.unless(err, "read "+name)
	}
	return w.do(ctx, c, "create", name, func(ctx context.Context) error {
		_, err := accounts.Create(ctx, &a.account, metav1.CreateOptions{})
		return err
	})
}

func (a *access) ensureRole(ctx context.Context, w *work, c *cluster) error {
	roles, name := c.api.ClusterRoles, "ClusterRole "+a.role.Name
	found, err := roles.Get(ctx, a.role.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return w.do(ctx, c, "create", name, func(ctx context.Context) error {
			_, err := roles.Create(ctx, &a.role, metav1.CreateOptions{})
			return err
		})
	case err != nil:
		return c.failed("read "+name, err)
	case equality.Semantic.DeepEqual(found.Rules, a.role.Rules):
		return nil
	case !managed(found):
		return c.foreign(name, "has other rules")
	}
	found.Rules = a.role.Rules
	return w.do(ctx, c, "update", name, func(ctx context.Context) error {
		_, err := roles.Update(ctx, found, metav1.UpdateOptions{})
		return err
	})
}

func (a *access) ensureBinding(ctx context.Context, w *work, c *cluster) error {
	bindings, name := c.api.ClusterRoleBindings, "ClusterRoleBinding "+a.binding.Name
	found, err := bindings.Get(ctx, a.binding.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return w.do(ctx, c, "create", name, func(ctx context.Context) error {
			_, err := bindings.Create(ctx, &a.binding, metav1.CreateOptions{})
			return err
		})
	case err != nil:
		return c.failed("read "+name, err)
	case found.RoleRef != a.binding.RoleRef || !equality.Semantic.DeepEqual(found.Subjects, a.binding.Subjects):
		return c.foreign(name, "binds another role or account")
	}
	return nil
}

func (c *cluster) foreign(object, why string) error {
	return fmt.Errorf("%s: %s is there, and %s: choose another --service-account, or make it what manifests/link/remote-access.yaml has", c.title, object, why)
}

// unless returns an error if there is one.
func (c *cluster) unless(err error, doing string) error {
	if err == nil {
		return nil
	}
	return c.failed(doing, err)
}

func key(o metav1.Object) string { return o.GetNamespace() + "/" + o.GetName() }
