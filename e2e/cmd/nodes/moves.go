//go:build linux

package main

// What moves replicas from node to node: a drain, rolling updates, and the loss of a node.

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"isthmus/e2e/harness"
)

func (w *world) drain(ctx context.Context, n *window) error {
	for _, command := range [][]string{
		{"drain", "west-2", "--ignore-daemonsets", "--delete-emptydir-data", "--force", "--timeout=5m"},
		{"rollout", "status", "-n", "linkerd", "deployment/" + w.gateway.deployment, "--timeout=5m"},
		{"uncordon", "west-2"},
	} {
		if _, err := w.kubectl(ctx, "", "west", command...); err != nil {
			return err
		}
	}
	return nil
}

func (w *world) setTTL(ctx context.Context, ttl string) error {
	text := strings.NewReplacer("CLUSTER", "west", "TTL", ttl).Replace(objectsYAML)
	text, _, _ = strings.Cut(text, "---\napiVersion: v1\nkind: Namespace") // not the Pods
	if _, err := w.kubectl(ctx, text, "west", "apply", "-f", "-"); err != nil {
		return err
	}
	return w.rollout(ctx, "west", "kube-system/coredns")
}

func (w *world) update(ctx context.Context, n *window) error {
	began := time.Now()
	if _, err := w.kubectl(
		ctx,
		"",
		"west",
		"rollout",
		"restart",
		"-n",
		"linkerd",
		"deployment/"+w.gateway.deployment,
	); err != nil {
		return err
	}
	return w.finish(ctx, n, began)
}

// updateWithoutEast replaces all replicas while east's API server is down, once east's cache is copied.
func (w *world) updateWithoutEast(ctx context.Context, n *window) error {
	if err := w.clusters["east"].Kill(); err != nil {
		return err
	}
	err := await(ctx, "the copy of east", func() error {
		list, err := w.clients["west"].CoreV1().
			ConfigMaps("linkerd").
			List(ctx, metav1.ListOptions{LabelSelector: "isthmus.io/cache-cluster=east"})
		if err == nil && len(list.Items) == 0 {
			err = errors.New("there is no ConfigMap")
		}
		return err
	})
	if err == nil {
		err = w.update(ctx, n)
	}
	return errors.Join(err, w.restartAPI(ctx, "east"))
}

// finish waits until a rolling update is complete, and the Pods of before have gone.
func (w *world) finish(ctx context.Context, n *window, began time.Time) error {
	if err := w.rollout(ctx, "west", "linkerd/"+w.gateway.deployment); err != nil {
		return err
	}
	n.note = fmt.Sprintf("rollout status ends after %.0f s", time.Since(began).Seconds())
	return await(ctx, "the Pods of before have gone", func() error {
		list, err := w.clients["west"].CoreV1().
			Pods("linkerd").
			List(ctx, metav1.ListOptions{LabelSelector: w.gateway.selector})
		if err == nil &&
			slices.ContainsFunc(list.Items, func(p corev1.Pod) bool { return p.DeletionTimestamp != nil }) {
			err = errors.New("one is there")
		}
		return err
	})
}

// lose cuts the power of the node that no client is on, and gives it back.
func (w *world) lose(ctx context.Context, n *window) error {
	pods, err := w.pods(ctx, 2)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(pods, func(p corev1.Pod) bool { return p.Spec.NodeName == "west-2" })
	if i < 0 {
		return errors.New("no replica is on west-2")
	}
	n.silent, n.address = time.Now(), addressOf(pods[i])
	if err := w.loseNode(ctx, "west-2"); err != nil {
		return err
	}
	p := places[1]
	if err := w.awaitNode(ctx, p, false); err != nil {
		return err
	}
	n.note = fmt.Sprintf("not Ready after %.0f s", time.Since(n.began).Seconds())
	if err := harness.Pause(ctx, 2*time.Minute-time.Since(n.began)); err != nil {
		return err
	}
	if err := w.startNode(ctx, p); err != nil {
		return err
	}
	if err := w.awaitNode(ctx, p, true); err != nil {
		return err
	}
	_, err = w.pods(ctx, 2)
	return err
}
