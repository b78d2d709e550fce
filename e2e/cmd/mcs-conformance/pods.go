package main

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"isthmus/e2e/kube"
	"isthmus/e2e/poll"
)

// runPods stands in for scheduler and kubelet until it is undone: Pods become Running, and nothing is behind them. It looks at the
// API ten times a second; what fails is done after the next look.
func runPods(c *kube.Client) (undo func() error) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		for poll.Pause(ctx, 100*time.Millisecond) == nil {
			list, err := c.CoreV1().Pods("").List(ctx, metav1.ListOptions{FieldSelector: "status.phase!=Running"})
			if err != nil {
				continue
			}
			for i := range list.Items {
				list.Items[i].Status.Phase = corev1.PodRunning
				c.CoreV1().Pods(list.Items[i].Namespace).UpdateStatus(ctx, &list.Items[i], metav1.UpdateOptions{})
			}
		}
	})
	return func() error {
		cancel()
		running.Wait()
		return nil
	}
}
