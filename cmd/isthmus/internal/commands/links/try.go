package links

import (
	"context"
	"fmt"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"isthmus/clusterstore"
	"isthmus/clusterstore/guard"
	"isthmus/clusterstore/kube"

	"isthmus/cmd/isthmus/internal/commands"
	"isthmus/cmd/isthmus/internal/reach"
	"isthmus/internal/pace"
)

// tryFor is how long a link's credentials are tried.
const tryFor = 10 * time.Second

// try asks a link's API server, with its credentials, who it takes them for. It returns
// an error if the gateway can't use them either; that the server can't be reached from
// here is only reported.
func (c *content) try(ctx context.Context, w *work, s *corev1.Secret) error {
	config, _, err := kube.ReadKubeconfig(s.Data[clusterstore.KubeconfigKey])
	if err != nil {
		return err
	}
	reach.Guard(config)
	api, done, err := reach.Clients(config)
	if err != nil {
		return err
	}
	defer done()
	ctx, cancel := context.WithTimeout(ctx, tryFor)
	defer cancel()
	who, err := c.whoami(ctx, api)
	invalid, _ := guard.Certificate(err)
	switch want := fmt.Sprintf("system:serviceaccount:%s:%s", c.account.Namespace, c.account.Name); {
	case invalid != "":
		return fmt.Errorf("the certificate of %s is not good for this link: %s: give the right --server and --ca-file", c.server, invalid)
	case apierrors.IsUnauthorized(err):
		return fmt.Errorf("%s refuses the new token: is it the API server of that cluster? (--server)", c.server)
	case err != nil:
		w.warn("the link can't be tried from here: %s; the gateway has to reach %s", commands.Printable(err.Error()), c.server)
	case who != want:
		return fmt.Errorf("%s takes the new token for %s, not for %s: is it the API server of that cluster? (--server)", c.server, commands.Printable(who), want)
	}
	return nil
}

// whoami asks for the name that belongs to the credentials. A token that is refused is
// tried again: one of several API servers may not know it yet.
func (c *content) whoami(ctx context.Context, api *kube.Clients) (string, error) {
	for {
		review, err := api.SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
		if err == nil {
			return review.Status.UserInfo.Username, nil
		}
		if !apierrors.IsUnauthorized(err) || !pace.Sleep(ctx, time.Second) {
			return "", err
		}
	}
}
