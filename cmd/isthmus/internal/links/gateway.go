package links

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"isthmus/cmd/isthmus/internal/client"
	"isthmus/internal/adminapi"
	"isthmus/internal/sleep"
)

// pollEvery is how often a page is read while something is awaited.
const pollEvery = 500 * time.Millisecond

// shows is what a gateway's page must show: why is what it lacks, and err that it never will.
type shows func(adminapi.Clusters) (done bool, why string, err error)

// awaitGateway waits until every gateway shows what is expected. If none can be asked at
// all, that is an error at once, since there may be none.
func awaitGateway(ctx context.Context, w *work, t *client.Target, what string, expected shows) error {
	return w.p.Await(context.Background(), fmt.Sprintf(" until the gateway %s, for %v at most", what, t.Timeout), func() error {
		began, asked, before := time.Now(), false, ""
		for {
			once := *t
			once.Timeout = max(t.Timeout-time.Since(began), time.Second)
			why, reached, err := askAll(ctx, w, &once, expected)
			if ctx.Err() != nil && err == nil && why != "" && before != "" {
				why = before // what was asked last was cut off
			}
			asked, before = asked || reached, why
			switch {
			case err != nil:
				return err
			case why == "":
				return nil
			case !asked:
				return errors.New(why)
			}
			if !sleep.For(ctx, pollEvery) {
				if ctx.Err() == context.Canceled {
					return fmt.Errorf("interrupted before the gateway %s: %s", what, why)
				}
				return fmt.Errorf("not within %v (--timeout) that the gateway %s: %s", t.Timeout, what, why)
			}
		}
	})
}

// askAll returns why a gateway does not show what is expected (empty: all do), and whether
// any has answered.
func askAll(ctx context.Context, w *work, t *client.Target, expected shows) (why string, reached bool, err error) {
	answers, err := client.ReadAll[adminapi.Clusters](ctx, w.p, t, "/debug/clusters")
	if err != nil {
		return err.Error(), false, nil
	}
	for _, a := range answers {
		done, lacks := false, ""
		if a.Err != nil {
			lacks = a.Err.Error()
		} else {
			reached = true
			if done, lacks, err = expected(*a.Value); err != nil {
				return "", true, err
			}
		}
		if !done {
			why = client.Printable(a.Gateway) + ": " + lacks
		}
	}
	return why, reached, nil
}

// awaitLink waits until the gateway reads the cluster with the credentials of this Secret.
// If it does not, before is whether all gateways that were asked went on with those before.
func (o *linkOptions) awaitLink(ctx context.Context, w *work, here *cluster, written *corev1.Secret) (before bool, err error) {
	with, without := 0, 0
	err = awaitGateway(ctx, w, &o.Target, "reads "+o.name+" with the new credentials", func(page adminapi.Clusters) (bool, string, error) {
		now, err := here.API.Secrets(written.Namespace).Get(ctx, written.Name, metav1.GetOptions{})
		if err != nil {
			return false, "", here.failed("read the link Secret again", err)
		}
		if !sameCredentials(now, written) {
			return false, "", fmt.Errorf("link Secret %s: %w", key(written), errChanged)
		}
		for _, c := range page.Clusters {
			if c.Secret == written.Name {
				if c.State == "ready" {
					with++
				} else {
					without++
				}
				return c.SecretVersion == now.ResourceVersion && c.State == "ready", describeCluster(&c), nil
			}
		}
		return false, fmt.Sprintf("it has no link Secret %s: does it read those of namespace %s?", written.Name, written.Namespace), nil
	})
	return with > 0 && without == 0, err
}

// describeCluster returns a cluster's state, and what is wrong with it.
func describeCluster(c *adminapi.Cluster) string {
	texts := slices.Concat([]string{string(c.State)}, c.Warnings[:min(len(c.Warnings), 5)])
	for i, text := range texts {
		texts[i] = client.Printable(text)
	}
	if c.Reason != "" {
		texts[0] += ": " + client.Printable(c.Reason)
	}
	return strings.Join(texts, "; ")
}
