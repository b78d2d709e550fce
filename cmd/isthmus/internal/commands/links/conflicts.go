package links

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"isthmus/clusterstore"
	"isthmus/cmd/isthmus/internal/check"
	"isthmus/cmd/isthmus/internal/cli"
	"isthmus/cmd/isthmus/internal/commands"
)

// checkNewName refuses names that a link can't have.
func checkNewName(name string) error {
	if name == "local" {
		return cli.Usagef(`NAME is "local", which stands for the cluster that the gateway runs in: choose another`)
	}
	if len(validation.IsDNS1123Subdomain(name)) > 0 || len(name) > validation.LabelValueMaxLength {
		return cli.Usagef("NAME is %q: give at most %d small letters, digits, '-' and '.', beginning and ending with a letter or digit", name, validation.LabelValueMaxLength)
	}
	return nil
}

// listLinks returns all link Secrets of a namespace.
func listLinks(ctx context.Context, here *cluster, namespace string) ([]corev1.Secret, error) {
	list, err := clusterstore.ListSecrets(ctx, here.API, namespace, clusterstore.AllLinks)
	if err != nil {
		return nil, here.failed("list link Secrets in namespace "+namespace, err)
	}
	return list, nil
}

// named returns those of a cluster name.
func named(list []corev1.Secret, name string) (of []corev1.Secret) {
	for _, s := range list {
		if s.Labels[clusterstore.ClusterNameLabel] == name {
			of = append(of, s)
		}
	}
	return of
}

// findLink returns the Secret of a link (nil: there is none yet, and nothing is in the way) and all link Secrets.
func findLink(ctx context.Context, here *cluster, namespace, name string) (existing *corev1.Secret, all []corev1.Secret, err error) {
	existing, err = here.API.Secrets(namespace).Get(ctx, secretName(name), metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		existing = nil
	case err != nil:
		return nil, nil, here.failed("read Secret "+namespace+"/"+secretName(name), err)
	case existing.Type != clusterstore.SecretType:
		return nil, nil, fmt.Errorf("%s: Secret %s is there, and is no link but of type %s: delete it, or choose another NAME",
			here.title, key(existing), commands.Printable(string(existing.Type)))
	case existing.Labels[clusterstore.ClusterNameLabel] != name:
		return nil, nil, fmt.Errorf("%s: Secret %s links the cluster %s, by its label %s: delete it, or choose another NAME",
			here.title, key(existing), commands.Printable(existing.Labels[clusterstore.ClusterNameLabel]), clusterstore.ClusterNameLabel)
	}
	if all, err = listLinks(ctx, here, namespace); err != nil {
		return nil, nil, err
	}
	for _, s := range named(all, name) {
		if s.Name != secretName(name) {
			return nil, nil, fmt.Errorf("%s: %s is linked already, by Secret %s: delete that, or choose another NAME; isthmus unlink %s deletes all that link it", here.title, name, key(&s), name)
		}
	}
	return existing, all, nil
}

// checkCluster refuses to link a cluster to itself, under a second name, or in place of
// another one.
func checkCluster(here, there *cluster, name string, existing *corev1.Secret, all []corev1.Secret) error {
	if here.uid == there.uid {
		return fmt.Errorf("%s and %s are the same cluster: a gateway reads its own cluster without a link", here.title, there.title)
	}
	if existing != nil {
		if before := existing.Annotations[clusterAnnotation]; before != "" && before != string(there.uid) {
			return fmt.Errorf("%s is the link of another cluster than that of %s: take it away first (isthmus unlink %s), or choose another NAME", name, there.title, name)
		}
	}
	for _, s := range all {
		other := s.Labels[clusterstore.ClusterNameLabel]
		if other == name {
			continue
		}
		same := s.Annotations[clusterAnnotation] == string(there.uid)
		if config := linkConfig(&s); config != nil && s.Annotations[clusterAnnotation] == "" {
			same = sameServer(config.Host, there.kube.Host)
		}
		if same {
			return fmt.Errorf("the cluster of %s is linked already, as %s by Secret %s: its endpoints would count twice; run isthmus link %s, or take that away first (isthmus unlink %s)",
				there.title, commands.Printable(other), key(&s), nameArgument(other), nameArgument(other))
		}
	}
	return nil
}

// warnOfClashes warns if mirrors of the new link and of another one can ask for one name.
func warnOfClashes(w *work, name string, all []corev1.Secret) {
	for _, s := range all {
		other := s.Labels[clusterstore.ClusterNameLabel]
		for _, text := range check.NameClashes([]string{name, other}) {
			w.warn("%s", commands.Printable(text))
		}
	}
}

// nameArgument returns a name, which any user may have written, as the argument of a command that is suggested.
func nameArgument(name string) string {
	if name == "" || strings.HasPrefix(name, "-") {
		return "NAME"
	}
	return commands.Printable(name)
}
