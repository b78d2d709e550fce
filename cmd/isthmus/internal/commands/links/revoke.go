package links

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"isthmus/clusterstore"
	"isthmus/cmd/isthmus/internal/commands"
	"isthmus/internal/text"
)

// revocation is what is deleted in a cluster that was linked.
type revocation struct {
	there   *cluster
	account types.NamespacedName
	tokens  []corev1.Secret // of the link
	others  []string        // names of all other Secrets with a token of the account, whoever made them
}

func newRevocation(ctx context.Context, there *cluster, account types.NamespacedName, of linkKey) (*revocation, error) {
	if err := there.require(ctx, revokePermissions(account.Namespace)); err != nil {
		return nil, err
	}
	r := &revocation{there: there, account: account}
	all, err := accountTokens(ctx, there, account)
	if err != nil {
		return nil, err
	}
	mine := of.labels().AsSelector()
	for _, s := range all {
		if mine.Matches(labels.Set(s.Labels)) {
			r.tokens = append(r.tokens, s)
		} else {
			r.others = append(r.others, commands.Printable(s.Name))
		}
	}
	return r, nil
}

// accountTokens returns the Secrets with a token of an account, each once. Secrets that somebody made by hand have
// the type of tokens. Those of "isthmus link --duration" have another type, and the label of "isthmus link".
func accountTokens(
	ctx context.Context, there *cluster, account types.NamespacedName,
) (found []corev1.Secret, err error) {
	for _, which := range []metav1.ListOptions{
		{FieldSelector: "type=" + string(corev1.SecretTypeServiceAccountToken)},
		{LabelSelector: managedByLabel + "=" + managedBy},
	} {
		all, err := clusterstore.ListSecrets(ctx, there.API, account.Namespace, which)
		if err != nil {
			return nil, there.failed("list the Secrets of tokens in namespace "+account.Namespace, err)
		}
		for _, s := range all {
			if s.Annotations[corev1.ServiceAccountNameKey] == account.Name {
				found = append(found, s)
			}
		}
	}
	slices.SortFunc(found, func(a, b corev1.Secret) int { return cmp.Compare(a.Name, b.Name) })
	return slices.CompactFunc(found, func(a, b corev1.Secret) bool { return a.Name == b.Name }), nil
}

// run deletes the tokens and the account with its rights. The account stays if another Secret has a token of it:
// another link, or one made by hand, may use that token. What "isthmus link" has not made stays.
func (r *revocation) run(ctx context.Context, w *work) error {
	if r == nil {
		return nil
	}
	if err := deleteTokens(ctx, w, r.there, r.tokens); err != nil {
		return err
	}
	if len(r.others) > 0 {
		fmt.Fprintf(w.out, "%s: kept ServiceAccount %s and its rights: "+
			"it has %s besides, which another link may use: Secret %s\n",
			r.there.title, r.account, text.Count(len(r.others), "token", "tokens"), text.Some(r.others, maxShown))
		return nil
	}
	api, name := r.there.API, r.account.Name
	if err := revoke(ctx, w, r.there, api.ClusterRoleBindings(), "ClusterRoleBinding "+name, name); err != nil {
		return err
	}
	if err := revoke(ctx, w, r.there, api.ClusterRoles(), "ClusterRole "+name, name); err != nil {
		return err
	}
	return revoke(ctx, w, r.there, api.ServiceAccounts(r.account.Namespace), "ServiceAccount "+r.account.String(), name)
}

// revoke deletes an object, if it is there and "isthmus link" has made it.
func revoke[T metav1.Object](ctx context.Context, w *work, c *cluster, of resource[T], title, name string) error {
	o, err := of.Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return c.failed("read "+title, err)
	case !managed(o):
		fmt.Fprintf(w.out, "%s: kept %s: isthmus link has not made it\n", c.title, title)
		return nil
	}
	return deleteObject(ctx, w, c, title, o, of.Delete)
}

type deletion = func(context.Context, string, metav1.DeleteOptions) error

// deleteObject deletes an object, but not another one of its name.
func deleteObject(ctx context.Context, w *work, c *cluster, title string, o metav1.Object, do deletion) error {
	return w.do(ctx, c, "delete", title, func(ctx context.Context) error {
		err := do(ctx, o.GetName(), metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: new(o.GetUID())}})
		if apierrors.IsNotFound(err) {
			return nil
		}
		if apierrors.IsConflict(err) {
			return errors.New("it has been replaced by another one meanwhile: run this again")
		}
		return err
	})
}
