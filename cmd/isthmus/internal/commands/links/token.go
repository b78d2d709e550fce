package links

import (
	"context"
	"errors"
	"slices"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"isthmus/clusterstore"
	"isthmus/internal/pace"
)

// Labels of a token's Secret. The labels identify the link that the token belongs to, because
// several installations of Isthmus may link the same cluster. A token is valid while its Secret
// exists. A token with an expiry time is bound to its Secret.
const (
	linkLabel      = "isthmus.io/link"           // name of the link
	linkedByLabel  = "isthmus.io/linked-by"      // identity of the local cluster
	namespaceLabel = "isthmus.io/link-namespace" // namespace of the link Secret in the local cluster
)

const placeholder = "TOKEN"

// linkKey identifies the link that a token belongs to. No two links have the same key, even in
// different clusters.
type linkKey struct {
	link, namespace string
	by              types.UID
}

func (k linkKey) labels() labels.Set {
	return labels.Set{
		managedByLabel: managedBy, linkLabel: k.link, linkedByLabel: string(k.by), namespaceLabel: k.namespace,
	}
}

// tokens lists the Secrets that hold a link's tokens, oldest first.
func (k linkKey) tokens(ctx context.Context, c *cluster, namespace string) ([]corev1.Secret, error) {
	list, err := clusterstore.ListSecrets(ctx, c.API, namespace, metav1.ListOptions{LabelSelector: k.labels().String()})
	if err != nil {
		return nil, c.failed("list the token Secrets in namespace "+namespace, err)
	}
	slices.SortFunc(list, func(a, b corev1.Secret) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
	return list, nil
}

type token struct {
	secret  string // name of its Secret; empty if no token was created
	text    string
	expires time.Time // zero if the token does not expire
}

// request creates a token that is bound to a Secret.
func (t *token) request(ctx context.Context, c *cluster, bound *corev1.Secret, duration time.Duration) error {
	account := bound.Annotations[corev1.ServiceAccountNameKey]
	answer, err := c.API.ServiceAccounts(bound.Namespace).CreateToken(ctx, account, &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{
			ExpirationSeconds: new(int64(duration / time.Second)),
			BoundObjectRef: &authenticationv1.BoundObjectReference{
				APIVersion: "v1", Kind: "Secret", Name: bound.Name, UID: bound.UID,
			},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	t.text = answer.Status.Token
	t.expires = answer.Status.ExpirationTimestamp.Time
	return nil
}

// await waits until the linked cluster has stored the token in its Secret.
func (t *token) await(ctx context.Context, c *cluster, namespace string) error {
	for {
		secret, err := c.API.Secrets(namespace).Get(ctx, t.secret, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if text := secret.Data[corev1.ServiceAccountTokenKey]; len(text) > 0 {
			t.text = string(text)
			return nil
		}
		if !pace.Sleep(ctx, 100*time.Millisecond) {
			return errors.New(
				"the ServiceAccount token controller did not add a token to the Secret in time (--timeout)")
		}
	}
}

// deleteTokens revokes tokens by deleting their Secrets. API servers may accept a deleted token for
// a few more seconds.
func deleteTokens(ctx context.Context, w *work, c *cluster, list []corev1.Secret) error {
	for _, s := range list {
		if err := deleteObject(ctx, w, c, "token Secret "+key(&s), &s, c.API.Secrets(s.Namespace).Delete); err != nil {
			return err
		}
	}
	return nil
}

type deletion = func(context.Context, string, metav1.DeleteOptions) error

// deleteObject deletes an object. If another object with the same name has replaced the object,
// deleteObject returns an error.
func deleteObject(ctx context.Context, w *work, c *cluster, title string, o metav1.Object, do deletion) error {
	return w.do(ctx, c, "delete", title, func(ctx context.Context) error {
		err := do(ctx, o.GetName(), metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: new(o.GetUID())}})
		if apierrors.IsNotFound(err) {
			return nil
		}
		if apierrors.IsConflict(err) {
			return errors.New("the object was replaced by another one with the same name: run the command again")
		}
		return err
	})
}
