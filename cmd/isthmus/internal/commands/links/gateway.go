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

	"isthmus/cmd/isthmus/internal/commands"
	"isthmus/internal/adminapi"
	"isthmus/internal/pace"
)

// pollEvery is how often a page is read while something is awaited.
const pollEvery = 500 * time.Millisecond

// lacks returns what a gateway's page does not show yet of what is awaited (empty: it shows all), or an error if it never will.
type lacks func(adminapi.Clusters) (string, error)

// awaitGateway waits until no page of a gateway lacks anything. If none can be asked at
// all, that is an error at once, since there may be none.
func awaitReplicas(ctx context.Context, w *work, t *commands.Target, what string, page lacks) error {
	return w.p.Await(context.Background(), fmt.Sprintf(" until the gateway %s, for %v at most", what, t.Timeout), func() error {
		why, reached := "", false
		for {
			now, answered, err := askAll(ctx, w, t, page)
			if err != nil || now == "" {
				return err
			}
			reached = reached || answered
			if !reached {
				return errors.New(now)
			}
			if ctx.Err() == nil || why == "" { // what is asked last may be cut off
				why = now
			}
			if !pace.Sleep(ctx, pollEvery) {
				if ctx.Err() == context.Canceled {
					return fmt.Errorf("interrupted before the gateway %s: %s", what, why)
				}
				return fmt.Errorf("not within %v (--timeout) that the gateway %s: %s", t.Timeout, what, why)
			}
		}
	})
}

// askAll returns what a gateway lacks, and whether any has answered.
func askAll(ctx context.Context, w *work, t *commands.Target, page lacks) (why string, answered bool, err error) {
	answers, err := commands.ReadAll[adminapi.Clusters](ctx, w.p, t, "/debug/clusters")
	if err != nil {
		return err.Error(), false, nil
	}
	for _, a := range answers {
		answered = answered || a.Err == nil
		if err := a.OtherFormat(w.p.Build); a.Err == nil && err != nil {
			return "", true, fmt.Errorf("%s: %w", commands.Printable(a.Replica), err)
		}
		if a.Err != nil {
			why = commands.Printable(a.Replica) + ": " + a.Err.Error()
		} else if text, err := page(*a.Value); err != nil {
			return "", true, err
		} else if text != "" {
			why = commands.Printable(a.Replica) + ": " + text
		}
	}
	return why, answered, nil
}

// awaitLink waits until the gateway reads the cluster with the credentials of this Secret.
// If it does not, before is whether all gateways that were asked went on with those before.
func (o *linkOptions) awaitLink(ctx context.Context, w *work, here *cluster, written *corev1.Secret) (before bool, err error) {
	with, without := 0, 0
	err = awaitReplicas(ctx, w, &o.Target, "reads "+o.name+" with the new credentials", func(page adminapi.Clusters) (string, error) {
		now, err := here.API.Secrets(written.Namespace).Get(ctx, written.Name, metav1.GetOptions{})
		if err != nil {
			return "", here.failed("read the link Secret again", err)
		}
		if !sameCredentials(now, written) {
			return "", fmt.Errorf("link Secret %s: %w", key(written), errChanged)
		}
		for _, c := range page.Clusters {
			if c.Secret != written.Name {
				continue
			}
			if c.State == adminapi.Ready {
				with++
			} else {
				without++
			}
			if c.State == adminapi.Ready && c.SecretVersion == now.ResourceVersion {
				return "", nil
			}
			return describeCluster(&c), nil
		}
		return fmt.Sprintf("it has no link Secret %s: does it read those of namespace %s?", written.Name, written.Namespace), nil
	})
	return with > 0 && without == 0, err
}

// describeCluster returns a cluster's state, and what is wrong with it. Why new credentials are not used comes first.
func describeCluster(c *adminapi.Cluster) string {
	warnings := slices.Clone(c.Warnings)
	if i := slices.Index(warnings, c.NewCredentials); i > 0 {
		warnings = slices.Insert(slices.Delete(warnings, i, i+1), 0, c.NewCredentials)
	}
	texts := slices.Concat([]string{string(c.State)}, warnings[:min(len(warnings), 5)])
	for i, text := range texts {
		texts[i] = commands.Printable(text)
	}
	if c.Reason != "" {
		texts[0] += ": " + commands.Printable(c.Reason)
	}
	return strings.Join(texts, "; ")
}
