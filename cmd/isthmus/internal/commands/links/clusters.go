package links

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"isthmus/clusterstore/guard"
	"isthmus/cmd/isthmus/internal/commands"
	"isthmus/cmd/isthmus/internal/reach"
)

// cluster is one that a verb works with, as the user may reach it.
type cluster struct {
	*reach.Cluster
	kube  *rest.Config
	title string    // for messages
	uid   types.UID // of its namespace kube-system, which stands for the cluster; empty: not read
}

// open returns a cluster. It sends nothing.
func open(by reach.Options) (*cluster, error) {
	c, err := by.Open()
	if err != nil {
		return nil, err
	}
	return &cluster{Cluster: c, kube: c.Config(), title: "context " + commands.Printable(c.Context)}, nil
}

// identify reads the identities of clusters.
func identify(ctx context.Context, clusters ...*cluster) error {
	for _, c := range clusters {
		system, err := c.API.Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
		if err != nil {
			return c.failed("read namespace kube-system, which identifies a cluster", err)
		}
		c.uid = system.UID
	}
	return nil
}

// failed returns the error of a request, with what to do about it.
func (c *cluster) failed(doing string, err error) error {
	text := commands.Printable(err.Error())
	if invalid, _ := guard.Certificate(err); invalid != "" {
		return fmt.Errorf("%s: could not %s: its certificate is not good: %s\n  Is it the API server of that cluster? Correct its server or its certificate authority in the kubeconfig", c.title, doing, invalid)
	}
	switch {
	case errors.Is(err, context.Canceled):
		return fmt.Errorf("interrupted: could not %s in %s", doing, c.title)
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%s has not answered in time (--timeout): could not %s", c.title, doing)
	case apierrors.IsForbidden(err):
		return fmt.Errorf("%s: you may not %s: %s\n  Ask who administers that cluster for this right, and run this again: it goes on from there", c.title, doing, text)
	case apierrors.IsUnauthorized(err):
		return fmt.Errorf("%s: its API server refuses your credentials: log in to that cluster again (could not %s: %s)", c.title, doing, text)
	}
	return fmt.Errorf("%s: could not %s: %s", c.title, doing, text)
}
