package shop

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// Run stands in for the scheduler and the nodes until ctx ends. It takes up again what it did when an API server was away.
func (c *Cluster) Run(ctx context.Context) {
	retry := time.NewTicker(100 * time.Millisecond)
	defer retry.Stop()
	for {
		err := c.follow(ctx)
		c.mu.Lock()
		c.lost = err
		c.mu.Unlock()
		select {
		case <-retry.C:
		case <-ctx.Done():
			return
		}
	}
}

// follow does what each Pod waits for, those that there are first, until that fails.
func (c *Cluster) follow(ctx context.Context) error {
	pods, err := c.CoreV1().Pods(Namespace).Watch(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("watch Pods: %w", err)
	}
	defer pods.Stop()
	for event := range pods.ResultChan() {
		pod, ok := event.Object.(*corev1.Pod)
		if !ok {
			return fmt.Errorf("watch Pods: %w", apierrors.FromObject(event.Object))
		}
		if event.Type == watch.Deleted {
			continue
		}
		if err := c.advance(ctx, pod); err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("advance Pod %s: %w", pod.Name, err)
		}
	}
	return errors.New("the API server ended a watch")
}

// advance brings a Pod to what comes next: a node, an address, or its end. Then it is seen again.
func (c *Cluster) advance(ctx context.Context, pod *corev1.Pod) error {
	c.seen(pod)
	pods := c.CoreV1().Pods(Namespace)
	switch {
	case pod.DeletionTimestamp != nil: // it had its time to end
		return pods.Delete(ctx, pod.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))})
	case pod.Spec.NodeName == "":
		return pods.Bind(ctx, &corev1.Binding{ObjectMeta: pod.ObjectMeta, Target: corev1.ObjectReference{Kind: "Node", Name: c.nextNode(pod.Labels["app"])}}, metav1.CreateOptions{})
	case pod.Status.PodIP == "":
		return c.start(ctx, pod)
	}
	return nil
}

// start gives a Pod an address and makes it ready.
func (c *Cluster) start(ctx context.Context, pod *corev1.Pod) error {
	now := metav1.Now()
	addr := c.nextAddr().String()
	pod.Status = corev1.PodStatus{
		Phase: corev1.PodRunning, PodIP: addr, PodIPs: []corev1.PodIP{{IP: addr}}, StartTime: &now,
		Conditions: []corev1.PodCondition{
			{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: now},
			{Type: corev1.ContainersReady, Status: corev1.ConditionTrue, LastTransitionTime: now},
		},
	}
	for _, container := range pod.Spec.Containers {
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, corev1.ContainerStatus{
			Name: container.Name, Image: container.Image, Ready: true,
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}},
		})
	}
	c.mu.Lock()
	c.started = time.Now()
	c.mu.Unlock()
	_, err := c.CoreV1().Pods(Namespace).UpdateStatus(ctx, pod, metav1.UpdateOptions{})
	return err
}

// nextNode returns the node of a Deployment's next Pod: they take turns.
func (c *Cluster) nextNode(deployment string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.placed == nil {
		c.placed = map[string]int{}
	}
	zones := c.zones()
	node := zones[c.placed[deployment]%len(zones)].Node
	c.placed[deployment]++
	return node
}

// seen notes a Pod's address, so that no later one gets it.
func (c *Cluster) seen(pod *corev1.Pod) {
	addr, err := netip.ParseAddr(pod.Status.PodIP)
	if err != nil || !addr.Is4() {
		return
	}
	b := addr.As4()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lastPod = max(c.lastPod, int(b[2])*250+int(b[3]))
}

// nextAddr returns an address that no Pod has had.
func (c *Cluster) nextAddr() netip.Addr {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lastPod++
	n := c.lastPod - 1
	return netip.AddrFrom4([4]byte{10, c.subnet, byte(n / 250), byte(n%250 + 1)})
}
